//! Honest evidence, its handshake and its policy; each test spoils one thing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::binding::{Leaf, MerklePath, Purpose, ReportSubject, Role, Tree, report_data};
use sealane_attestation::{
    Claims, Collateral, Evidence, EvidenceMessage, Expected, Format, Rejection, SnpClaims, StatedWorkload,
    Statement, TrustConfiguration, VerifiedPeer, inspect, judge,
};
pub(crate) use sealane_fixtures::keys::{AUTHORITY, MATERIAL, OTHER_AUTHORITY};
use sealane_policy::{
    Authorities, Document, Entry, Floors, Limits, PolicyPeer, Reference, SessionKind, SessionRule,
    SigningKey, SnpReference, Tcb, VerifiedPolicy, sign, verify,
};
use sealane_simulated::forge::{Kind, REPORT_BYTES, Recipe};
use sealane_simulated::{Chip, MEASUREMENT, Material, Platform as Simulation, Quote, host_data};
use sealane_types::{
    Assurance, Digest, PeerName, Platform, PodIdentity, Product, RootSource, Roots, SignedChain, UnixSeconds,
};

pub(crate) const INITDATA: &[u8] = b"sealane simulated initdata\nnamespace: demo\npeer: embedder\n";
pub(crate) const HANDSHAKE_HASH: [u8; 32] = [1; 32];
pub(crate) const BINDING_KEY: [u8; 32] = [2; 32];
pub(crate) const PROVER: [u8; 32] = [3; 32];
pub(crate) const VERIFIER: [u8; 32] = [4; 32];

pub(crate) fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}

pub(crate) fn peer() -> PeerName {
    PeerName::new("embedder").unwrap()
}

pub(crate) fn pod() -> PodIdentity {
    PodIdentity::new("demo", "embedder-0", "6f1c").unwrap()
}

pub(crate) fn guest(material: &Material) -> Simulation {
    Simulation::new(material.clone(), Some(INITDATA)).unwrap()
}

pub(crate) fn evidence(format: Format, quote: Quote) -> Evidence {
    Evidence { format, report: quote.report, certificates: quote.certificates }
}

/// Simulated evidence of an honest chip whose report `edit` changed before it was signed.
pub(crate) fn edited(edit: impl FnOnce(&mut [u8; REPORT_BYTES])) -> Evidence {
    evidence(Format::SimulatedSevSnp, guest(&MATERIAL).quote_edited([7; 64], edit).unwrap())
}

/// Simulated evidence of an honest report under a chain to order.
pub(crate) fn quoted_by(material: &Material) -> Evidence {
    evidence(Format::SimulatedSevSnp, guest(material).quote([7; 64]).unwrap())
}

pub(crate) fn simulation() -> Collateral {
    Collateral::empty().allowing_simulated()
}

pub(crate) fn inspected(evidence: &Evidence) -> Result<Claims, Rejection> {
    inspect(evidence, &simulation(), now())
}

pub(crate) fn recipe(product: Product, kind: Kind) -> Recipe {
    Recipe { kind, ..Recipe::new(product).unwrap() }
}

/// An entry that honest evidence of `material` satisfies, with every value pinned.
pub(crate) fn entry(material: &Material) -> Entry {
    let Chip { product, tcb, id } = material.chip();
    Entry {
        assurance: Assurance::Simulated,
        root: Some(material.fingerprint()),
        workload: None,
        unverified_workload: false,
        reference: Reference::SevSnp(SnpReference {
            measurements: [MEASUREMENT].into(),
            host_data: [host_data(Some(INITDATA))].into(),
            products: [*product].into(),
            chip_ids: [*id].into(),
            min_tcb: Tcb {
                fmc: None,
                bootloader: Some(tcb.bootloader),
                tee: Some(tcb.tee),
                snp: Some(tcb.snp),
                microcode: Some(tcb.microcode),
            },
            ..SnpReference::default()
        }),
    }
}

/// What SEV-SNP evidence says.
pub(crate) fn said(claims: &Claims) -> &SnpClaims {
    match claims.statement() {
        Statement::SevSnp(snp) => snp,
        other => panic!("{other:?}"),
    }
}

/// What the entry says of SEV-SNP.
pub(crate) fn snp(entry: &mut Entry) -> &mut SnpReference {
    match &mut entry.reference {
        Reference::SevSnp(snp) => snp,
        other => panic!("{other:?}"),
    }
}

/// The policy under which [`Prover::honest`] is verified, every value pinned.
pub(crate) fn honest() -> VerifiedPolicy {
    policy(vec![entry(&MATERIAL)], Floors { complete: true, ..Floors::default() })
}

