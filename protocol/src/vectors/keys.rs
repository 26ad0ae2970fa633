//! `keys.json`: from Noise's split and the ML-KEM secret to the keys of three phases.

use sealane_attestation::binding::Role;
use sealane_types::Cipher;
use serde_json::{Value, json};

use super::check;
use crate::Moment;
use crate::connection::{JoinRequest, LinkTerms};
use crate::handshake::{Kind, Suite, capability};
use crate::keys::{EvidenceDigests, Label, LinkSecret, Random, RandomFailed, Root, Secret, Split, TicketId};
use crate::record::{Level, Rekey};

const SPLIT_INITIATOR: [u8; 32] = [0x11; 32];
const SPLIT_RESPONDER: [u8; 32] = [0x22; 32];
const KEM: [u8; 32] = [0x33; 32];
const HASH: [u8; 32] = [0x44; 32];
pub(super) const TICKET: TicketId = TicketId([0x66; 16]);
const EVIDENCE: [&[u8]; 2] = [b"evidence of the initiator", b"evidence of the responder"];

/// Of two messages that are none.
pub(super) fn evidence() -> EvidenceDigests {
    let mut digests = EvidenceDigests::NONE;
    digests.shown(Role::Initiator, EVIDENCE[0]);
    digests.shown(Role::Responder, EVIDENCE[1]);
    digests
}

/// A ticket and its secret.
pub(super) fn ticket(root: &Root) -> Value {
    json!({
        "id": hex::encode(TICKET.0),
        "initiatorEvidence": hex::encode(EVIDENCE[0]),
        "responderEvidence": hex::encode(EVIDENCE[1]),
        "secret": hex::encode(root.resumption().ticket(TICKET, &evidence()).expose()),
    })
}

fn phases(mut secret: LinkSecret) -> Vec<Value> {
    let mut phases = Vec::new();
    for _ in 0..3 {
        phases.push(json!({
            "key": hex::encode(secret.key().expose()),
            "nonceMask": hex::encode(secret.nonce().expose()),
        }));
        secret = secret.update();
    }
    phases
}

fn link(root: &Root, from: Label) -> Value {
    json!({ "direction": name(from), "phases": phases(root.link(from)) })
}

/// A further link: what both sides say, and its keys.
fn join(root: &Root) -> Value {
    let terms = || LinkTerms::of(root, Kind::Full, capability::of(true), Level::Records).unwrap();
    let (own, remote) = (terms(), terms());
    // The second of those that a connection may have.
    own.join(&mut Fixed(0x54)).unwrap();
    let joiner = own.join(&mut Fixed(0x55)).unwrap().unwrap();
    let greeting = joiner.greeting().unwrap();
    let request = JoinRequest::parse(greeting[..].try_into().unwrap()).unwrap();
    let now = Moment::from_micros(0);
    let (_, answer) = remote.admit(&request, Rekey::default(), &mut Fixed(0x56), now).unwrap();
    assert!(matches!(joiner.on_answer(&answer, Rekey::default(), now), Ok(Some(_))));
    let mut nonces = [0x55; 64];
    nonces[32..].fill(0x56);
    json!({
        "link": joiner.link(),
        "name": hex::encode(own.name()),
        "initiatorNonce": hex::encode(&nonces[..32]),
        "responderNonce": hex::encode(&nonces[32..]),
        "greeting": hex::encode(greeting),
        "answer": hex::encode(answer),
        "phases": phases(root.joining().link(joiner.link(), &nonces)),
    })
}

/// Randomness that is the same byte.
struct Fixed(u8);

impl Random for Fixed {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        bytes.fill(self.0);
        Ok(())
    }
}

/// One direction of datagrams. The secret of a phase is the update of the one before.
pub(super) fn datagrams(root: &Root, from: Label) -> Value {
    let mut secret = root.datagrams(from);
    let header = hex::encode(secret.header().expose());
    let mut phases = Vec::new();
    for _ in 0..3 {
        phases.push(json!({
            "secret": hex::encode(secret.secret().expose()),
            "key": hex::encode(secret.key().expose()),
            "nonceMask": hex::encode(secret.nonce().expose()),
        }));
        secret = secret.update();
    }
    json!({ "direction": name(from), "headerKey": header, "phases": phases })
}

pub(super) fn name(from: Label) -> String {
    String::from_utf8(from.as_bytes().to_vec()).unwrap()
}

/// The root of the handshake that these vectors suppose.
pub(super) fn root(suite: Suite) -> Root {
    let secret = |bytes: [u8; 32]| Secret::take(&mut bytes.clone());
    let split = Split { initiator: secret(SPLIT_INITIATOR), responder: secret(SPLIT_RESPONDER) };
    let kem = suite.post_quantum().then(|| secret(KEM));
    Root::new(&split, kem.as_ref(), suite, HASH)
}

fn case(suite: Suite) -> Value {
    let root = root(suite);
    json!({
        "suite": suite.code(),
        "splitInitiator": hex::encode(SPLIT_INITIATOR),
        "splitResponder": hex::encode(SPLIT_RESPONDER),
        "kemSecret": suite.post_quantum().then(|| hex::encode(KEM)),
        "handshakeHash": hex::encode(HASH),
        "bindingKey": hex::encode(root.binding_key().expose()),
        "ticket": ticket(&root),
        "links": [
            link(&root, Label::Initiator),
            link(&root, Label::Responder),
        ],
        "join": join(&root),
        "datagrams": [datagrams(&root, Label::Initiator), datagrams(&root, Label::Responder)],
    })
}

#[test]
fn keys() {
    let cases: Vec<_> = Suite::offer(Cipher::ALL, true).into_iter().map(case).collect();
    check("keys.json", &json!({ "cases": cases }));
}

#[test]
fn a_ticket_differs_by_name_and_by_the_evidence_of_either_side() {
    let secret = |bytes: [u8; 32]| Secret::take(&mut bytes.clone());
    let split = Split { initiator: secret(SPLIT_INITIATOR), responder: secret(SPLIT_RESPONDER) };
    let suite = Suite::offer(Cipher::ALL, true)[0];
    let resumption = Root::new(&split, Some(&secret(KEM)), suite, HASH).resumption();
    let first = resumption.ticket(TICKET, &evidence());
    assert_eq!(first, resumption.ticket(TICKET, &evidence()));
    assert_ne!(first, resumption.ticket(TicketId([0x67; 16]), &evidence()));
    for other in [Role::Initiator, Role::Responder] {
        let mut evidence = evidence();
        evidence.shown(other, b"other evidence");
        assert_ne!(first, resumption.ticket(TICKET, &evidence));
    }
}

#[test]
fn no_two_secrets_are_alike() {
    let mut seen = std::collections::BTreeSet::new();
    for suite in Suite::offer(Cipher::ALL, true) {
        let case = case(suite);
        assert!(seen.insert(case["bindingKey"].to_string()));
        assert!(seen.insert(case["ticket"]["secret"].to_string()));
        let (links, datagrams) = (case["links"].as_array().unwrap(), case["datagrams"].as_array().unwrap());
        for direction in datagrams {
            assert!(seen.insert(direction["headerKey"].to_string()));
        }
        let join = [case["join"].clone()];
        assert!(seen.insert(case["join"]["name"].to_string()));
        for phase in
            links.iter().chain(&join).chain(datagrams).flat_map(|way| way["phases"].as_array().unwrap())
        {
            assert!(seen.insert(phase["key"].to_string()));
            assert!(seen.insert(phase["nonceMask"].to_string()));
            assert!(phase["secret"].is_null() || seen.insert(phase["secret"].to_string()));
        }
    }
}
