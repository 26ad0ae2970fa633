//! Whether one piece of evidence could satisfy two Peers.

use std::collections::{BTreeMap, BTreeSet};

use sealane_types::{Measurement, PeerName, PublicKey};

use super::Finding;
use crate::document::{
    Entry, NitroMeasurement, NitroReference, PolicyPeer, Reference, SnpIdentity, SnpReference,
    TdxMeasurement, TdxReference, Workload,
};
use crate::limits::FINDINGS_MAX;

/// What evidence must have in common before anything else is compared. Entries meet only in the bucket of a
/// value that both accept, so a large document costs about as much as its largest bucket.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Pinned {
    Snp(Measurement),
    /// MRTD and RTMR0–2, which every entry pins.
    Tdx([Measurement; 4]),
    /// PCR0–2, which every entry pins.
    Nitro([Measurement; 3]),
    Key(PublicKey),
}

#[derive(Clone, Copy)]
struct Place<'d> {
    peer: &'d PeerName,
    shared: bool,
    index: usize,
    entry: &'d Entry,
}

/// Pairs of Peers that one piece of evidence can satisfy and that do not both declare it; each pair once.
pub(super) fn overlaps(peers: &BTreeMap<PeerName, PolicyPeer>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut reported = BTreeSet::new();
    for places in buckets(peers).into_values() {
        for (position, first) in places.iter().enumerate() {
            for second in places.iter().skip(position + 1) {
                let declared = first.shared && second.shared;
                if first.peer == second.peer || declared || !meet(first.entry, second.entry) {
                    continue;
                }
                if reported.insert((first.peer, second.peer)) {
                    findings.push(Finding::SharedEvidence {
                        first: first.peer.clone(),
                        first_entry: first.index,
                        second: second.peer.clone(),
                        second_entry: second.index,
                    });
                }
                if findings.len() == FINDINGS_MAX {
                    return findings;
                }
            }
        }
    }
    findings
}

fn buckets(peers: &BTreeMap<PeerName, PolicyPeer>) -> BTreeMap<Pinned, Vec<Place<'_>>> {
    let mut buckets: BTreeMap<Pinned, Vec<Place<'_>>> = BTreeMap::new();
    for (peer, described) in peers {
        for (index, entry) in described.entries.iter().enumerate() {
            let place = Place { peer, shared: described.shared_evidence, index, entry };
            for pinned in pinned(&entry.reference) {
                buckets.entry(pinned).or_default().push(place);
            }
        }
    }
    buckets
}

fn pinned(reference: &Reference) -> Vec<Pinned> {
    match reference {
        Reference::SevSnp(snp) => snp.measurements.iter().copied().map(Pinned::Snp).collect(),
        Reference::Tdx(tdx) => tdx.measurements.iter().map(tdx_pinned).collect(),
        Reference::Nitro(nitro) => nitro.measurements.iter().map(|pins| Pinned::Nitro(pins.image)).collect(),
        Reference::Key(keys) => keys.iter().copied().map(Pinned::Key).collect(),
    }
}

/// Whether some evidence satisfies both entries, which already share a form and a pinned value.
fn meet(first: &Entry, second: &Entry) -> bool {
    let values_meet = match (&first.reference, &second.reference) {
        (Reference::SevSnp(first), Reference::SevSnp(second)) => snp_meet(first, second),
        (Reference::Nitro(first), Reference::Nitro(second)) => nitro_meet(first, second),
        (Reference::Tdx(first), Reference::Tdx(second)) => tdx_meet(first, second),
        _ => true,
    };
    first.root == second.root && values_meet && workloads_meet(first, second)
}

fn snp_meet(first: &SnpReference, second: &SnpReference) -> bool {
    common(&first.host_data, &second.host_data)
        && common(&first.products, &second.products)
        && common(&first.chip_ids, &second.chip_ids)
        && identities_meet(&first.identity, &second.identity)
}

/// Whether a document with some measurement that both accept has a module id that both accept. How old it may be
/// tells nobody apart.
fn nitro_meet(first: &NitroReference, second: &NitroReference) -> bool {
    let measurements_meet = |first: &NitroMeasurement| {
        second.measurements.iter().any(|second| {
            let agree = |(index, pcr): (&u8, &Measurement)| {
                second.registers.get(index).is_none_or(|other| other == pcr)
            };
            first.image == second.image && first.registers.iter().all(agree)
        })
    };
    common(&first.module_ids, &second.module_ids) && first.measurements.iter().any(measurements_meet)
}

fn tdx_pinned(measurement: &TdxMeasurement) -> Pinned {
    let [rtmr0, rtmr1, rtmr2] = measurement.rtmr;
    Pinned::Tdx([measurement.mrtd, rtmr0, rtmr1, rtmr2])
}

/// Whether a trust domain that both describe can state values that both accept. Statuses of the platform and
/// permissions tell nobody apart.
fn tdx_meet(first: &TdxReference, second: &TdxReference) -> bool {
    let meets = |one: &TdxMeasurement| {
        second.measurements.iter().any(|other| one.accepts(other) || other.accepts(one))
    };
    first.measurements.iter().any(meets)
        && common(&first.mr_config_ids, &second.mr_config_ids)
        && common(&first.mr_owners, &second.mr_owners)
        && common(&first.mr_owner_configs, &second.mr_owner_configs)
        && common(&first.fmspcs, &second.fmspcs)
        && common(&first.platform_ids, &second.platform_ids)
        && common(&first.attributes, &second.attributes)
        && common(&first.xfams, &second.xfams)
}

fn identities_meet(first: &SnpIdentity, second: &SnpIdentity) -> bool {
    common(&first.id_keys, &second.id_keys)
        && common(&first.author_keys, &second.author_keys)
        && common(&first.family_ids, &second.family_ids)
        && common(&first.image_ids, &second.image_ids)
}

/// An empty set accepts everything.
fn common<T: Ord>(first: &BTreeSet<T>, second: &BTreeSet<T>) -> bool {
    first.is_empty() || second.is_empty() || !first.is_disjoint(second)
}

/// A node agent's statement tells two pods of one node apart only where both entries insist on it.
fn workloads_meet(first: &Entry, second: &Entry) -> bool {
    if first.unverified_workload || second.unverified_workload {
        return true;
    }
    let (Some(first), Some(second)) = (&first.workload, &second.workload) else { return true };
    let Workload { service_account, images: _ } = first;
    *service_account == second.service_account && common(&first.digests(), &second.digests())
}
