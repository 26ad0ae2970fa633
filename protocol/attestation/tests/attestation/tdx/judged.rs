//! From bytes to a verdict under a signed policy.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::binding::{Leaf, Purpose, Role, Tree};
use sealane_attestation::{
    Collateral, Degradation, Evidence, EvidenceMessage, Expected, Format, Permission, Rejection, Statement,
    TdxClaims, TdxCollateral, TdxRoot, VerifiedPeer, inspect, judge,
};
use sealane_policy::{
    Authorities, Document, Entry, Floors, Limits, Pinnable, PolicyPeer, Reference, SessionKind, SessionRule,
    SigningKey, SnpReference, TdxMeasurement, TdxPermissions, TdxReference, VerifiedPolicy, sign, verify,
};
use sealane_simulated::MEASUREMENT;
use sealane_simulated::tdx::forge::{Edits, Recipe};
use sealane_simulated::tdx::{Body, mr_config_id, rtmr};
use sealane_types::{
    Assurance, Fmspc, Measurement, PeerName, Platform, PlatformId, PodIdentity, Reason, Roots, SignedChain,
    TcbStatus, TdAttributes, TeeTcbSvn, UnixSeconds, Xfam,
};

use crate::support::{report_of, trust};

use super::support::{AUTHORITY, INITDATA, MATERIAL, evidence, now, platform, recipe, simulation};

const PROVER: [u8; 32] = [3; 32];
const VERIFIER: [u8; 32] = [4; 32];

fn peer() -> PeerName {
    PeerName::new("embedder").unwrap()
}

fn pod() -> PodIdentity {
    PodIdentity::new("demo", "embedder-0", "6f1c").unwrap()
}

/// What an honest quote says of its platform.
fn claims() -> TdxClaims {
    let evidence = evidence(platform(&MATERIAL).quoting(Body::V4).quote([0; 64]).unwrap());
    match inspect(&evidence, &simulation(), now()).unwrap().statement() {
        Statement::Tdx(claims) => claims.clone(),
        other => panic!("{other:?}"),
    }
}

fn module() -> Measurement {
    *claims().mr_seam()
}

fn versions() -> TeeTcbSvn {
    claims().tee_tcb_svn()
}

/// Everything pinned.
fn reference() -> TdxReference {
    let zero = Measurement::new([0; 48]);
    TdxReference {
        measurements: [TdxMeasurement {
            mrtd: MEASUREMENT,
            rtmr: [rtmr(0), rtmr(1), rtmr(2)],
            rtmr3: Some(zero),
        }]
        .into(),
        mr_config_ids: [mr_config_id(Some(INITDATA))].into(),
        any_initdata: false,
        mr_owners: [zero].into(),
        mr_owner_configs: [zero].into(),
        fmspcs: [Fmspc::new(MATERIAL.processor().fmspc)].into(),
        platform_ids: [PlatformId::new([0x5a; 16])].into(),
        mr_seams: [module()].into(),
        min_tee_tcb_svn: Some(versions()),
        refused_advisories: ["INTEL-SA-00001".to_owned()].into(),
        attributes: [TdAttributes::new([0, 0, 0, 0x10, 0, 0, 0, 0])].into(),
        xfams: [Xfam::new([0xe7, 2, 6, 0, 0, 0, 0, 0])].into(),
        tcb_statuses: [TcbStatus::UpToDate].into(),
        min_tcb_evaluation: Some(20),
        permissions: Default::default(),
    }
}

/// A simulated entry that asks for this.
fn simulated(reference: Reference) -> Entry {
    Entry {
        assurance: Assurance::Simulated,
        root: Some(MATERIAL.fingerprint()),
        workload: None,
        unverified_workload: false,
        reference,
    }
}

fn policy(reference: TdxReference, floors: Floors) -> VerifiedPolicy {
    of_entry(simulated(Reference::Tdx(reference)), floors)
}

