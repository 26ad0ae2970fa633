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

/// Entries that the policy's own lint would refuse, and platforms that tests cannot be.
#[cfg(test)]
mod tests {
    use sealane_policy::{Permissions, Pinnable, Tcb as Floor, Workload};
    use sealane_types::{Digest, HostData, Measurement, Product, Reason, UnixSeconds};

    use super::*;
    use crate::claims::{Revocation, Tcb, TcbVersions};

    fn claims(platform: Platform) -> Claims {
        let tcb = Tcb { fmc: None, bootloader: 1, tee: 1, snp: 1, microcode: 1 };
        Claims {
            platform,
            root: Digest::new([1; 32]),
            report_version: 3,
            report_data: [0; 64],
            measurement: Measurement::new([2; 48]),
            host_data: HostData::new([3; 32]),
            product: Product::Genoa,
            chip_id: None,
            tcb: TcbVersions { current: tcb, reported: tcb, committed: tcb, launch: tcb },
            debug: false,
            migration: false,
            vlek: false,
            vmpl: 0,
            smt: false,
            revocation: Revocation::Checked,
            expires: UnixSeconds(0),
        }
    }

    fn entry(kind: Platform, assurance: Assurance) -> Entry {
        Entry {
            kind,
            assurance,
            measurements: [Measurement::new([2; 48])].into(),
            host_data: [HostData::new([3; 32])].into(),
            products: [Product::Genoa].into(),
            chip_ids: [].into(),
            min_tcb: Floor { fmc: None, bootloader: Some(1), tee: Some(1), snp: Some(1), microcode: Some(1) },
            workload: None,
            permissions: Permissions::default(),
            public_keys: [].into(),
            root: None,
        }
    }

    fn verdict(entry: Entry, complete: bool) -> Result<Verdict, Rejection> {
        best(&claims(entry.kind), &[entry], complete)
    }

    #[test]
    fn an_entry_without_measurements_or_entries_at_all_fits_nothing() {
        let open = Entry { measurements: [].into(), ..entry(Platform::SevSnp, Assurance::Pod) };
        assert_eq!(verdict(open, false), Err(Rejection::Measurement));
        let refused = best(&claims(Platform::SevSnp), &[], false).unwrap_err();
        assert_eq!(refused, Rejection::PlatformNotAllowed(Platform::SevSnp));
    }

    #[test]
    fn a_simulated_root_is_never_left_open_and_never_counts_for_more() {
        let rootless = entry(Platform::Simulated, Assurance::Pod);
        assert_eq!(verdict(rootless.clone(), false), Err(Rejection::Root));
        let rooted = Entry { root: Some(Digest::new([1; 32])), ..rootless };
        assert_eq!(verdict(rooted, false).unwrap().assurance, Assurance::Simulated);
    }

    #[test]
    fn complete_floors_refuse_what_is_left_open() {
        let open = Entry { products: [].into(), ..entry(Platform::SevSnp, Assurance::Pod) };
        let degraded = verdict(open.clone(), false).unwrap();
        assert_eq!(degraded.degradations, [Degradation::ReferenceValueMissing(Pinnable::Products)]);
        assert_eq!(verdict(open, true), Err(Rejection::ReferenceValueMissing(Pinnable::Products)));
    }

    #[test]
    fn evidence_of_a_node_does_not_prove_a_workload() {
        let node = entry(Platform::SevSnp, Assurance::Node);
        let workload = Workload { service_account: "embedder".to_owned(), images: [].into() };
        let stated = Entry { workload: Some(workload), ..entry(Platform::SevSnp, Assurance::Pod) };
        for unproved in [node.clone(), stated] {
            assert_eq!(verdict(unproved, false).unwrap_err().reason(), Reason::WorkloadUnverified);
        }
        let permissions = Permissions { unverified_workload: true, ..Permissions::default() };
        let tolerated = verdict(Entry { permissions, ..node }, true).unwrap();
        assert_eq!(tolerated.assurance, Assurance::Node);
        assert_eq!(tolerated.degradations, [Degradation::WorkloadUnverified]);
    }
}