/// A verified policy in which `embedder` has these entries.
pub(crate) fn policy(entries: Vec<Entry>, floors: Floors) -> VerifiedPolicy {
    policy_of_epoch(1, entries, floors)
}

pub(crate) fn policy_of_epoch(epoch: u64, entries: Vec<Entry>, floors: Floors) -> VerifiedPolicy {
    let owner = SigningKey::from_seed(&[7; 32]).unwrap();
    let keys = vec![owner.public_key()];
    let document = Document {
        version: 1,
        namespace: "demo".parse().unwrap(),
        name: "demo".parse().unwrap(),
        epoch,
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

/// What an honest prover states of its trust: the roots that [`policy_of_epoch`] is verified from.
pub(crate) fn trust() -> Arc<TrustConfiguration> {
    let keys = vec![SigningKey::from_seed(&[7; 32]).unwrap().public_key()];
    let (namespace, policy) = ("demo".parse().unwrap(), "demo".parse().unwrap());
    let roots = Roots { namespace, policy, threshold: 1, keys, minimum_epoch: 1 };
    Arc::new(TrustConfiguration { source: RootSource::File, roots, simulation: true })
}

/// REPORT_DATA of the honest prover for `tree`.
pub(crate) fn report_of(platform: Platform, policy: &VerifiedPolicy, tree: &Tree) -> [u8; 64] {
    let subject = ReportSubject {
        platform,
        pod: &pod(),
        own_static: &PROVER,
        policy: &policy.digest(),
        trust: &trust().digest(),
        workload: None,
    };
    report_data(&subject, tree.leaves(), tree.root())
}

/// The prover's leaf of the handshake.
pub(crate) fn leaf() -> Leaf {
    Leaf::new(Purpose::Handshake, Role::Initiator, &HANDSHAKE_HASH, &BINDING_KEY, &PROVER, &VERIFIER)
}

/// A prover at work: what it sends for a handshake under a policy.
pub(crate) struct Prover {
    pub(crate) format: Format,
    pub(crate) material: Material,
    pub(crate) pod: PodIdentity,
    pub(crate) static_key: [u8; 32],
    pub(crate) policy: Digest,
    pub(crate) trust: Arc<TrustConfiguration>,
    pub(crate) tree: Tree,
    pub(crate) index: u32,
    /// What a node agent states, which then composes REPORT_DATA.
    pub(crate) workload: Option<StatedWorkload>,
}

impl Prover {
    pub(crate) fn honest(policy: &VerifiedPolicy) -> Self {
        Self {
            format: Format::SimulatedSevSnp,
            material: MATERIAL.clone(),
            pod: pod(),
            static_key: PROVER,
            policy: policy.digest(),
            trust: trust(),
            tree: Tree::single(leaf()),
            index: 0,
            workload: None,
        }
    }

    pub(crate) fn send(&self) -> EvidenceMessage {
        self.send_edited(|_| {})
    }

    pub(crate) fn send_edited(&self, edit: impl FnOnce(&mut [u8; REPORT_BYTES])) -> EvidenceMessage {
        let Self { format, material, pod, static_key, policy, trust, tree, index, workload } = self;
        let subject = ReportSubject {
            platform: format.platform(),
            pod,
            own_static: static_key,
            policy,
            trust: &trust.digest(),
            workload: workload.as_ref(),
        };
        let data = report_data(&subject, tree.leaves(), tree.root());
        let quote = guest(material).quote_edited(data, edit).unwrap();
        let path: MerklePath = tree.path(*index).unwrap();
        let evidence = evidence(*format, quote);
        EvidenceMessage { pod: pod.clone(), policy: *policy, path, evidence, workload: workload.clone() }
    }
}

/// What the verifier makes of a message over the wire, in the handshake of this module.
pub(crate) fn judged(message: &EvidenceMessage, policy: &VerifiedPolicy) -> Result<VerifiedPeer, Rejection> {
    judged_stating(&trust(), message, policy)
}

/// The same for a prover that stated this configuration.
pub(crate) fn judged_stating(
    trust: &Arc<TrustConfiguration>,
    message: &EvidenceMessage,
    policy: &VerifiedPolicy,
) -> Result<VerifiedPeer, Rejection> {
    let (pod, policies) = (pod(), [policy.digest()]);
    let expected = Expected { leaf: leaf(), prover_static: &PROVER, pod: &pod, trust, policies: &policies };
    let message = EvidenceMessage::decode(&message.encode()?)?;
    judge(&message, &expected, &peer(), policy, &simulation(), now())
}