fn of_entry(entry: Entry, floors: Floors) -> VerifiedPolicy {
    let owner = SigningKey::from_seed(&[7; 32]).unwrap();
    let keys = vec![owner.public_key()];
    let document = Document {
        version: 1,
        namespace: "demo".parse().unwrap(),
        name: "demo".parse().unwrap(),
        epoch: 1,
        not_before: UnixSeconds(now().0 - 60).into(),
        expires: now().plus(3600).into(),
        previous: None,
        authorities: Authorities { threshold: 1, keys: keys.iter().copied().collect() },
        peers: BTreeMap::from([(peer(), PolicyPeer { entries: vec![entry], shared_evidence: false })]),
        sessions: vec![SessionRule {
            name: None,
            from: peer(),
            to: [peer()].into(),
            kind: SessionKind::Stream { senders_min: 0 },
        }],
        floors,
        limits: Limits::default(),
        collateral: sealane_policy::CollateralRules::default(),
        auditors: None,
    };
    let bytes = document.to_bytes();
    let signatures = vec![sign(&bytes, &owner)];
    let chain = SignedChain { document: STANDARD.encode(&bytes), signatures, rotations: vec![] };
    let roots =
        Roots { namespace: document.namespace, policy: document.name, threshold: 1, keys, minimum_epoch: 1 };
    verify(&chain, &roots, now().into(), None).unwrap()
}

fn leaf() -> Leaf {
    Leaf::new(Purpose::Handshake, Role::Initiator, &[1; 32], &[2; 32], &PROVER, &VERIFIER)
}

/// What a prover on the honest platform gets of a verifier under `policy`, over the wire.
fn judged(policy: &VerifiedPolicy, body: Body, bound: bool) -> Result<VerifiedPeer, Rejection> {
    let quoted = |data| evidence(platform(&MATERIAL).quoting(body).quote(data).unwrap());
    judged_by(policy, &simulation(), bound, quoted)
}

fn judged_by(
    policy: &VerifiedPolicy,
    collateral: &Collateral,
    bound: bool,
    quoted: impl Fn([u8; 64]) -> Evidence,
) -> Result<VerifiedPeer, Rejection> {
    let tree = Tree::single(leaf());
    let digest = policy.digest();
    let form = quoted([0; 64]).platform();
    let mut data = report_of(form, policy, &tree);
    if !bound {
        data[0] ^= 1;
    }
    let path = tree.path(0).unwrap();
    let message =
        EvidenceMessage { pod: pod(), policy: digest, path, evidence: quoted(data), workload: None };
    let message = EvidenceMessage::decode(&message.encode()?)?;
    let (pod, policies) = (pod(), [digest]);
    let expected =
        Expected { leaf: leaf(), prover_static: &PROVER, pod: &pod, trust: &trust(), policies: &policies };
    judge(&message, &expected, &peer(), policy, collateral, now())
}

fn under(change: impl FnOnce(&mut TdxReference)) -> Result<VerifiedPeer, Rejection> {
    let mut reference = reference();
    change(&mut reference);
    judged(&policy(reference, Floors::default()), Body::V4, true)
}

#[test]
fn honest_evidence_is_verified() {
    let policy = policy(reference(), Floors { complete: true, ..Floors::default() });
    for body in Body::ALL {
        let verified = judged(&policy, *body, true).unwrap();
        assert_eq!(verified.assurance(), Assurance::Simulated);
        assert_eq!(verified.platform(), Platform::Simulated);
        assert_eq!(verified.tcb_status(), Some(TcbStatus::UpToDate));
        assert_eq!(verified.degradations(), []);
        let refused = judged(&policy, *body, false).unwrap_err();
        assert_eq!(refused.reason(), Reason::EvidenceNotBound);
    }
}

