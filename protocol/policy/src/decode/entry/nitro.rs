//! What an entry for Nitro evidence pins and permits.

use sealane_types::Measurement;

use super::super::flag;
use super::printable;
use crate::document::{NitroMeasurement, NitroPermissions, NitroReference, PCRS};
use crate::field::{Field, FieldError, Object};
use crate::limits::{NITRO_AGE_SECONDS_DEFAULT, NITRO_AGE_SECONDS_MAX, VALUES_MAX};

const MEASUREMENTS_EXAMPLE: &str =
    r#""measurements": [{"pcr0": "<96 hex digits>", "pcr1": "…", "pcr2": "…"}]"#;
const PCR: &str = "96 lower-case hex digits (SHA-384)";

pub(super) fn reference(object: &mut Object<'_>) -> Result<NitroReference, FieldError> {
    let measurements = object.optional("measurements", MEASUREMENTS_EXAMPLE);
    let measurements = measurements.map(|field| field.set(VALUES_MAX, measurement)).transpose()?;
    let module_ids =
        object.optional("moduleIds", r#""moduleIds": ["i-0bee92034f3d60691-enc01943c5eaab3ad6a"]"#);
    let module_ids = module_ids
        .map(|field| field.set(VALUES_MAX, |module| printable(module, "the module_id of an enclave")))
        .transpose()?;
    let max_age_seconds = object
        .optional("maxAgeSeconds", r#""maxAgeSeconds": 300"#)
        .map_or(Ok(NITRO_AGE_SECONDS_DEFAULT), |field| field.integer(1, NITRO_AGE_SECONDS_MAX))?;
    let debug = flag(object, "allowDebug", r#""allowDebug": false"#, false)?;
    Ok(NitroReference {
        measurements: measurements.unwrap_or_default(),
        module_ids: module_ids.unwrap_or_default(),
        max_age_seconds,
        permissions: NitroPermissions { debug },
    })
}

fn measurement(field: &Field<'_>) -> Result<NitroMeasurement, FieldError> {
    let mut object = field.clone().object()?;
    let mut required = |name, example| object.required(name, example)?.parse::<Measurement>(PCR);
    let image = [
        required("pcr0", r#""pcr0": "<96 hex digits>""#)?,
        required("pcr1", r#""pcr1": "<96 hex digits>""#)?,
        required("pcr2", r#""pcr2": "<96 hex digits>""#)?,
    ];
    let mut measurement = NitroMeasurement::of(image);
    for (index, name) in (0_u8..).zip(PCRS).skip(image.len()) {
        if let Some(field) = object.optional(name, r#""pcr3": "<96 hex digits>""#) {
            measurement.registers.insert(index, field.parse::<Measurement>(PCR)?);
        }
    }
    object.close()?;
    Ok(measurement)
}
