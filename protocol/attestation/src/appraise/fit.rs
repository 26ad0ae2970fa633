//! Which entry of a Peer fits the claims, and if none does, what the closest one lacks.

mod nitro;
mod snp;
mod tdx;

use std::cmp::Reverse;

use sealane_policy::{Entry, Pinnable, Reference};
use sealane_types::{Assurance, Platform, UnixSeconds};

use super::verified::Degradation;
use crate::aspect::Aspect;
use crate::claims::{Claims, Statement};
use crate::rejection::Rejection;
use crate::workload::StatedWorkload;

/// What a peer showed in its handshake.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) claims: &'a Claims,
    pub(super) at: UnixSeconds,
    /// What the node agent stated beside it.
    pub(super) workload: Option<&'a StatedWorkload>,
}

/// What a fitting entry makes of the claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) assurance: Assurance,
    pub(super) degradations: Vec<Degradation>,
}

/// What one check of an entry says of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    pub aspect: Aspect,
    pub outcome: Result<(), Rejection>,
}

/// The verdict on what was `shown`, by the one of `entries` that fits with the fewest degradations, of equals the first;
/// `complete` refuses those that leave a value open.
pub(super) fn best(shown: &Shown<'_>, entries: &[Entry], complete: bool) -> Result<Verdict, Rejection> {
    let mut best: Option<Verdict> = None;
    let mut closest = (0, Rejection::PlatformNotAllowed(shown.claims.platform()));
    for entry in entries {
        match fit(shown, entry, complete) {
            Ok(verdict) => {
                let degradations = verdict.degradations.len();
                if best.as_ref().is_none_or(|best| degradations < best.degradations.len()) {
                    best = Some(verdict);
                }
            }
            Err((passed, shortfall)) if passed > closest.0 => closest = (passed, shortfall),
            Err(_) => {}
        }
    }
    best.ok_or(closest.1)
}

/// What every check of the entry that comes closest says, first of all the one by which a verdict is given; none without
/// entries.
pub(super) fn review<'e>(shown: &Shown<'_>, entries: &'e [Entry]) -> Option<(&'e Entry, Vec<Finding>)> {
    let reviewed = entries.iter().map(|entry| {
        let findings = findings(shown, entry);
        let closeness = match shortfall(&findings) {
            Some((passed, _)) => (passed, Reverse(0)),
            None => (usize::MAX, Reverse(degradations(shown, entry, &absent(shown, entry)).len())),
        };
        (closeness, entry, findings)
    });
    let closest = reviewed.reduce(|closest, next| if next.0 > closest.0 { next } else { closest });
    closest.map(|(_, entry, findings)| (entry, findings))
}

/// How many checks held before the first that did not, and what it says.
fn shortfall(findings: &[Finding]) -> Option<(usize, Rejection)> {
    let first = |(passed, finding): (usize, &Finding)| Some((passed, finding.outcome.err()?));
    findings.iter().enumerate().find_map(first)
}

/// The verdict, or how many checks the entry passed and what it then lacked.
fn fit(shown: &Shown<'_>, entry: &Entry, complete: bool) -> Result<Verdict, (usize, Rejection)> {
    let claims = shown.claims;
    let findings = findings(shown, entry);
    if let Some(shortfall) = shortfall(&findings) {
        return Err(shortfall);
    }
    let absent = absent(shown, entry);
    if let Some(value) = absent.first().filter(|_| complete) {
        return Err((findings.len(), Rejection::ReferenceValueMissing(*value)));
    }
    let degradations = degradations(shown, entry, &absent);
    // The policy's parser holds the same; software never counts for more because of how an entry is written.
    let simulated = claims.platform() == Platform::Simulated;
    let keyed = claims.platform() == Platform::Key;
    let assurance = match (simulated, keyed) {
        (true, _) => Assurance::Simulated,
        (_, true) => Assurance::Key,
        (false, false) => entry.assurance,
    };
    Ok(Verdict { assurance, degradations })
}

