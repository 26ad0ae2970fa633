//! Rules that concern several fields of a document. A document that breaks one is refused wherever it came
//! from; owners see the same text before they sign.

mod overlap;

use sealane_types::{Assurance, PeerName, Product, PublicKey};

use crate::document::{Document, Entry, NitroMeasurement, Pinnable, Reference, SessionKind, SnpReference};
use crate::limits::FINDINGS_MAX;
use crate::weak;

/// A rule that a document breaks, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    #[error(
        "`peers.{peer}` has no entries, so no replica can prove to be it; add one, for example: \"entries\": [{{\"kind\": \"SevSnp\", …}}]"
    )]
    NoEntries { peer: PeerName },
    #[error(
        "`peers.{peer}.entries[{entry}].measurements` pins no measurement, so any guest would do; add the launch digest, for example: \"measurements\": [\"<96 hex digits>\"]"
    )]
    NoMeasurement { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].minTcb` sets no TCB floor, so firmware with known holes would do; for example: \"minTcb\": {{\"bootloader\": 4, \"tee\": 0, \"snp\": 24, \"microcode\": 219}}"
    )]
    NoTcbFloor { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].tcbStatuses` accepts no status, so no platform would do; for example: \"tcbStatuses\": [\"UpToDate\"]"
    )]
    NoTcbStatus { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].measurements` pins PCR0 to PCR2 as zero, which every enclave in debug mode measures, whatever runs in it; pin the measurements of a build, or accept any with \"allowDebug\": true"
    )]
    DebugMeasurement { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].publicKeys` pins no key; for example: \"publicKeys\": [\"<64 hex digits>\"]"
    )]
    NoPublicKey { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].publicKeys` pins {key}, a point of small order for which anybody can sign; it was made by no key generator: pin the key that `sealane-sidecar keygen` printed"
    )]
    WeakPublicKey { peer: PeerName, entry: usize, key: PublicKey },
    #[error(
        "`peers.{peer}.entries[{entry}]` has assurance Node, whose evidence proves the node only; state the `workload` {{serviceAccount, images}} or accept it with \"allowUnverifiedWorkload\": true"
    )]
    WorkloadUnstated { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].{member}` pins no initdata, so any pod of this guest image would be the Peer; pin the digest of yours, or accept any with \"allowAnyInitdata\": true"
    )]
    InitdataOpen { peer: PeerName, entry: usize, member: &'static str },
    #[error(
        "`peers.{peer}.entries[{entry}].workload` is checked for assurance Node only; leave it out, or state \"assurance\": \"Node\""
    )]
    WorkloadUnchecked { peer: PeerName, entry: usize },
    #[error("`floors.complete` is true, but `peers.{peer}.entries[{entry}]` leaves open: {}", list(.absent))]
    Incomplete { peer: PeerName, entry: usize, absent: Vec<Pinnable> },
    #[error(
        "`peers.{first}.entries[{first_entry}]` and `peers.{second}.entries[{second_entry}]` can be satisfied by the same evidence, so one workload could pass for the other; pin different `hostData` (or measurements), or declare \"sharedEvidence\": true in both Peers"
    )]
    SharedEvidence { first: PeerName, first_entry: usize, second: PeerName, second_entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}]` pins `familyIds`, `imageIds` or `minGuestSvn`, which whoever starts the guest chooses unless a key signed them; pin `idKeyDigests` or `authorKeyDigests` besides"
    )]
    UnsignedIdentity { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].vlekProviders` names cloud providers whose keys the entry does not permit; add \"allowVlek\": true, or leave it out"
    )]
    ProviderNotPermitted { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].products` names Milan, whose evidence may be forged: the root seed of a Milan's signing key was extracted in public (May 2026); list other families, or accept it with \"allowMilan\": true and pin your own chips in `chipIds`"
    )]
    MilanNotPermitted { peer: PeerName, entry: usize },
    #[error(
        "`sessions[{session}]` names the Peer `{peer}`, which `peers` does not describe; add `peers.{peer}` or correct the name"
    )]
    UnknownPeer { session: usize, peer: PeerName },
    #[error(
        "`sessions[{session}].forward.targets` names no port, so nothing could be reached; for example: \"forward\": {{\"targets\": [8001]}}"
    )]
    NoTarget { session: usize },
}

fn list(absent: &[Pinnable]) -> String {
    absent.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Every rule that `document` breaks, at most [`FINDINGS_MAX`].
#[must_use]
pub fn lint(document: &Document) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (peer, described) in &document.peers {
        if described.entries.is_empty() {
            findings.push(Finding::NoEntries { peer: peer.clone() });
        }
        for (index, entry) in described.entries.iter().enumerate() {
            lint_entry(peer, index, entry, document.floors.complete, &mut findings);
        }
    }
    for (session, rule) in document.sessions.iter().enumerate() {
        let unknown = std::iter::once(&rule.from).chain(&rule.to);
        let unknown = unknown.filter(|peer| !document.peers.contains_key(*peer));
        findings.extend(unknown.map(|peer| Finding::UnknownPeer { session, peer: peer.clone() }));
        if matches!(&rule.kind, SessionKind::Forward { targets } if targets.is_empty()) {
            findings.push(Finding::NoTarget { session });
        }
    }
    findings.extend(overlap::overlaps(&document.peers));
    findings.truncate(FINDINGS_MAX);
    findings
}

fn lint_entry(peer: &PeerName, index: usize, entry: &Entry, complete: bool, findings: &mut Vec<Finding>) {
    let at = || (peer.clone(), index);
    let (measured, floored, keyed) = match &entry.reference {
        Reference::SevSnp(snp) => (!snp.measurements.is_empty(), snp.min_tcb.is_floor(), true),
        Reference::Tdx(tdx) => (!tdx.measurements.is_empty(), true, true),
        Reference::Nitro(nitro) => (!nitro.measurements.is_empty(), true, true),
        Reference::Key(keys) => (true, true, !keys.is_empty()),
    };
    if !measured {
        let (peer, entry) = at();
        findings.push(Finding::NoMeasurement { peer, entry });
    }
    if pins_debug(&entry.reference) {
        let (peer, entry) = at();
        findings.push(Finding::DebugMeasurement { peer, entry });
    }
    // Nobody releases firmware for a simulation.
    if !floored && entry.root.is_none() {
        let (peer, entry) = at();
        findings.push(Finding::NoTcbFloor { peer, entry });
    }
    if matches!(&entry.reference, Reference::Tdx(tdx) if tdx.tcb_statuses.is_empty()) {
        let (peer, entry) = at();
        findings.push(Finding::NoTcbStatus { peer, entry });
    }
    if !keyed {
        let (peer, entry) = at();
        findings.push(Finding::NoPublicKey { peer, entry });
    }
    if let Reference::Key(keys) = &entry.reference {
        let weak = keys.iter().filter(|key| weak::signs_for_anybody(key));
        findings.extend(weak.map(|key| Finding::WeakPublicKey {
            peer: peer.clone(),
            entry: index,
            key: *key,
        }));
    }
    if let Reference::SevSnp(snp) = &entry.reference {
        lint_snp(peer, index, snp, findings);
    }
    if entry.assurance == Assurance::Pod
        && let Some(member) = open_initdata(&entry.reference)
    {
        let (peer, entry) = at();
        findings.push(Finding::InitdataOpen { peer, entry, member });
    }
    let node = entry.assurance == Assurance::Node;
    if node && entry.workload.is_none() && !entry.unverified_workload {
        let (peer, entry) = at();
        findings.push(Finding::WorkloadUnstated { peer, entry });
    }
    // A simulation stands for either.
    if !node && entry.root.is_none() && entry.workload.is_some() {
        let (peer, entry) = at();
        findings.push(Finding::WorkloadUnchecked { peer, entry });
    }
    let absent = entry.absent();
    if complete && !absent.is_empty() {
        let (peer, entry) = at();
        findings.push(Finding::Incomplete { peer, entry, absent });
    }
}

/// The member that would tell pods of one guest image apart, where it is left open and nobody said that any will do.
fn open_initdata(reference: &Reference) -> Option<&'static str> {
    match reference {
        Reference::SevSnp(snp) if snp.host_data.is_empty() && !snp.any_initdata => Some("hostData"),
        Reference::Tdx(tdx) if tdx.mr_config_ids.is_empty() && !tdx.any_initdata => Some("mrConfigId"),
        // A measured enclave is the pod.
        Reference::SevSnp(_) | Reference::Tdx(_) | Reference::Nitro(_) | Reference::Key(_) => None,
    }
}

/// Whether a debug enclave is pinned and not permitted: no evidence could ever satisfy such a measurement.
fn pins_debug(reference: &Reference) -> bool {
    let Reference::Nitro(nitro) = reference else { return false };
    !nitro.permissions.debug && nitro.measurements.iter().any(NitroMeasurement::is_debug)
}

fn lint_snp(peer: &PeerName, index: usize, snp: &SnpReference, findings: &mut Vec<Finding>) {
    let at = || (peer.clone(), index);
    if snp.identity.is_unsigned() {
        let (peer, entry) = at();
        findings.push(Finding::UnsignedIdentity { peer, entry });
    }
    if !snp.permissions.vlek && !snp.vlek_providers.is_empty() {
        let (peer, entry) = at();
        findings.push(Finding::ProviderNotPermitted { peer, entry });
    }
    if !snp.permissions.milan && snp.products.contains(&Product::Milan) {
        let (peer, entry) = at();
        findings.push(Finding::MilanNotPermitted { peer, entry });
    }
}
