//! What an entry for TDX evidence pins and permits.

use std::collections::BTreeSet;

use sealane_types::{Measurement, TcbStatus};

use super::super::flag;
use super::{any_initdata, printable, values};
use crate::document::{TdxMeasurement, TdxPermissions, TdxReference};
use crate::field::{Field, FieldError, Object};
use crate::limits::VALUES_MAX;

const MEASUREMENTS_EXAMPLE: &str =
    r#""measurements": [{"mrtd": "<96 hex digits>", "rtmr0": "…", "rtmr1": "…", "rtmr2": "…"}]"#;
const STATUSES_EXAMPLE: &str = r#""tcbStatuses": ["UpToDate"]"#;
const REGISTER: &str = "96 lower-case hex digits (SHA-384)";
const SVN: &str = "32 lower-case hex digits, one byte for each component in the order of the report's";
/// TDATTRIBUTES and XFAM.
const BITS: &str = "16 lower-case hex digits, in the order of the report's bytes";
/// Every status but Revoked: what Intel revoked is never accepted.
const STATUSES: &[TcbStatus] = &[
    TcbStatus::OutOfDate,
    TcbStatus::ConfigurationNeeded,
    TcbStatus::SoftwareHardeningNeeded,
    TcbStatus::UpToDate,
];

pub(super) fn reference(object: &mut Object<'_>) -> Result<TdxReference, FieldError> {
    let measurements = object.optional("measurements", MEASUREMENTS_EXAMPLE);
    let measurements = measurements.map(|field| field.set(VALUES_MAX, measurement)).transpose()?;
    let tcb_statuses = object.required("tcbStatuses", STATUSES_EXAMPLE)?;
    let tcb_statuses = tcb_statuses.set(STATUSES.len(), |status| status.word(STATUSES))?;
    let min_tcb_evaluation = object.optional("minTcbEvaluation", r#""minTcbEvaluation": 20"#);
    let min_tcb_evaluation =
        min_tcb_evaluation.map(|field| field.integer(0, u64::from(u32::MAX))).transpose()?;
    let mr_config_ids = registers(object, "mrConfigId", r#""mrConfigId": ["<96 hex digits>"]"#)?;
    let mr_owners = registers(object, "mrOwner", r#""mrOwner": ["<96 hex digits>"]"#)?;
    let mr_owner_configs = registers(object, "mrOwnerConfig", r#""mrOwnerConfig": ["<96 hex digits>"]"#)?;
    let fmspcs = values(
        object,
        "fmspcs",
        r#""fmspcs": ["b0c06f000000"]"#,
        VALUES_MAX,
        "12 lower-case hex digits (FMSPC)",
    )?;
    let platform_ids = values(
        object,
        "platformIds",
        r#""platformIds": ["<32 hex digits>"]"#,
        VALUES_MAX,
        "32 lower-case hex digits (PPID)",
    )?;
    let mr_seams = registers(object, "mrSeam", r#""mrSeam": ["<96 hex digits>"]"#)?;
    let min_tee_tcb_svn =
        object.optional("minTeeTcbSvn", r#""minTeeTcbSvn": "05010200000000000000000000000000""#);
    let min_tee_tcb_svn = min_tee_tcb_svn.map(|field| field.parse(SVN)).transpose()?;
    let refused = object.optional("refusedAdvisories", r#""refusedAdvisories": ["INTEL-SA-01245"]"#);
    let refused = refused
        .map(|field| field.set(VALUES_MAX, |advisory| printable(advisory, "the id of an advisory")))
        .transpose()?;
    let attributes = values(object, "attributes", r#""attributes": ["0000001000000000"]"#, VALUES_MAX, BITS)?;
    let xfams = values(object, "xfam", r#""xfam": ["e702060000000000"]"#, VALUES_MAX, BITS)?;
    Ok(TdxReference {
        measurements: measurements.unwrap_or_default(),
        mr_config_ids,
        any_initdata: any_initdata(object)?,
        mr_owners,
        mr_owner_configs,
        fmspcs,
        platform_ids,
        mr_seams,
        min_tee_tcb_svn,
        refused_advisories: refused.unwrap_or_default(),
        attributes,
        xfams,
        tcb_statuses,
        min_tcb_evaluation: min_tcb_evaluation.map(|number| u32::try_from(number).unwrap_or(u32::MAX)),
        permissions: permissions(object)?,
    })
}

fn registers(
    object: &mut Object<'_>,
    name: &'static str,
    example: &'static str,
) -> Result<BTreeSet<Measurement>, FieldError> {
    values(object, name, example, VALUES_MAX, REGISTER)
}

fn measurement(field: &Field<'_>) -> Result<TdxMeasurement, FieldError> {
    let mut object = field.clone().object()?;
    let mut register = |name, example| object.required(name, example)?.parse(REGISTER);
    let mrtd = register("mrtd", r#""mrtd": "<96 hex digits>""#)?;
    let rtmr = [
        register("rtmr0", r#""rtmr0": "<96 hex digits>""#)?,
        register("rtmr1", r#""rtmr1": "<96 hex digits>""#)?,
        register("rtmr2", r#""rtmr2": "<96 hex digits>""#)?,
    ];
    let rtmr3 = object.optional("rtmr3", r#""rtmr3": "<96 hex digits>", or leave it out"#);
    let rtmr3 = rtmr3.map(|field| field.parse(REGISTER)).transpose()?;
    object.close()?;
    Ok(TdxMeasurement { mrtd, rtmr, rtmr3 })
}

fn permissions(object: &mut Object<'_>) -> Result<TdxPermissions, FieldError> {
    Ok(TdxPermissions {
        debug: flag(object, "allowDebug", r#""allowDebug": false"#, false)?,
        migration: flag(object, "allowMigration", r#""allowMigration": false"#, false)?,
        sept_ve: flag(object, "allowSeptVe", r#""allowSeptVe": true"#, false)?,
        perfmon: flag(object, "allowPerfmon", r#""allowPerfmon": true"#, false)?,
        key_locker: flag(object, "allowKeyLocker", r#""allowKeyLocker": true"#, false)?,
        dynamic_platform: flag(object, "allowDynamicPlatform", r#""allowDynamicPlatform": true"#, false)?,
        cached_keys: flag(object, "allowCachedKeys", r#""allowCachedKeys": true"#, false)?,
        smt: flag(object, "allowSmt", r#""allowSmt": true"#, false)?,
        service_tds: registers(object, "mrServiceTd", r#""mrServiceTd": ["<96 hex digits>"]"#)?,
    })
}