/// What the entry leaves open of that which was shown.
fn absent(shown: &Shown<'_>, entry: &Entry) -> Vec<Pinnable> {
    let mut absent = entry.absent();
    if let (Statement::SevSnp(claims), Reference::SevSnp(reference)) =
        (shown.claims.statement(), &entry.reference)
    {
        absent.extend(snp::absent(claims, reference, entry.root.is_none()));
    }
    // An entry for Turin alone misses its FMC whatever is shown.
    absent.sort_unstable();
    absent.dedup();
    absent
}

/// What has to be shown of evidence that fits the entry, which leaves `absent` open.
fn degradations(shown: &Shown<'_>, entry: &Entry, absent: &[Pinnable]) -> Vec<Degradation> {
    let mut degradations: Vec<_> = absent.iter().copied().map(Degradation::ReferenceValueMissing).collect();
    let verified = shown.workload.is_some() && entry.workload.is_some();
    if needs_node_agent(entry) && !verified {
        degradations.push(Degradation::WorkloadUnverified);
    }
    degradations
}

/// From the coarse to the fine: the entry that passes most checks came closest, and its shortfall is what helps
/// whoever reads it.
fn findings(shown: &Shown<'_>, entry: &Entry) -> Vec<Finding> {
    let claims = shown.claims;
    let finding = |aspect, outcome| Finding { aspect, outcome };
    let mut findings =
        vec![finding(Aspect::Platform, platform(claims, entry)), finding(Aspect::Root, root(claims, entry))];
    match (claims.statement(), &entry.reference) {
        (Statement::SevSnp(claims), Reference::SevSnp(reference)) => {
            let checks = snp::CHECKS.iter();
            findings.extend(checks.map(|(aspect, check)| finding(*aspect, check(claims, reference))));
        }
        (Statement::Tdx(claims), Reference::Tdx(reference)) => {
            let checks = tdx::CHECKS.iter();
            findings.extend(checks.map(|(aspect, check)| finding(*aspect, check(claims, reference))));
        }
        (Statement::Nitro(claims), Reference::Nitro(reference)) => {
            let checks = nitro::CHECKS.iter();
            findings
                .extend(checks.map(|(aspect, check)| finding(*aspect, check(claims, reference, shown.at))));
        }
        (Statement::Key(claims), Reference::Key(keys)) => {
            // Whoever has the key would be its only witness.
            let alone = shown.workload.is_none();
            let alone = require(alone, Rejection::Malformed("a stated workload beside a pinned key"));
            let pinned = require(keys.contains(claims.public_key()), Rejection::Key);
            findings.extend([finding(Aspect::Workload, alone), finding(Aspect::Key, pinned)]);
        }
        // A simulation of another platform than the entry's.
        _ => findings.push(finding(Aspect::Platform, Err(Rejection::PlatformNotAllowed(claims.platform())))),
    }
    findings.push(finding(Aspect::Workload, workload(shown.workload, entry)));
    findings
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

/// What a node agent states is held against the entry wherever it states something: a contradiction is refused even
/// where the owners would do without a statement, and evidence of a node never passes for that of a pod.
fn workload(stated: Option<&StatedWorkload>, entry: &Entry) -> Result<(), Rejection> {
    let Some(stated) = stated else {
        let tolerated = !needs_node_agent(entry) || entry.unverified_workload;
        return require(tolerated, Rejection::WorkloadUnverified);
    };
    require(entry.assurance != Assurance::Pod, Rejection::NodeEvidence)?;
    let Some(wanted) = &entry.workload else { return Ok(()) };
    require(stated.service_account() == wanted.service_account, Rejection::ServiceAccount)?;
    let known = stated.images().values().all(|image| wanted.permits(image));
    require(known, Rejection::Image)
}

/// Whether only a node agent can say that the workload is the right one.
fn needs_node_agent(entry: &Entry) -> bool {
    entry.assurance == Assurance::Node || entry.workload.is_some()
}

/// Entries that the policy's own lint would refuse, and platforms that tests cannot be.
#[cfg(test)]
mod tests {
    use sealane_policy::{Pinnable, SnpAbi, SnpFirmware, SnpReference, Tcb as Floor, Workload};
    use sealane_types::{
        Digest, GuestLabel, HostData, Measurement, Product, PublicKey, Reason, TcbStatus, UnixSeconds,
    };

    use super::*;
    use crate::claims::{
        FirmwareVersions, GuestIdentity, KeyClaims, Revocation, SnpClaims, Tcb, TcbVersions,
    };

    fn claims(platform: Platform) -> Claims {
        let tcb = Tcb { fmc: None, bootloader: 1, tee: 1, snp: 1, microcode: 1 };
        let firmware = SnpFirmware { major: 1, minor: 55, build: 40 };
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
            firmware: FirmwareVersions { current: firmware, committed: firmware },
            guest_abi: SnpAbi { major: 1, minor: 51 },
            mitigations: None,
            protections: [].into(),
            debug: false,
            migration: false,
            vmpl: 0,
            smt: false,
            cxl: false,
            tio: false,
            unknown_platform_bits: 0,
        };
        Claims {
            platform,
            root: Digest::new([1; 32]),
            report_data: Some([0; 64]),
            statement: Statement::SevSnp(statement),
            tcb_status: Some(TcbStatus::UpToDate),
            revocation: Revocation::Checked,
            expires: UnixSeconds(0),
            lists: Vec::new(),
            collateral: None,
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

    fn shown(
        claims: &Claims,
        workload: Option<&StatedWorkload>,
        entry: Entry,
        complete: bool,
    ) -> Result<Verdict, Rejection> {
        best(&Shown { claims, at: UnixSeconds(0), workload }, &[entry], complete)
    }

    fn verdict(entry: Entry, complete: bool) -> Result<Verdict, Rejection> {
        shown(&claims(entry.kind()), None, entry, complete)
    }

    #[test]
    fn an_entry_without_measurements_or_entries_at_all_fits_nothing() {
        let open = pinning(Assurance::Pod, SnpReference { measurements: [].into(), ..reference() });
        assert_eq!(verdict(open, false), Err(Rejection::Measurement));
        let claims = claims(Platform::SevSnp);
        let nothing = Shown { claims: &claims, at: UnixSeconds(0), workload: None };
        let refused = best(&nothing, &[], false).unwrap_err();
        assert_eq!(refused, Rejection::PlatformNotAllowed(Platform::SevSnp));
    }

    #[test]
    fn a_simulated_root_is_never_left_open_and_never_counts_for_more() {
        let rooted = |root| Entry { root: Some(Digest::new([root; 32])), ..entry(Assurance::Pod) };
        assert_eq!(verdict(rooted(2), false), Err(Rejection::Root));
        assert_eq!(verdict(rooted(1), false).unwrap().assurance, Assurance::Simulated);
        let simulated = shown(&claims(Platform::Simulated), None, entry(Assurance::Pod), false);
        assert_eq!(simulated, Err(Rejection::PlatformNotAllowed(Platform::Simulated)));
    }

    #[test]
    fn a_key_never_counts_for_more_than_a_key() {
        let key = PublicKey::new([7; 32]);
        let statement = Statement::Key(KeyClaims { public_key: key });
        let keyed = Claims { statement, tcb_status: None, ..claims(Platform::Key) };
        let lifted = |keys: &[PublicKey]| Entry {
            reference: Reference::Key(keys.iter().copied().collect()),
            ..entry(Assurance::Pod)
        };
        let shown = Shown { claims: &keyed, at: UnixSeconds(0), workload: None };
        let verdict = best(&shown, &[lifted(&[key])], true).unwrap();
        assert_eq!((verdict.assurance, verdict.degradations), (Assurance::Key, vec![]));
        let refused = best(&shown, &[lifted(&[])], false).unwrap_err();
        assert_eq!(refused, Rejection::Key, "an entry without keys fits none");
    }

    #[test]
    fn complete_floors_refuse_what_is_left_open() {
        let open = pinning(Assurance::Pod, SnpReference { products: [].into(), ..reference() });
        let degraded = verdict(open.clone(), false).unwrap();
        assert_eq!(degraded.degradations, [Degradation::ReferenceValueMissing(Pinnable::Products)]);
        assert_eq!(verdict(open, true), Err(Rejection::ReferenceValueMissing(Pinnable::Products)));
    }

    #[test]
    fn an_open_fmc_is_missed_by_a_turin() {
        let mut turin = claims(Platform::SevSnp);
        let Statement::SevSnp(statement) = &mut turin.statement else { panic!() };
        let tcb = Tcb { fmc: Some(1), ..statement.tcb.reported };
        statement.product = Product::Turin;
        statement.tcb = TcbVersions { current: tcb, reported: tcb, committed: tcb, launch: tcb };
        let pinned = Floor { fmc: Some(1), ..reference().min_tcb };
        let open = Pinnable::TcbFmc;
        for products in [&[Product::Turin][..], &[Product::Genoa, Product::Turin]] {
            let accepting = |min_tcb| {
                let products = products.iter().copied().collect();
                pinning(Assurance::Pod, SnpReference { products, min_tcb, ..reference() })
            };
            let degraded = shown(&turin, None, accepting(reference().min_tcb), false).unwrap();
            assert_eq!(degraded.degradations, [Degradation::ReferenceValueMissing(open)]);
            let refused = shown(&turin, None, accepting(reference().min_tcb), true);
            assert_eq!(refused, Err(Rejection::ReferenceValueMissing(open)));
            assert_eq!(shown(&turin, None, accepting(pinned), true).unwrap().degradations, []);
        }
        // A Genoa has none, and a simulation no firmware.
        let both = SnpReference { products: [Product::Genoa, Product::Turin].into(), ..reference() };
        assert_eq!(verdict(pinning(Assurance::Pod, both), true).unwrap().degradations, []);
        let simulated = Claims { platform: Platform::Simulated, ..turin };
        let simulation = Entry {
            root: Some(Digest::new([1; 32])),
            ..pinning(Assurance::Simulated, SnpReference { products: [Product::Turin].into(), ..reference() })
        };
        assert_eq!(shown(&simulated, None, simulation, true).unwrap().degradations, []);
    }

    #[test]
    fn of_entries_that_fit_the_one_with_the_fewest_degradations_counts() {
        let open = |open: fn(&mut SnpReference)| {
            let mut reference = reference();
            open(&mut reference);
            pinning(Assurance::Pod, reference)
        };
        let both = open(|reference| (reference.products, reference.host_data) = Default::default());
        let (products, host_data) =
            (open(|reference| reference.products.clear()), open(|reference| reference.host_data.clear()));
        let claims = claims(Platform::SevSnp);
        let shown = Shown { claims: &claims, at: UnixSeconds(0), workload: None };
        let chosen = |entries: &[Entry]| {
            let (reviewed, _) = review(&shown, entries).unwrap();
            (best(&shown, entries, false).unwrap().degradations, reviewed.clone())
        };
        let one = |value| vec![Degradation::ReferenceValueMissing(value)];
        assert_eq!(
            chosen(&[both.clone(), products.clone(), host_data.clone()]),
            (one(Pinnable::Products), products.clone()),
            "of equals the first"
        );
        let whole = entry(Assurance::Pod);
        assert_eq!(chosen(&[both, host_data, whole.clone(), products]), (vec![], whole));
    }

    #[test]
    fn a_review_shows_every_check_of_the_entry_that_comes_closest() {
        let other = SnpReference { measurements: [Measurement::new([9; 48])].into(), ..reference() };
        let both = SnpReference { products: [Product::Milan].into(), ..other.clone() };
        let (far, near) = (pinning(Assurance::Pod, both), pinning(Assurance::Pod, other));
        let simulated = Entry { root: Some(Digest::new([1; 32])), ..entry(Assurance::Pod) };
        let claims = claims(Platform::SevSnp);
        let shown = Shown { claims: &claims, at: UnixSeconds(0), workload: None };
        let short = |entries: &[Entry]| -> Vec<Aspect> {
            let (_, findings) = review(&shown, entries).unwrap();
            findings.iter().filter(|finding| finding.outcome.is_err()).map(|finding| finding.aspect).collect()
        };
        assert_eq!(
            short(std::slice::from_ref(&far)),
            [Aspect::Measurement, Aspect::Product],
            "none hides another"
        );
        assert_eq!(short(&[simulated.clone(), near.clone()]), [Aspect::Measurement]);
        assert_eq!(short(&[near.clone(), far]), [Aspect::Measurement], "of equals the first");
        assert_eq!(short(&[simulated, near, entry(Assurance::Pod)]), [], "one that fits comes closest");
        assert_eq!(review(&shown, &[]), None);
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

    const PINNED: &str =
        "r.example/app@sha256:0101010101010101010101010101010101010101010101010101010101010101";

    /// An entry for pods of service account `embedder` that run image 1 and nothing else.
    fn stating(assurance: Assurance) -> Entry {
        let workload =
            Workload { service_account: "embedder".to_owned(), images: [PINNED.to_owned()].into() };
        Entry { workload: Some(workload), ..entry(assurance) }
    }

    fn stated(service_account: &str, images: &[u8]) -> StatedWorkload {
        let container = |(number, image): (usize, &u8)| (format!("c{number}"), Digest::new([*image; 32]));
        let images = images.iter().enumerate().map(container).collect();
        StatedWorkload::new(service_account.to_owned(), images).unwrap()
    }

    fn of_node(workload: &StatedWorkload, entry: Entry) -> Result<Verdict, Rejection> {
        shown(&claims(Platform::SevSnp), Some(workload), entry, true)
    }

    #[test]
    fn a_stated_workload_is_the_pinned_one() {
        let node = || stating(Assurance::Node);
        let verified = of_node(&stated("embedder", &[1, 1]), node()).unwrap();
        assert_eq!((verified.assurance, verified.degradations), (Assurance::Node, vec![]));
        assert_eq!(of_node(&stated("ranker", &[1]), node()), Err(Rejection::ServiceAccount));
        assert_eq!(of_node(&stated("embedder", &[1, 2]), node()), Err(Rejection::Image), "one stranger");
        for refused in [Rejection::ServiceAccount, Rejection::Image, Rejection::NodeEvidence] {
            assert_eq!(refused.reason(), Reason::WorkloadMismatch);
        }
    }

    #[test]
    fn a_contradiction_is_refused_even_where_a_statement_is_not_needed() {
        let lenient = Entry { unverified_workload: true, ..stating(Assurance::Node) };
        assert_eq!(of_node(&stated("embedder", &[2]), lenient.clone()), Err(Rejection::Image));
        assert_eq!(of_node(&stated("embedder", &[1]), lenient).unwrap().degradations, []);
        let silent = Entry { unverified_workload: true, ..entry(Assurance::Node) };
        let tolerated = of_node(&stated("embedder", &[1]), silent).unwrap();
        assert_eq!(tolerated.degradations, [Degradation::WorkloadUnverified], "the owners pin none");
    }

    #[test]
    fn evidence_of_a_node_never_passes_for_that_of_a_pod() {
        let pod = entry(Assurance::Pod);
        assert_eq!(of_node(&stated("embedder", &[1]), pod), Err(Rejection::NodeEvidence));
    }

    #[test]
    fn images_that_are_left_open_are_shown() {
        let workload = Workload { service_account: "embedder".to_owned(), images: [].into() };
        let open = Entry { workload: Some(workload), ..entry(Assurance::Node) };
        let stated = stated("embedder", &[2]);
        let claims = claims(Platform::SevSnp);
        let degraded = shown(&claims, Some(&stated), open.clone(), false).unwrap();
        let missing = Pinnable::WorkloadImages;
        assert_eq!(degraded.degradations, [Degradation::ReferenceValueMissing(missing)]);
        assert_eq!(of_node(&stated, open), Err(Rejection::ReferenceValueMissing(missing)));
    }
}