#[test]
fn every_pinned_value_counts() {
    let other = Measurement::new([9; 48]);
    let pinned = |refused: Result<VerifiedPeer, Rejection>| refused.unwrap_err();
    let measured = |change: &dyn Fn(&mut TdxMeasurement)| {
        pinned(under(|reference| {
            let mut measurement = *reference.measurements.first().unwrap();
            change(&mut measurement);
            reference.measurements = [measurement].into();
        }))
    };
    for refused in [
        measured(&|measurement| measurement.mrtd = other),
        measured(&|measurement| measurement.rtmr[0] = other),
        measured(&|measurement| measurement.rtmr[1] = other),
        measured(&|measurement| measurement.rtmr[2] = other),
        measured(&|measurement| measurement.rtmr3 = Some(other)),
    ] {
        assert_eq!(refused, Rejection::Measurement);
    }
    let cases = [
        (pinned(under(|reference| reference.mr_config_ids = [other].into())), Rejection::ConfigId),
        (pinned(under(|reference| reference.mr_owners = [other].into())), Rejection::Owner),
        (pinned(under(|reference| reference.mr_owner_configs = [other].into())), Rejection::OwnerConfig),
        (pinned(under(|reference| reference.fmspcs = [Fmspc::new([9; 6])].into())), Rejection::Fmspc),
        (
            pinned(under(|reference| reference.attributes = [TdAttributes::new([0; 8])].into())),
            Rejection::Attributes,
        ),
        (
            pinned(under(|reference| reference.xfams = [Xfam::new([3, 0, 0, 0, 0, 0, 0, 0])].into())),
            Rejection::Xfam,
        ),
        (
            pinned(under(|reference| reference.tcb_statuses = [TcbStatus::OutOfDate].into())),
            Rejection::TcbStatus(TcbStatus::UpToDate),
        ),
        (
            pinned(under(|reference| reference.min_tcb_evaluation = Some(21))),
            Rejection::TcbEvaluation { found: 20 },
        ),
    ];
    for (refused, expected) in cases {
        assert_eq!(refused, expected);
    }
    let cases = [
        (
            pinned(under(|reference| reference.platform_ids = [PlatformId::new([9; 16])].into())),
            Rejection::Chip,
        ),
        (pinned(under(|reference| reference.mr_seams = [other].into())), Rejection::SeamModule),
    ];
    for (refused, expected) in cases {
        assert_eq!(refused, expected);
    }
    for component in 0..16 {
        let mut least = *versions().as_bytes();
        least[component] += 1;
        let refused = under(|reference| reference.min_tee_tcb_svn = Some(TeeTcbSvn::new(least)));
        assert_eq!(pinned(refused), Rejection::SeamModuleTooOld, "{component}");
    }
}

#[test]
fn owners_refuse_advisories() {
    let info = |info: &mut serde_json::Value| {
        info["tcbLevels"][0]["advisoryIDs"] = serde_json::json!(["INTEL-SA-00001"]);
    };
    let advised = AUTHORITY.issue_edited(&recipe(), Edits { info: &info, ..Edits::default() }).unwrap();
    let verdict = |refused: &str| {
        let reference = TdxReference { refused_advisories: [refused.to_owned()].into(), ..reference() };
        let quoted = |data| evidence(platform(&advised).quote(data).unwrap());
        let entry = Entry { root: Some(advised.fingerprint()), ..simulated(Reference::Tdx(reference)) };
        judged_by(&of_entry(entry, Floors::default()), &simulation(), true, quoted).map(|_| ())
    };
    assert_eq!(verdict("INTEL-SA-00001"), Err(Rejection::Advisory));
    assert_eq!(verdict("INTEL-SA-00002"), Ok(()));
}

