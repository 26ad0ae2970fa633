//! `handshake.json`: every byte of a hybrid and of a classical handshake, up to the first record of each side.

use std::sync::Arc;

use aws_lc_rs::kem::{Ciphertext, DecapsulationKey, ML_KEM_768};
use sealane_attestation::binding::{Leaf, Purpose, Role};
use sealane_types::{Cipher, Digest, PeerName, PodIdentity, SessionName};
use serde_json::{Value, json};

use super::keys::{TICKET, evidence, ticket};
use super::{check, stored, trust};
use crate::Moment;
use crate::frame::control::{Confirm, Control};
use crate::frame::encode;
use crate::handshake::{
    Finished, Hello, Initiator, KeyExchange, Kind, Presented, Responder, Resuming, Suite, Terms,
    answer_renewal, answer_ticket, capability,
};
use crate::keys::{Decapsulate, Kem, KemFailed, Label, MlKem768, Random, RandomFailed, Secret, StaticKey};
use crate::limits::{KEM_CIPHERTEXT_BYTES, KEM_KEY_BYTES, RECORD_HEADER_BYTES, TAG_BYTES};
use crate::record::{RecordKind, Rekey, Sealer};

const INITIATOR_STATIC: [u8; 32] = [0x01; 32];
const RESPONDER_STATIC: [u8; 32] = [0x02; 32];
const INITIATOR_EPHEMERAL: [u8; 32] = [0x03; 32];
const RESPONDER_EPHEMERAL: [u8; 32] = [0x04; 32];

/// Yields one byte for ever.
struct Fixed(u8);

impl Random for Fixed {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
        bytes.fill(self.0);
        Ok(())
    }
}

/// Genuine ML-KEM-768 material, made once: aws-lc draws its own randomness.
#[derive(Debug, Clone)]
struct Recorded {
    private: Vec<u8>,
    public: [u8; KEM_KEY_BYTES],
    ciphertext: [u8; KEM_CIPHERTEXT_BYTES],
    secret: [u8; 32],
}

impl Recorded {
    fn load() -> Self {
        stored("handshake.json").as_ref().and_then(Self::read).unwrap_or_else(Self::generate)
    }

    fn read(file: &Value) -> Option<Self> {
        let field = |name: &str| hex::decode(file["kem"][name].as_str()?).ok();
        Some(Self {
            private: field("decapsulationKey")?,
            public: field("encapsulationKey")?.try_into().ok()?,
            ciphertext: field("ciphertext")?.try_into().ok()?,
            secret: field("secret")?.try_into().ok()?,
        })
    }

    fn generate() -> Self {
        let key = DecapsulationKey::generate(&ML_KEM_768).unwrap();
        let public = key.encapsulation_key().unwrap().key_bytes().unwrap().as_ref().try_into().unwrap();
        let (ciphertext, secret) = MlKem768.encapsulate(&public).unwrap();
        Self {
            private: key.key_bytes().unwrap().as_ref().to_vec(),
            public,
            ciphertext,
            secret: *secret.expose(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "decapsulationKey": hex::encode(&self.private),
            "encapsulationKey": hex::encode(self.public),
            "ciphertext": hex::encode(self.ciphertext),
            "secret": hex::encode(self.secret),
        })
    }
}

impl Kem for Recorded {
    fn generate(&self) -> Result<(Box<dyn Decapsulate>, [u8; KEM_KEY_BYTES]), KemFailed> {
        Ok((Box::new(self.clone()), self.public))
    }

    fn encapsulate(
        &self,
        key: &[u8; KEM_KEY_BYTES],
    ) -> Result<([u8; KEM_CIPHERTEXT_BYTES], Secret<32>), KemFailed> {
        assert_eq!(key, &self.public);
        Ok((self.ciphertext, Secret::take(&mut self.secret.clone())))
    }
}

impl Decapsulate for Recorded {
    fn decapsulate(
        self: Box<Self>,
        ciphertext: &[u8; KEM_CIPHERTEXT_BYTES],
    ) -> Result<Secret<32>, KemFailed> {
        let key = DecapsulationKey::new(&ML_KEM_768, &self.private).map_err(|_| KemFailed)?;
        let secret = key.decapsulate(Ciphertext::from(ciphertext.as_slice())).map_err(|_| KemFailed)?;
        assert_eq!(secret.as_ref(), self.secret);
        Ok(Secret::take(&mut self.secret.clone()))
    }
}

