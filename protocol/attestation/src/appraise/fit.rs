//! Which entry of a Peer fits the claims, and if none does, what the closest one lacks.

mod nitro;
mod snp;
mod tdx;

use sealane_policy::{Entry, Reference};
use sealane_types::{Assurance, Platform, UnixSeconds};

use super::verified::Degradation;
use crate::claims::{Claims, Statement};
use crate::rejection::Rejection;

/// What a fitting entry makes of the claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) assurance: Assurance,
    pub(super) degradations: Vec<Degradation>,
}

/// The verdict on claims that were `shown` at that time, by the first of `entries` that fits; `complete` refuses those
/// that leave a value open.
pub(super) fn best(
    claims: &Claims,
    shown: UnixSeconds,
    entries: &[Entry],
    complete: bool,
) -> Result<Verdict, Rejection> {
    let mut closest = (0, Rejection::PlatformNotAllowed(claims.platform()));
    for entry in entries {
        match fit(claims, shown, entry, complete) {
            Ok(verdict) => return Ok(verdict),
            Err((passed, shortfall)) if passed > closest.0 => closest = (passed, shortfall),
            Err(_) => {}
        }
    }
    Err(closest.1)
}

/// The verdict, or how many checks the entry passed and what it then lacked.
fn fit(
    claims: &Claims,
    shown: UnixSeconds,
    entry: &Entry,
    complete: bool,
) -> Result<Verdict, (usize, Rejection)> {
    let mut passed = 0;
    check(claims, shown, entry, &mut passed).map_err(|shortfall| (passed, shortfall))?;
    let mut absent = entry.absent();
    if let (Statement::SevSnp(claims), Reference::SevSnp(reference)) = (claims.statement(), &entry.reference)
    {
        absent.extend(snp::absent(claims, reference));
    }
    if let Some(value) = absent.first().filter(|_| complete) {
        return Err((passed, Rejection::ReferenceValueMissing(*value)));
    }
    let mut degradations: Vec<_> = absent.into_iter().map(Degradation::ReferenceValueMissing).collect();
    if needs_node_agent(entry) {
        degradations.push(Degradation::WorkloadUnverified);
    }
    // The policy's parser holds the same; software never counts for more because of how an entry is written.
    let simulated = claims.platform() == Platform::Simulated;
    let assurance = if simulated { Assurance::Simulated } else { entry.assurance };
    Ok(Verdict { assurance, degradations })
}

/// From the coarse to the fine: the entry that passes most checks came closest, and its shortfall is what helps
/// whoever reads it.
fn check(claims: &Claims, shown: UnixSeconds, entry: &Entry, passed: &mut usize) -> Result<(), Rejection> {
    let mut count = |held: Result<(), Rejection>| held.map(|()| *passed = passed.saturating_add(1));
    count(platform(claims, entry))?;
    count(root(claims, entry))?;
    match (claims.statement(), &entry.reference) {
        (Statement::SevSnp(claims), Reference::SevSnp(reference)) => {
            snp::CHECKS.iter().try_for_each(|check| count(check(claims, reference)))?;
        }
        (Statement::Tdx(claims), Reference::Tdx(reference)) => {
            tdx::CHECKS.iter().try_for_each(|check| count(check(claims, reference)))?;
        }
        (Statement::Nitro(claims), Reference::Nitro(reference)) => {
            nitro::CHECKS.iter().try_for_each(|check| count(check(claims, reference, shown)))?;
        }
        // A simulation of another platform than the entry's.
        _ => return Err(Rejection::PlatformNotAllowed(claims.platform())),
    }
    count(workload(entry))
}

