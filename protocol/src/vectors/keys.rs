//! `keys.json`: from Noise's split and the ML-KEM secret to the keys of three phases.

use sealane_types::Cipher;
use serde_json::{Value, json};

use super::check;
use crate::handshake::Suite;
use crate::keys::{Label, Root, Secret, Split};

const SPLIT_INITIATOR: [u8; 32] = [0x11; 32];
const SPLIT_RESPONDER: [u8; 32] = [0x22; 32];
const KEM: [u8; 32] = [0x33; 32];
const HASH: [u8; 32] = [0x44; 32];

fn link(root: &Root, from: Label, number: u32, nonces: [u8; 64]) -> Value {
    let mut secret = root.link(from, number, &nonces);
    let mut phases = Vec::new();
    for _ in 0..3 {
        phases.push(json!({
            "key": hex::encode(secret.key().expose()),
            "nonceMask": hex::encode(secret.nonce().expose()),
        }));
        secret = secret.update();
    }
    json!({
        "direction": String::from_utf8(from.as_bytes().to_vec()).unwrap(),
        "link": number,
        "joinNonces": hex::encode(nonces),
        "phases": phases,
    })
}

fn case(suite: Suite) -> Value {
    let secret = |bytes: [u8; 32]| Secret::take(&mut bytes.clone());
    let split = Split { initiator: secret(SPLIT_INITIATOR), responder: secret(SPLIT_RESPONDER) };
    let kem = suite.post_quantum().then(|| secret(KEM));
    let root = Root::new(&split, kem.as_ref(), suite, HASH);
    json!({
        "suite": suite.code(),
        "splitInitiator": hex::encode(SPLIT_INITIATOR),
        "splitResponder": hex::encode(SPLIT_RESPONDER),
        "kemSecret": kem.map(|kem| hex::encode(kem.expose())),
        "handshakeHash": hex::encode(HASH),
        "bindingKey": hex::encode(root.binding_key().expose()),
        "links": [
            link(&root, Label::Initiator, 0, [0; 64]),
            link(&root, Label::Responder, 0, [0; 64]),
            link(&root, Label::Initiator, 1, [0x55; 64]),
        ],
    })
}

#[test]
fn keys() {
    let cases: Vec<_> = Suite::offer(Cipher::ALL, true).into_iter().map(case).collect();
    check("keys.json", &json!({ "cases": cases }));
}

#[test]
fn no_two_secrets_are_alike() {
    let mut seen = std::collections::BTreeSet::new();
    for suite in Suite::offer(Cipher::ALL, true) {
        let case = case(suite);
        assert!(seen.insert(case["bindingKey"].to_string()));
        for phase in
            case["links"].as_array().unwrap().iter().flat_map(|link| link["phases"].as_array().unwrap())
        {
            assert!(seen.insert(phase["key"].to_string()));
            assert!(seen.insert(phase["nonceMask"].to_string()));
        }
    }
}
