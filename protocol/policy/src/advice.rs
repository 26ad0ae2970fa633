//! What owners should know about a document that is valid: it says so in words, and refuses nothing.

use std::collections::BTreeSet;

use sealane_types::{CrlIssuer, HostData, Measurement, PeerName, Product, SnpProtection};

use crate::document::{Document, Entry, NitroMeasurement, Reference, SnpReference};

/// Something that a document permits and its owners may not have meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Advice {
    #[error(
        "`peers.{peer}.entries[{entry}].allowMilan` accepts any Milan: the root seed of a Milan's signing key was extracted in public (May 2026), so whoever holds such a chip can forge evidence of it; name your own chips in `chipIds` without `allowVlek`, or leave `allowMilan` out"
    )]
    MilanForgeable { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].minTcb` is one floor for several processor families, whose numbers do not compare; write one entry for each of `products`"
    )]
    FloorAcrossProducts { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].minTcb` leaves `fmc` open, which Turin has; for example: \"minTcb\": {{\"fmc\": 1, …}}"
    )]
    FmcOpen { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}]` permits keys of any cloud provider (VLEK); pin yours, for example: \"vlekProviders\": [\"CN=cc-us-east-2.amazonaws.com\"]"
    )]
    AnyProvider { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].chipIds` names chips, and `allowVlek` accepts a key that all chips of a provider share: it proves the provider, and the chip only as long as nobody has taken the key from any of them; leave `allowVlek` out where the chip has to be proved"
    )]
    ChipsUnderSharedKey { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}].{member}` accepts zero, which is that of every guest started without initdata: whoever starts the same image without any is this Peer"
    )]
    NoInitdata { peer: PeerName, entry: usize, member: &'static str },
    #[error(
        "`peers.{peer}.entries[{entry}].measurements[].pcr3` accepts zero, which is that of every enclave whose parent instance has no role: whoever starts the same image on any such instance is this Peer"
    )]
    NoRole { peer: PeerName, entry: usize },
    #[error(
        "`peers.{peer}.entries[{entry}]` does not insist on the memory alias check, so a host with prepared memory modules can read the guest (BadRAM); with firmware that reports it: \"require\": [\"AliasCheck\"]"
    )]
    AliasesUnchecked { peer: PeerName, entry: usize },
    #[error(
        "`collateral.maxAgeSeconds` is below 400 days, and AMD's revocation lists and that of Intel's root come about once a year: evidence of hardware is refused for a part of it; at least 34560000 lets them count"
    )]
    YearlyListsOutlived,
    #[error(
        "`collateral.minCrlNumber.{issuer}` tells nothing: Intel gives each of its lists the number 1; `minCrlIssued` bounds them by the date of their issue"
    )]
    ListsUnnumbered { issuer: CrlIssuer },
}

/// How old the lists of AMD's roots and of Intel's are before the next one comes, at most: Intel's of March 2025 was in force
/// for 379 days.
const YEARLY_LIST_SECONDS: u64 = 400 * 24 * 60 * 60;

/// Everything worth knowing about `document`.
#[must_use]
pub fn advice(document: &Document) -> Vec<Advice> {
    let mut said = Vec::new();
    let mut entries = document.peers.values().flat_map(|described| &described.entries);
    let listed = |entry: &Entry| matches!(entry.reference, Reference::SevSnp(_) | Reference::Tdx(_));
    let hardware = entries.any(|entry| entry.root.is_none() && listed(entry));
    let rules = &document.collateral;
    if hardware && rules.max_age_seconds.is_some_and(|most| most < YEARLY_LIST_SECONDS) {
        said.push(Advice::YearlyListsOutlived);
    }
    let unnumbered = [CrlIssuer::IntelRoot, CrlIssuer::IntelProcessor, CrlIssuer::IntelPlatform];
    let named = unnumbered.into_iter().filter(|issuer| rules.min_crl_number.contains_key(issuer));
    said.extend(named.map(|issuer| Advice::ListsUnnumbered { issuer }));
    for (peer, described) in &document.peers {
        for (index, entry) in described.entries.iter().enumerate() {
            // Nothing that hardware could do makes a simulation better.
            if entry.root.is_none() {
                said.extend(advise(peer, index, &entry.reference));
            }
        }
    }
    said
}

fn advise(peer: &PeerName, entry: usize, reference: &Reference) -> Vec<Advice> {
    let zero = Measurement::new([0; 48]);
    match reference {
        Reference::SevSnp(snp) => advise_snp(peer, entry, snp),
        Reference::Tdx(tdx) if tdx.mr_config_ids.contains(&zero) => {
            vec![Advice::NoInitdata { peer: peer.clone(), entry, member: "mrConfigId" }]
        }
        Reference::Nitro(nitro)
            if nitro
                .measurements
                .iter()
                .any(|measured| measured.registers.get(&NitroMeasurement::ROLE) == Some(&zero)) =>
        {
            vec![Advice::NoRole { peer: peer.clone(), entry }]
        }
        Reference::Tdx(_) | Reference::Nitro(_) | Reference::Key(_) => vec![],
    }
}

fn advise_snp(peer: &PeerName, entry: usize, snp: &SnpReference) -> Vec<Advice> {
    let at = || (peer.clone(), entry);
    let mut accepted: BTreeSet<Product> =
        if snp.products.is_empty() { Product::ALL.iter().copied().collect() } else { snp.products.clone() };
    if !snp.permissions.milan {
        accepted.remove(&Product::Milan);
    }
    let mut said = Vec::new();
    if accepted.contains(&Product::Milan) && (snp.chip_ids.is_empty() || snp.permissions.vlek) {
        let (peer, entry) = at();
        said.push(Advice::MilanForgeable { peer, entry });
    }
    if accepted.len() > 1 {
        let (peer, entry) = at();
        said.push(Advice::FloorAcrossProducts { peer, entry });
    }
    if accepted.contains(&Product::Turin) && snp.min_tcb.fmc.is_none() {
        let (peer, entry) = at();
        said.push(Advice::FmcOpen { peer, entry });
    }
    if snp.accepts_any_provider() {
        let (peer, entry) = at();
        said.push(Advice::AnyProvider { peer, entry });
    }
    if snp.permissions.vlek && !snp.chip_ids.is_empty() {
        let (peer, entry) = at();
        said.push(Advice::ChipsUnderSharedKey { peer, entry });
    }
    if snp.host_data.contains(&HostData::new([0; 32])) {
        let (peer, entry) = at();
        said.push(Advice::NoInitdata { peer, entry, member: "hostData" });
    }
    if !snp.protections.contains(&SnpProtection::AliasCheck) {
        let (peer, entry) = at();
        said.push(Advice::AliasesUnchecked { peer, entry });
    }
    said
}