fn require(holds: bool, otherwise: Rejection) -> Result<(), Rejection> {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn platform(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    require(claims.platform() == entry.kind(), Rejection::PlatformNotAllowed(claims.platform()))
}

/// Real roots are pinned in the collateral; a simulated one is whatever the evidence brought, until here.
fn root(claims: &Claims, entry: &Entry) -> Result<(), Rejection> {
    let pinned = claims.platform() != Platform::Simulated || entry.root == Some(*claims.root());
    require(pinned, Rejection::Root)
}

fn workload(entry: &Entry) -> Result<(), Rejection> {
    require(!needs_node_agent(entry) || entry.unverified_workload, Rejection::WorkloadUnverified)
}

/// Whether only a node agent could say that the workload is the right one; none speaks to this verifier yet.
fn needs_node_agent(entry: &Entry) -> bool {
    entry.assurance == Assurance::Node || entry.workload.is_some()
}

/// Entries that the policy's own lint would refuse, and platforms that tests cannot be.
#[cfg(test)]
mod tests {
    use sealane_policy::{Pinnable, SnpReference, Tcb as Floor, Workload};
    use sealane_types::{Digest, GuestLabel, HostData, Measurement, Product, Reason, TcbStatus, UnixSeconds};

    use super::*;
    use crate::claims::{GuestIdentity, Revocation, SnpClaims, Tcb, TcbVersions};

    fn claims(platform: Platform) -> Claims {
        let tcb = Tcb { fmc: None, bootloader: 1, tee: 1, snp: 1, microcode: 1 };
        let statement = SnpClaims {
            report_version: 3,
            measurement: Measurement::new([2; 48]),
            host_data: HostData::new([3; 32]),
            product: Product::Genoa,
            chip_id: None,
            provider: None,
            identity: GuestIdentity {
                id_key: None,
                author_key: None,
                family_id: GuestLabel::new([0; 16]),
                image_id: GuestLabel::new([0; 16]),
                svn: 0,
            },
            tcb: TcbVersions { current: tcb, reported: tcb, committed: tcb, launch: tcb },
            mitigations: None,
            protections: [].into(),
            debug: false,
            migration: false,
            vmpl: 0,
            smt: false,
            cxl: false,
            tio: false,
        };
        Claims {
            platform,
            root: Digest::new([1; 32]),
            report_data: Some([0; 64]),
            statement: Statement::SevSnp(statement),
            tcb_status: TcbStatus::UpToDate,
            revocation: Revocation::Checked,
            expires: UnixSeconds(0),
        }
    }

    fn reference() -> SnpReference {
        SnpReference {
            measurements: [Measurement::new([2; 48])].into(),
            host_data: [HostData::new([3; 32])].into(),
            products: [Product::Genoa].into(),
            min_tcb: Floor { fmc: None, bootloader: Some(1), tee: Some(1), snp: Some(1), microcode: Some(1) },
            ..SnpReference::default()
        }
    }

    fn entry(assurance: Assurance) -> Entry {
        pinning(assurance, reference())
    }

    fn pinning(assurance: Assurance, reference: SnpReference) -> Entry {
        Entry {
            assurance,
            root: None,
            workload: None,
            unverified_workload: false,
            reference: Reference::SevSnp(reference),
        }
    }

    fn verdict(entry: Entry, complete: bool) -> Result<Verdict, Rejection> {
        best(&claims(entry.kind()), UnixSeconds(0), &[entry], complete)
    }

    #[test]
    fn an_entry_without_measurements_or_entries_at_all_fits_nothing() {
        let open = pinning(Assurance::Pod, SnpReference { measurements: [].into(), ..reference() });
        assert_eq!(verdict(open, false), Err(Rejection::Measurement));
        let refused = best(&claims(Platform::SevSnp), UnixSeconds(0), &[], false).unwrap_err();
        assert_eq!(refused, Rejection::PlatformNotAllowed(Platform::SevSnp));
    }

    #[test]
    fn a_simulated_root_is_never_left_open_and_never_counts_for_more() {
        let rooted = |root| Entry { root: Some(Digest::new([root; 32])), ..entry(Assurance::Pod) };
        assert_eq!(verdict(rooted(2), false), Err(Rejection::Root));
        assert_eq!(verdict(rooted(1), false).unwrap().assurance, Assurance::Simulated);
        let simulated = best(&claims(Platform::Simulated), UnixSeconds(0), &[entry(Assurance::Pod)], false);
        assert_eq!(simulated, Err(Rejection::PlatformNotAllowed(Platform::Simulated)));
    }

    #[test]
    fn complete_floors_refuse_what_is_left_open() {
        let open = pinning(Assurance::Pod, SnpReference { products: [].into(), ..reference() });
        let degraded = verdict(open.clone(), false).unwrap();
        assert_eq!(degraded.degradations, [Degradation::ReferenceValueMissing(Pinnable::Products)]);
        assert_eq!(verdict(open, true), Err(Rejection::ReferenceValueMissing(Pinnable::Products)));
    }

    #[test]
    fn evidence_of_a_node_does_not_prove_a_workload() {
        let node = entry(Assurance::Node);
        let workload = Workload { service_account: "embedder".to_owned(), images: [].into() };
        let stated = Entry { workload: Some(workload), ..entry(Assurance::Pod) };
        for unproved in [node.clone(), stated] {
            assert_eq!(verdict(unproved, false).unwrap_err().reason(), Reason::WorkloadUnverified);
        }
        let tolerated = verdict(Entry { unverified_workload: true, ..node }, true).unwrap();
        assert_eq!(tolerated.assurance, Assurance::Node);
        assert_eq!(tolerated.degradations, [Degradation::WorkloadUnverified]);
    }
}
