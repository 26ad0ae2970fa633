//! Whether an SEV-SNP report shows what an entry asks for.

use sealane_policy::SnpReference;

use super::require;
use crate::claims::SnpClaims;
use crate::rejection::{Rejection, TcbVersion};

type Check = fn(&SnpClaims, &SnpReference) -> Result<(), Rejection>;

/// From the coarse to the fine.
pub(super) const CHECKS: &[Check] = &[measurement, host_data, product, chip, tcb, permissions];

/// Unlike the values below, measurements are never left open: an entry without any fits nothing.
fn measurement(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    require(reference.measurements.contains(claims.measurement()), Rejection::Measurement)
}

fn host_data(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let accepted = reference.host_data.is_empty() || reference.host_data.contains(claims.host_data());
    require(accepted, Rejection::HostData)
}

fn product(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let accepted = reference.products.is_empty() || reference.products.contains(&claims.product());
    require(accepted, Rejection::Product)
}

/// A masked chip id fits no pinned one.
fn chip(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let pinned = |chip| reference.chip_ids.contains(chip);
    require(reference.chip_ids.is_empty() || claims.chip_id().is_some_and(pinned), Rejection::Chip)
}

fn tcb(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    let tcb = claims.tcb();
    let versions = [
        (TcbVersion::Reported, tcb.reported),
        (TcbVersion::Committed, tcb.committed),
        (TcbVersion::Launch, tcb.launch),
    ];
    match versions.into_iter().find(|(_, found)| !found.satisfies(&reference.min_tcb)) {
        Some((version, found)) => Err(Rejection::TcbTooLow { version, found }),
        None => Ok(()),
    }
}

fn permissions(claims: &SnpClaims, reference: &SnpReference) -> Result<(), Rejection> {
    claims.permitted(&reference.permissions)
}
