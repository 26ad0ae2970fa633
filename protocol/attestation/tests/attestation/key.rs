//! Pinned keys: what their holders sign, and what it counts for.

use sealane_attestation::binding::{Leaf, Purpose, ReportSubject, Role, Tree, report_data};
use sealane_attestation::limits::KEY_REPORT_BYTES;
use sealane_attestation::{
    Collateral, Evidence, EvidenceMessage, Format, KEY_PAYLOAD_TYPE, Rejection, StatedWorkload, Statement,
    inspect, key_report, rejudge,
};
use sealane_policy::{Entry, Floors, PAYLOAD_TYPE, Reference, SigningKey, VerifiedPolicy, pae};
use sealane_types::{Assurance, Digest, Platform, PodIdentity, PublicKey, Reason, UnixSeconds};

use crate::support::{
    BINDING_KEY, HANDSHAKE_HASH, MATERIAL, PROVER, Prover, VERIFIER, entry, honest, judged, leaf, now, pod,
    policy, policy_of_epoch, trust,
};

fn key(number: u8) -> SigningKey {
    SigningKey::from_seed(&[number; 32]).unwrap()
}

fn pinning(keys: &[u8]) -> Entry {
    Entry {
        assurance: Assurance::Key,
        root: None,
        workload: None,
        unverified_workload: false,
        reference: Reference::Key(keys.iter().map(|number| key(*number).public_key()).collect()),
    }
}

fn listing(keys: &[u8]) -> VerifiedPolicy {
    policy(vec![pinning(keys)], Floors { complete: true, ..Floors::default() })
}

fn signed(key: &SigningKey, data: &[u8; 64]) -> Evidence {
    let report = key_report(&key.public_key(), data, &key.sign_as(KEY_PAYLOAD_TYPE, data));
    Evidence { format: Format::Key, report, certificates: vec![] }
}

/// A holder of a key at work.
struct Holder {
    key: SigningKey,
    pod: PodIdentity,
    static_key: [u8; 32],
    policy: Digest,
    leaf: Leaf,
}

impl Holder {
    fn honest(number: u8, policy: &VerifiedPolicy) -> Self {
        Self { key: key(number), pod: pod(), static_key: PROVER, policy: policy.digest(), leaf: leaf() }
    }

    fn send(&self) -> EvidenceMessage {
        let Self { key, pod, static_key, policy, leaf } = self;
        let tree = Tree::single(*leaf);
        let trust = trust().digest();
        let subject = ReportSubject {
            platform: Platform::Key,
            pod,
            own_static: static_key,
            policy,
            trust: &trust,
            workload: None,
        };
        let data = report_data(&subject, tree.leaves(), tree.root());
        let path = tree.path(0).unwrap();
        EvidenceMessage {
            pod: pod.clone(),
            policy: *policy,
            path,
            evidence: signed(key, &data),
            workload: None,
        }
    }
}