fn confirm(own: &str, expected: &str) -> Confirm {
    Confirm {
        version: 1,
        peer: PeerName::new(own).unwrap(),
        expected: PeerName::new(expected).unwrap(),
        session: SessionName::new("activations").unwrap(),
        pod: PodIdentity::new("demo", &format!("{own}-0"), "6f1c").unwrap(),
        epoch: 7,
        digest: Digest::new([0x99; 32]),
        trust: trust(),
    }
}

fn first_record(finished: &Finished, from: Label, confirm: Confirm) -> Value {
    let now = Moment::from_micros(0);
    let mut sealer = Sealer::new(finished.root.link(from), Rekey::default(), now);
    let mut frame = vec![0; 1024];
    let used = encode(&Control::Confirm(confirm), &mut frame).unwrap();
    frame.truncate(used);
    let mut record = vec![0; RECORD_HEADER_BYTES];
    record.extend_from_slice(&frame);
    record.resize(record.len() + TAG_BYTES, 0);
    sealer.seal(RecordKind::Data, &mut record).unwrap();
    json!({ "confirm": hex::encode(frame), "record": hex::encode(record) })
}

fn leaf(purpose: Purpose, finished: &Finished, role: Role, own: &StaticKey, peer: &StaticKey) -> String {
    let key = finished.root.binding_key();
    let leaf = Leaf::new(purpose, role, &finished.handshake_hash, key.expose(), own.public(), peer.public());
    hex::encode(leaf.as_bytes())
}

fn case(exchange: KeyExchange, kem: &Recorded) -> Value {
    let static_key = |bytes: [u8; 32]| Arc::new(StaticKey::new(Secret::take(&mut bytes.clone())).unwrap());
    let (own, peer) = (static_key(INITIATOR_STATIC), static_key(RESPONDER_STATIC));
    let suites =
        [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305].map(|cipher| Suite::new(exchange, cipher)).to_vec();
    let random = &mut Fixed(INITIATOR_EPHEMERAL[0]);
    let (initiator, opening) =
        Initiator::begin(Kind::Full, suites.clone(), capability::of(false), &own, kem, random).unwrap();
    let responder = Responder {
        static_key: peer.clone(),
        kem: Arc::new(kem.clone()),
        suites,
        audit: false,
        capabilities: capability::of(false),
        ephemeral: Secret::take(&mut RESPONDER_EPHEMERAL.clone()),
    };
    let (hello, _) = Hello::parse(&opening.hello).unwrap().unwrap();
    let (responder, second) = responder.on_message1(&hello, &opening.hello, &opening.message).unwrap();
    let (first, third) = initiator.on_message2(&second).unwrap();
    let last = responder.on_message3(&third).unwrap();
    assert_eq!(first.handshake_hash, last.handshake_hash);
    assert_eq!(first.root.binding_key(), last.root.binding_key());
    json!({
        "kind": Kind::Full as u8,
        "versions": hello.versions,
        "suites": hello.suites.iter().map(|suite| suite.code()).collect::<Vec<_>>(),
        "capabilities": hello.capabilities,
        "version": first.version,
        "suite": first.suite.code(),
        "hello": hex::encode(&opening.hello),
        "message1": hex::encode(&opening.message),
        "message2": hex::encode(&second),
        "message3": hex::encode(&third),
        "handshakeHash": hex::encode(first.handshake_hash),
        "bindingKey": hex::encode(first.root.binding_key().expose()),
        "initiatorRecord": first_record(&first, Label::Initiator, confirm("embedder", "ranker")),
        "responderRecord": first_record(&last, Label::Responder, confirm("ranker", "embedder")),
        "initiatorLeaf": leaf(Purpose::Handshake, &first, Role::Initiator, &own, &peer),
        "responderLeaf": leaf(Purpose::Handshake, &last, Role::Responder, &peer, &own),
        "renewal": renewal(&first, &own, &peer, kem),
        "resumption": resumption(&first, &last, &peer, kem),
    })
}