#[test]
fn permissions_are_refused_unless_given() {
    // MIGRATABLE beside SEPT_VE_DISABLE, and DEBUG.
    let quoted = |at: usize, bits: u8| {
        move |data| {
            let edit = |draft: &mut sealane_simulated::tdx::Draft| draft.report[at] |= bits;
            evidence(platform(&MATERIAL).quote_edited(data, edit).unwrap())
        }
    };
    let verdict = |permissions: TdxPermissions, at, bits| {
        let reference = TdxReference { attributes: [].into(), permissions, ..reference() };
        let policy = policy(reference, Floors::default());
        judged_by(&policy, &simulation(), true, quoted(at, bits)).map(|_| ())
    };
    let none = TdxPermissions::default;
    let refused = Rejection::Permission(Permission::Migration);
    assert_eq!(verdict(none(), 123, 1 << 5), Err(refused));
    assert_eq!(verdict(TdxPermissions { migration: true, ..none() }, 123, 1 << 5), Ok(()));
    assert_eq!(verdict(none(), 120, 1), Err(Rejection::Debug));
    assert_eq!(verdict(TdxPermissions { debug: true, ..none() }, 120, 1), Ok(()));
}

#[test]
fn what_is_left_open_is_accepted_and_shown() {
    let verified = under(|reference| {
        let open = TdxReference {
            measurements: reference.measurements.clone(),
            tcb_statuses: reference.tcb_statuses.clone(),
            ..TdxReference::default()
        };
        *reference = open;
    })
    .unwrap();
    assert_eq!(
        verified.degradations(),
        [Pinnable::MrConfigId, Pinnable::MrOwner, Pinnable::MrOwnerConfig]
            .map(Degradation::ReferenceValueMissing)
    );
    let any_rtmr3 = under(|reference| {
        let mut measurement = *reference.measurements.first().unwrap();
        measurement.rtmr3 = None;
        reference.measurements = [measurement].into();
    });
    assert_eq!(any_rtmr3.unwrap().degradations(), [Degradation::ReferenceValueMissing(Pinnable::Rtmr3)]);
}

/// Of a simulation under the pinned root, another platform's form is another platform.
#[test]
fn an_entry_for_another_form_is_not_satisfied() {
    let snp = SnpReference { measurements: [MEASUREMENT].into(), ..SnpReference::default() };
    let policy = of_entry(simulated(Reference::SevSnp(snp)), Floors::default());
    let refused = judged(&policy, Body::V4, true).unwrap_err();
    assert_eq!(refused, Rejection::PlatformNotAllowed(Platform::Simulated));
}

/// Under a root that the verifier holds, the assurance is what the entry states.
#[test]
fn hardware_counts_as_its_entry_states() {
    let material = AUTHORITY.issue(&Recipe { marked: false, ..recipe() }).unwrap();
    let [_, _, root] = material.chain();
    let root = TdxRoot::new(root).unwrap();
    let tdx = TdxCollateral::from_json_under(material.collateral_json().as_bytes(), &root).unwrap();
    let collateral = Collateral::empty().with_tdx(tdx);
    let quoted = |data| {
        let quote = platform(&material).quote(data).unwrap();
        Evidence { format: Format::Tdx, report: quote.report, certificates: vec![] }
    };
    let entry = Entry { assurance: Assurance::Pod, root: None, ..simulated(Reference::Tdx(reference())) };
    let pod = of_entry(entry.clone(), Floors { complete: true, ..Floors::default() });
    let verified = judged_by(&pod, &collateral, true, quoted).unwrap();
    assert_eq!((verified.platform(), verified.assurance()), (Platform::Tdx, Assurance::Pod));
    assert_eq!(judged_by(&pod, &collateral, false, quoted).unwrap_err().reason(), Reason::EvidenceNotBound);
    let node = Entry { assurance: Assurance::Node, unverified_workload: true, ..entry };
    let verified = judged_by(&of_entry(node, Floors::default()), &collateral, true, quoted).unwrap();
    assert_eq!(verified.assurance(), Assurance::Node);
    assert_eq!(verified.degradations(), [Degradation::WorkloadUnverified]);
    // A simulated entry is not satisfied by hardware, nor the other way round.
    let simulated = policy(reference(), Floors::default());
    let refused = judged_by(&simulated, &collateral, true, quoted).unwrap_err();
    assert_eq!(refused, Rejection::PlatformNotAllowed(Platform::Tdx));
    assert_eq!(judged(&pod, Body::V4, true).unwrap_err(), Rejection::PlatformNotAllowed(Platform::Simulated));
}
