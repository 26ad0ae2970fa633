//! Vendors whose keys are ours and whose names are not: roots are pinned for the test.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::binding::{Leaf, Purpose, Role, Tree};
use sealane_attestation::{
    Anchor, ChainCache, Collateral, Evidence, EvidenceMessage, Expected, Format, Piece, Rejection, Stock,
    Taken, TdxRoot, VendorRoots, VerifiedPeer, judge_with,
};
pub(crate) use sealane_fixtures::keys::AUTHORITY as AMD;
use sealane_policy::{
    Authorities, CollateralRules, Document, Entry, Floors, PolicyPeer, Reference, SessionKind, SessionRule,
    SigningKey, SnpReference, Tcb, TdxMeasurement, TdxPermissions, TdxReference, VerifiedPolicy, sign,
    verify,
};
use sealane_simulated::forge::{Dates, Recipe};
use sealane_simulated::{MEASUREMENT, Material, tdx};
use sealane_types::{
    Assurance, Measurement, PeerName, PodIdentity, Product, Roots, SignedChain, TcbStatus, UnixSeconds,
};

use crate::support::{report_of, trust};

pub(crate) static INTEL: LazyLock<tdx::forge::Authority> =
    LazyLock::new(|| tdx::forge::Authority::generate().unwrap());
/// A Genoa and its chain.
pub(crate) static CHIP: LazyLock<Material> = LazyLock::new(|| AMD.issue(&amd_recipe()).unwrap());
/// A platform, its chain and honest collateral for it.
pub(crate) static PLATFORM: LazyLock<tdx::Material> = LazyLock::new(|| INTEL.issue(&intel_recipe()).unwrap());
pub(crate) static ROOTS: LazyLock<VendorRoots> = LazyLock::new(|| {
    let [_, ask, ark] = CHIP.certificates();
    let [_, _, root] = PLATFORM.chain();
    let collateral = Collateral::empty().with_anchor(Anchor::new(ark, ask).unwrap());
    VendorRoots::new(collateral, TdxRoot::new(root).unwrap())
});

pub(crate) fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}

/// From and until, in seconds from now.
pub(crate) fn dates(from: i64, until: i64) -> Dates {
    let at = |offset: i64| Duration::from_secs(now().0.checked_add_signed(offset).unwrap());
    Dates { from: at(from), until: at(until) }
}

pub(crate) fn amd_recipe() -> Recipe {
    Recipe { marked: false, ..Recipe::new(Product::Genoa).unwrap() }
}

pub(crate) fn intel_recipe() -> tdx::forge::Recipe {
    tdx::forge::Recipe { marked: false, ..tdx::forge::Recipe::new().unwrap() }
}

/// The list of AMD's root that was issued so many seconds ago and ends in an hour.
pub(crate) fn snp_list(age: i64, revoke: bool) -> Piece {
    Piece::SnpList(AMD.revocation_list(&amd_recipe(), dates(-age, 3600), revoke).unwrap())
}

/// Collateral of Intel's, by a recipe and with a number.
pub(crate) fn intel(recipe: &tdx::forge::Recipe, evaluation: u32) -> Vec<Piece> {
    let number = |statement: &mut serde_json::Value| {
        statement["tcbEvaluationDataNumber"] = evaluation.into();
    };
    let edits = tdx::forge::Edits { info: &number, identity: &number, ..tdx::forge::Edits::default() };
    pieces(&INTEL.issue_edited(recipe, edits).unwrap())
}

pub(crate) fn pieces(material: &tdx::Material) -> Vec<Piece> {
    Piece::read(material.collateral_json().as_bytes()).unwrap()
}

pub(crate) fn put(stock: &mut Stock, piece: Piece) -> Result<Taken, Rejection> {
    let verified = stock.roots().verify(piece, now())?;
    stock.take(verified, now())
}

/// A stock that holds these.
pub(crate) fn holding(pieces: impl IntoIterator<Item = Piece>) -> Stock {
    let mut stock = Stock::new(ROOTS.clone());
    for piece in pieces {
        put(&mut stock, piece).unwrap();
    }
    stock
}

pub(crate) fn owner() -> SigningKey {
    SigningKey::from_seed(&[7; 32]).unwrap()
}

fn peer() -> PeerName {
    PeerName::new("embedder").unwrap()
}

fn pod() -> PodIdentity {
    PodIdentity::new("demo", "embedder-0", "6f1c").unwrap()
}

const PROVER: [u8; 32] = [3; 32];

fn leaf() -> Leaf {
    Leaf::new(Purpose::Handshake, Role::Initiator, &[1; 32], &[2; 32], &PROVER, &[4; 32])
}