fn inspected(evidence: &Evidence) -> Result<PublicKey, Rejection> {
    let claims = inspect(evidence, &Collateral::empty(), now())?;
    match claims.statement() {
        Statement::Key(key) => Ok(*key.public_key()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_listed_key_is_accepted_as_a_key() {
    let policy = listing(&[1, 2]);
    let verified = judged(&Holder::honest(2, &policy).send(), &policy).unwrap();
    assert_eq!((verified.platform(), verified.assurance()), (Platform::Key, Assurance::Key));
    assert_eq!((verified.pod(), verified.static_key()), (&pod(), &PROVER));
    assert_eq!((verified.measurement(), verified.tcb_status()), (None, None), "nobody vouches for either");
    assert_eq!((verified.expires(), verified.ends()), (UnixSeconds::NEVER, None));
    assert_eq!(verified.degradations(), [], "what is weaker about a key is its assurance");
}

#[test]
fn an_unlisted_key_is_refused_by_its_own_word() {
    let policy = listing(&[1]);
    let refused = judged(&Holder::honest(2, &policy).send(), &policy).unwrap_err();
    assert_eq!((refused, refused.reason()), (Rejection::Key, Reason::KeyMismatch));
}

#[test]
fn a_key_satisfies_no_entry_of_a_platform_and_no_platform_that_of_a_key() {
    let platforms = honest();
    let refused = judged(&Holder::honest(1, &platforms).send(), &platforms).unwrap_err();
    assert_eq!(refused, Rejection::PlatformNotAllowed(Platform::Key));
    let keys = listing(&[1]);
    let refused = judged(&Prover::honest(&keys).send(), &keys).unwrap_err();
    assert_eq!(refused, Rejection::PlatformNotAllowed(Platform::Simulated));
    // Each of two entries serves its own.
    let both = policy(vec![entry(&MATERIAL), pinning(&[1])], Floors::default());
    let assurance = |message: EvidenceMessage| judged(&message, &both).unwrap().assurance();
    assert_eq!(assurance(Holder::honest(1, &both).send()), Assurance::Key);
    assert_eq!(assurance(Prover::honest(&both).send()), Assurance::Simulated);
}

#[test]
fn a_statement_is_for_one_handshake() {
    let policy = listing(&[1]);
    let (handshake, initiator) = (Purpose::Handshake, Role::Initiator);
    let honest = || Holder::honest(1, &policy);
    assert!(judged(&honest().send(), &policy).is_ok());
    let elsewhere = [
        Leaf::new(handshake, initiator, &[9; 32], &BINDING_KEY, &PROVER, &VERIFIER),
        Leaf::new(handshake, initiator, &HANDSHAKE_HASH, &[9; 32], &PROVER, &VERIFIER),
        Leaf::new(handshake, initiator, &HANDSHAKE_HASH, &BINDING_KEY, &PROVER, &[9; 32]),
        Leaf::new(Purpose::Audit, initiator, &HANDSHAKE_HASH, &BINDING_KEY, &PROVER, &VERIFIER),
        Leaf::new(handshake, Role::Responder, &HANDSHAKE_HASH, &BINDING_KEY, &VERIFIER, &PROVER),
    ];
    let of_others = [
        Holder { static_key: [9; 32], ..honest() }.send(),
        EvidenceMessage {
            pod: pod(),
            ..Holder { pod: PodIdentity::new("demo", "embedder-1", "6f1c").unwrap(), ..honest() }.send()
        },
        EvidenceMessage {
            policy: policy.digest(),
            ..Holder { policy: Digest::new([9; 32]), ..honest() }.send()
        },
    ];
    for message in elsewhere.into_iter().map(|leaf| Holder { leaf, ..honest() }.send()).chain(of_others) {
        let outcome = judged(&message, &policy);
        assert!(matches!(outcome, Err(Rejection::NotBound(_))), "{outcome:?}");
    }
}

#[test]
fn a_key_states_no_workload() {
    let policy = listing(&[1]);
    let images = [("app".to_owned(), Digest::new([1; 32]))].into();
    let workload = StatedWorkload::new("embedder".to_owned(), images).unwrap();
    let tree = Tree::single(leaf());
    let subject = ReportSubject {
        platform: Platform::Key,
        pod: &pod(),
        own_static: &PROVER,
        policy: &policy.digest(),
        trust: &trust().digest(),
        workload: Some(&workload),
    };
    let data = report_data(&subject, 1, tree.root());
    let honest = Holder::honest(1, &policy).send();
    let stated = EvidenceMessage { evidence: signed(&key(1), &data), workload: Some(workload), ..honest };
    assert!(matches!(judged(&stated, &policy), Err(Rejection::Malformed(_))));
}

#[test]
fn every_byte_of_a_statement_is_signed() {
    let honest = signed(&key(1), &[5; 64]);
    assert_eq!(inspected(&honest), Ok(key(1).public_key()));
    for position in 0..KEY_REPORT_BYTES {
        let mut evidence = honest.clone();
        evidence.report[position] ^= 1 << (position % 8);
        let refused = inspected(&evidence).unwrap_err();
        assert!(matches!(refused, Rejection::Untrusted(_)), "{position}: {refused}");
    }
    // The name of a listed key over another one's signature.
    let mut borrowed = honest;
    borrowed.report[..32].copy_from_slice(key(2).public_key().as_bytes());
    assert!(inspected(&borrowed).is_err());
}

#[test]
fn a_statement_has_one_length_and_no_certificates() {
    let honest = signed(&key(1), &[5; 64]);
    for length in 0..KEY_REPORT_BYTES {
        let mut shorter = honest.clone();
        shorter.report.truncate(length);
        assert!(matches!(inspected(&shorter), Err(Rejection::Malformed(_))), "{length}");
    }
    let mut longer = honest.clone();
    longer.report.push(0);
    assert!(matches!(inspected(&longer), Err(Rejection::Malformed(_))));
    let accompanied = Evidence { certificates: vec![vec![]], ..honest };
    assert!(matches!(inspected(&accompanied), Err(Rejection::Malformed(_))));
}

#[test]
fn what_a_key_signed_for_another_purpose_is_no_statement() {
    let data = [5; 64];
    let one = key(1);
    // An owner's key signs policies; what it signed as one, or without any type, proves nothing here.
    for other in [PAYLOAD_TYPE, "", "application/vnd.sealane.key-evidence.v2"] {
        let report = key_report(&one.public_key(), &data, &one.sign_as(other, &data));
        let evidence = Evidence { format: Format::Key, report, certificates: vec![] };
        assert!(matches!(inspected(&evidence), Err(Rejection::Untrusted(_))), "{other}");
    }
    assert_ne!(sealane_policy::pae_as(KEY_PAYLOAD_TYPE, &data), pae(&data));
}

#[test]
fn an_epoch_that_drops_a_key_ends_what_it_carried() {
    let policy = listing(&[1]);
    let held = judged(&Holder::honest(1, &policy).send(), &policy).unwrap();
    let epoch = |number, entries| policy_of_epoch(number, entries, Floors::default());
    assert!(rejudge(&held, &epoch(2, vec![pinning(&[1, 2])]), now()).is_ok());
    let dropped = rejudge(&held, &epoch(3, vec![pinning(&[2])]), now()).unwrap_err();
    assert_eq!(dropped.reason(), Reason::KeyMismatch);
    let refused = rejudge(&held, &epoch(4, vec![entry(&MATERIAL)]), now()).unwrap_err();
    assert_eq!(refused, Rejection::PlatformNotAllowed(Platform::Key));
}