/// The same sides begin another connection by a ticket of the first one.
fn resumption(first: &Finished, last: &Finished, peer: &Arc<StaticKey>, kem: &Recorded) -> Value {
    let presented = |finished: &Finished| Presented {
        id: TICKET,
        secret: finished.root.resumption().ticket(TICKET, &evidence()),
        exchange: finished.suite.exchange,
        remote_static: finished.remote_static,
    };
    let suites = vec![first.suite];
    let random = &mut Fixed(INITIATOR_EPHEMERAL[0]);
    let (initiator, opening) =
        Resuming::begin(presented(first), suites.clone(), capability::of(false), random).unwrap();
    let responder = Responder {
        static_key: peer.clone(),
        kem: Arc::new(kem.clone()),
        suites,
        audit: false,
        capabilities: capability::of(false),
        ephemeral: Secret::take(&mut RESPONDER_EPHEMERAL.clone()),
    };
    let (hello, _) = Hello::parse(&opening.hello).unwrap().unwrap();
    let presented = presented(last);
    let (accepted, second) =
        answer_ticket(responder, &presented, &hello, &opening.hello, &opening.message).unwrap();
    let dialled = initiator.on_message2(&second).unwrap();
    assert_eq!(dialled.root.binding_key(), accepted.root.binding_key());
    json!({
        "ticket": ticket(&first.root),
        "hello": hex::encode(&opening.hello),
        "message1": hex::encode(&opening.message),
        "message2": hex::encode(&second),
        "handshakeHash": hex::encode(dialled.handshake_hash),
        "bindingKey": hex::encode(dialled.root.binding_key().expose()),
        "initiatorRecord": first_record(&dialled, Label::Initiator, confirm("embedder", "ranker")),
        "responderRecord": first_record(&accepted, Label::Responder, confirm("ranker", "embedder")),
        "nextTicket": ticket(&accepted.root),
    })
}

/// The same sides attest the connection again.
fn renewal(before: &Finished, own: &StaticKey, peer: &Arc<StaticKey>, kem: &Recorded) -> Value {
    let Finished { handshake_hash, suite, version, kind, capabilities, .. } = *before;
    let terms = Terms { handshake_hash, version, kind, suite, capabilities };
    let random = &mut Fixed(INITIATOR_EPHEMERAL[0]);
    let (initiator, message) = Initiator::again(&terms, own, kem, random).unwrap();
    let random = &mut Fixed(RESPONDER_EPHEMERAL[0]);
    let (responder, second) =
        answer_renewal(&terms, peer.clone(), Arc::new(kem.clone()), &message, random).unwrap();
    let (first, third) = initiator.on_message2(&second).unwrap();
    let last = responder.on_message3(&third).unwrap();
    assert_eq!(first.root.binding_key(), last.root.binding_key());
    json!({
        "message1": hex::encode(&message),
        "message2": hex::encode(&second),
        "message3": hex::encode(&third),
        "handshakeHash": hex::encode(first.handshake_hash),
        "bindingKey": hex::encode(first.root.binding_key().expose()),
        "initiatorLeaf": leaf(Purpose::Reattest, &first, Role::Initiator, own, peer),
        "responderLeaf": leaf(Purpose::Reattest, &last, Role::Responder, peer, own),
        "initiatorRecords": renewed_records(before, &first, Label::Initiator),
        "responderRecords": renewed_records(before, &last, Label::Responder),
    })
}

/// The sign that the keys are replaced, as the first record of the old ones, and an empty pad behind it.
fn renewed_records(before: &Finished, after: &Finished, from: Label) -> Value {
    let now = Moment::from_micros(0);
    let secret = |finished: &Finished| finished.root.link(from);
    let mut sealer = Sealer::new(secret(before), Rekey::default(), now);
    let mut sign = vec![0; RECORD_HEADER_BYTES + TAG_BYTES];
    sealer.renew(&mut sign, secret(after), now).unwrap();
    let mut frame = vec![0; 16];
    let used = encode(&Control::Pad, &mut frame).unwrap();
    let mut next = vec![0; RECORD_HEADER_BYTES];
    next.extend_from_slice(&frame[..used]);
    next.resize(next.len() + TAG_BYTES, 0);
    sealer.seal(RecordKind::Data, &mut next).unwrap();
    json!({ "renewed": hex::encode(sign), "next": hex::encode(next) })
}

#[test]
fn handshakes() {
    let kem = Recorded::load();
    let computed = json!({
        "initiatorStatic": hex::encode(INITIATOR_STATIC),
        "responderStatic": hex::encode(RESPONDER_STATIC),
        "initiatorEphemeral": hex::encode(INITIATOR_EPHEMERAL),
        "responderEphemeral": hex::encode(RESPONDER_EPHEMERAL),
        "kem": kem.to_json(),
        "cases": [case(KeyExchange::Hybrid, &kem), case(KeyExchange::Classical, &kem)],
    });
    check("handshake.json", &computed);
}