fn entry(reference: Reference) -> Entry {
    Entry { assurance: Assurance::Pod, root: None, workload: None, unverified_workload: false, reference }
}

fn snp_entry() -> Entry {
    let min_tcb = Tcb { snp: Some(0), ..Tcb::default() };
    entry(Reference::SevSnp(SnpReference {
        measurements: [MEASUREMENT].into(),
        any_initdata: true,
        min_tcb,
        ..SnpReference::default()
    }))
}

fn tdx_entry() -> Entry {
    let rtmr = [0, 1, 2].map(tdx::rtmr);
    entry(Reference::Tdx(TdxReference {
        measurements: [TdxMeasurement { mrtd: MEASUREMENT, rtmr, rtmr3: None::<Measurement> }].into(),
        tcb_statuses: [TcbStatus::UpToDate].into(),
        any_initdata: true,
        permissions: TdxPermissions { sept_ve: true, ..TdxPermissions::default() },
        ..TdxReference::default()
    }))
}

/// A policy under which both kinds of evidence are accepted, and collateral for so long after its end.
pub(crate) fn policy(grace_seconds: u64) -> VerifiedPolicy {
    policy_with(CollateralRules { grace_seconds, ..CollateralRules::default() })
}

/// A policy under which both kinds of evidence are accepted, and collateral by these rules.
pub(crate) fn policy_with(rules: CollateralRules) -> VerifiedPolicy {
    let keys = vec![owner().public_key()];
    let entries = vec![snp_entry(), tdx_entry()];
    let document = Document {
        version: 1,
        namespace: "demo".parse().unwrap(),
        name: "demo".parse().unwrap(),
        epoch: 1,
        not_before: UnixSeconds(now().0 - 60).into(),
        expires: now().plus(3600).into(),
        previous: None,
        authorities: Authorities { threshold: 1, keys: keys.iter().copied().collect() },
        peers: BTreeMap::from([(peer(), PolicyPeer { entries, shared_evidence: false })]),
        sessions: vec![SessionRule {
            name: None,
            from: peer(),
            to: [peer()].into(),
            kind: SessionKind::Stream { senders_min: 0 },
        }],
        floors: Floors::default(),
        limits: sealane_policy::Limits::default(),
        collateral: rules,
        auditors: None,
    };
    let bytes = document.to_bytes();
    let signatures = vec![sign(&bytes, &owner())];
    let chain = SignedChain { document: STANDARD.encode(&bytes), signatures, rotations: vec![] };
    let roots =
        Roots { namespace: document.namespace, policy: document.name, threshold: 1, keys, minimum_epoch: 1 };
    verify(&chain, &roots, now().into(), None).unwrap()
}

/// What a guest on [`CHIP`] sends in a handshake under `policy`.
pub(crate) fn snp_message(policy: &VerifiedPolicy) -> EvidenceMessage {
    let tree = Tree::single(leaf());
    let format = Format::SevSnp;
    let data = report_of(format.platform(), policy, &tree);
    let quote = sealane_simulated::Platform::new(CHIP.clone(), None).unwrap().quote(data).unwrap();
    let evidence = Evidence { format, report: quote.report, certificates: quote.certificates };
    EvidenceMessage {
        pod: pod(),
        policy: policy.digest(),
        path: tree.path(0).unwrap(),
        evidence,
        workload: None,
    }
}

/// What a guest on [`PLATFORM`] sends in a handshake under `policy`.
pub(crate) fn tdx_message(policy: &VerifiedPolicy) -> EvidenceMessage {
    let tree = Tree::single(leaf());
    let format = Format::Tdx;
    let data = report_of(format.platform(), policy, &tree);
    let quote = tdx::Platform::new(PLATFORM.clone(), None).unwrap().quote(data).unwrap();
    let evidence = Evidence { format, report: quote.report, certificates: vec![] };
    EvidenceMessage {
        pod: pod(),
        policy: policy.digest(),
        path: tree.path(0).unwrap(),
        evidence,
        workload: None,
    }
}

pub(crate) fn judged(
    message: &EvidenceMessage,
    policy: &VerifiedPolicy,
    collateral: &Collateral,
    now: UnixSeconds,
) -> Result<VerifiedPeer, Rejection> {
    let (pod, policies) = (pod(), [policy.digest()]);
    let expected =
        Expected { leaf: leaf(), prover_static: &PROVER, pod: &pod, trust: &trust(), policies: &policies };
    judge_with(&mut ChainCache::new(), message, &expected, &peer(), policy, collateral, now)
}
