//! Which entry of a Peer fits the claims, and if none does, what the closest one lacks.

use sealane_policy::Entry;
use sealane_types::{Assurance, Platform, TcbStatus};

use super::verified::Degradation;
use crate::claims::Claims;
use crate::rejection::{Rejection, TcbVersion};

/// What a fitting entry makes of the claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) assurance: Assurance,
    pub(super) tcb_status: TcbStatus,
    pub(super) degradations: Vec<Degradation>,
}

type Check = fn(&Claims, &Entry) -> Result<(), Rejection>;

/// From the coarse to the fine: the entry that passes most of them came closest, and its shortfall is what
/// helps whoever reads it.
const CHECKS: &[Check] = &[platform, root, measurement, host_data, product, chip, tcb, permissions, workload];

/// The verdict of the first of `entries` that fits; `complete` refuses those that leave a value open.
pub(super) fn best(claims: &Claims, entries: &[Entry], complete: bool) -> Result<Verdict, Rejection> {
    let mut closest = (0, Rejection::PlatformNotAllowed(claims.platform()));
    for entry in entries {
        match fit(claims, entry, complete) {
            Ok(verdict) => return Ok(verdict),
            Err((passed, shortfall)) if passed > closest.0 => closest = (passed, shortfall),
            Err(_) => {}
        }
    }
    Err(closest.1)
}

/// The verdict, or how many checks the entry passed and what it then lacked.
fn fit(claims: &Claims, entry: &Entry, complete: bool) -> Result<Verdict, (usize, Rejection)> {
    for (passed, check) in CHECKS.iter().enumerate() {
        check(claims, entry).map_err(|shortfall| (passed, shortfall))?;
    }
    let absent = entry.absent();
    if let Some(value) = absent.first().filter(|_| complete) {
        return Err((CHECKS.len(), Rejection::ReferenceValueMissing(*value)));
    }
    let mut degradations: Vec<_> = absent.into_iter().map(Degradation::ReferenceValueMissing).collect();
    if needs_node_agent(entry) {
        degradations.push(Degradation::WorkloadUnverified);
    }
    // The policy's parser holds the same; software never counts for more because of how an entry is written.
    let simulated = claims.platform() == Platform::Simulated;
    let assurance = if simulated { Assurance::Simulated } else { entry.assurance };
    Ok(Verdict { assurance, tcb_status: TcbStatus::UpToDate, degradations })
}

fn require(holds: bool, otherwise: Rejection) -> Result<(), Rejection> {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn platform(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    require(claims.platform() == entry.kind, Rejection::PlatformNotAllowed(claims.platform()))
}

/// Real roots are pinned in the collateral; a simulated one is whatever the evidence brought, until here.
fn root(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    let pinned = claims.platform() != Platform::Simulated || entry.root == Some(*claims.root());
    require(pinned, Rejection::Root)
}

/// Unlike the values below, measurements are never left open: an entry without any fits nothing.
fn measurement(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    require(entry.measurements.contains(claims.measurement()), Rejection::Measurement)
}

fn host_data(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    let accepted = entry.host_data.is_empty() || entry.host_data.contains(claims.host_data());
    require(accepted, Rejection::HostData)
}

fn product(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    let accepted = entry.products.is_empty() || entry.products.contains(&claims.product());
    require(accepted, Rejection::Product)
}

/// A masked chip id fits no pinned one.
fn chip(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    let pinned = |chip| entry.chip_ids.contains(chip);
    require(entry.chip_ids.is_empty() || claims.chip_id().is_some_and(pinned), Rejection::Chip)
}

fn tcb(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    let tcb = claims.tcb();
    let versions = [
        (TcbVersion::Reported, tcb.reported),
        (TcbVersion::Committed, tcb.committed),
        (TcbVersion::Launch, tcb.launch),
    ];
    match versions.into_iter().find(|(_, found)| !found.satisfies(&entry.min_tcb)) {
        Some((version, found)) => Err(Rejection::TcbTooLow { version, found }),
        None => Ok(()),
    }
}

fn permissions(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    claims.permitted(&entry.permissions)
}

fn workload(_: &Claims, entry: &Entry) -> Result<(), Rejection> {
    require(!needs_node_agent(entry) || entry.permissions.unverified_workload, Rejection::WorkloadUnverified)
}

/// Whether only a node agent could say that the workload is the right one; none speaks to this verifier yet.
fn needs_node_agent(entry: &Entry) -> bool {
    entry.assurance == Assurance::Node || entry.workload.is_some()
}
