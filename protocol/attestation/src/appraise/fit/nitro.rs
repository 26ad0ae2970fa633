//! Whether a Nitro attestation document shows what an entry asks for.

use sealane_policy::{NitroMeasurement, NitroReference};
use sealane_types::UnixSeconds;

use super::require;
use crate::aspect::Aspect;
use crate::claims::NitroClaims;
use crate::rejection::Rejection;

/// The time is that at which the evidence was shown in its handshake: a document that a later epoch judges again is no
/// older than it was then.
type Check = fn(&NitroClaims, &NitroReference, UnixSeconds) -> Result<(), Rejection>;

/// From the coarse to the fine. Debug mode comes first, because it is what an image of zeros means.
pub(super) const CHECKS: &[(Aspect, Check)] = &[
    (Aspect::Permissions, permissions),
    (Aspect::Measurement, image),
    (Aspect::Registers, place),
    (Aspect::Module, module),
    (Aspect::Age, age),
];

/// Never left open: an entry without measurements fits nothing.
fn image(claims: &NitroClaims, reference: &NitroReference, _: UnixSeconds) -> Result<(), Rejection> {
    require(of_image(claims, reference).next().is_some(), Rejection::Measurement)
}

fn place(claims: &NitroClaims, reference: &NitroReference, _: UnixSeconds) -> Result<(), Rejection> {
    let holds = |measured: &NitroMeasurement| {
        measured.registers.iter().all(|(index, pinned)| claims.pcr(*index) == Some(pinned))
    };
    require(of_image(claims, reference).any(holds), Rejection::Registers)
}

fn of_image<'r>(
    claims: &NitroClaims,
    reference: &'r NitroReference,
) -> impl Iterator<Item = &'r NitroMeasurement> {
    reference.measurements.iter().filter(|measured| measured.image == *claims.image())
}

fn module(claims: &NitroClaims, reference: &NitroReference, _: UnixSeconds) -> Result<(), Rejection> {
    let accepted = reference.module_ids.is_empty() || reference.module_ids.contains(claims.module_id());
    require(accepted, Rejection::Module)
}

fn age(claims: &NitroClaims, reference: &NitroReference, shown: UnixSeconds) -> Result<(), Rejection> {
    claims.fresh(reference.max_age_seconds, shown)
}

fn permissions(claims: &NitroClaims, reference: &NitroReference, _: UnixSeconds) -> Result<(), Rejection> {
    claims.permitted(&reference.permissions)
}
