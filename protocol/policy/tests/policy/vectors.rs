//! `tests/vectors/policy.json`: what other implementations recompute. Regenerate with
//! `SEALANE_WRITE_VECTORS=1 cargo test -p sealane-policy --test policy vectors`.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_policy::{canonical, digest_of, pae, parse, verify};
use sealane_types::{Roots, SignedChain};
use serde_json::{Value, json};

use crate::support::*;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/policy.json")
}

fn handover(epoch: u64) -> Value {
    let mut document = document(epoch);
    document["authorities"] = authorities(2, &[2, 3]);
    document
}

/// A document with a rule of either kind.
fn forwarding(epoch: u64) -> Value {
    let mut document = document(epoch);
    let forward = json!({"from": "embedder", "to": ["ranker"], "forward": {"targets": [8001, 8002]}});
    document["sessions"].as_array_mut().unwrap().push(forward);
    document
}

/// A document under which no connection lives longer than an hour.
fn limited(epoch: u64) -> Value {
    let mut document = document(epoch);
    document["limits"] = json!({"sessionSeconds": 3_600});
    document
}

/// Chains by name, with the reason of the refusal, or none where they verify.
fn chains() -> Vec<(&'static str, SignedChain)> {
    let rotation = signed(&handover(2), &[1, 2, 3]);
    let mut forged = chain(&document(1), &[1, 9]);
    forged.signatures[1].key_id = owner(2).key_id();
    let mut expired = document(1);
    expired["notBefore"] = json!("2026-11-01T00:00:00Z");
    expired["expires"] = json!("2026-11-08T00:00:00Z");
    vec![
        ("quorum", chain(&document(1), &[1, 2])),
        ("one-owner-twice", chain(&document(1), &[1, 1])),
        ("stranger", chain(&document(1), &[1, 9])),
        ("forged-key-id", forged),
        ("unsigned", chain(&document(1), &[])),
        ("expired", chain(&expired, &[1, 2])),
        ("rotated", rotated(vec![rotation.clone()], &handover(3), &[2, 3])),
        ("rotation-lacks-new-owner", rotated(vec![signed(&handover(2), &[1, 2])], &handover(3), &[2, 3])),
        ("old-owners-after-rotation", rotated(vec![rotation], &handover(3), &[1, 2])),
    ]
}

fn generate() -> Value {
    let documents: Vec<Value> = [document(1), handover(2), forwarding(3), limited(4)]
        .iter()
        .map(|document| {
            let bytes = bytes(document);
            json!({
                "document": document,
                "bytes": STANDARD.encode(&bytes),
                "digest": digest_of(&bytes),
                "pae": STANDARD.encode(pae(&bytes)),
                "signatures": signatures(&bytes, &[1, 2, 3]),
            })
        })
        .collect();
    let keys: Vec<Value> = [1, 2, 3, 9]
        .map(|index| {
            let key = owner(index);
            json!({
                "seed": format!("{index:02x}").repeat(32),
                "publicKey": key.public_key(),
                "keyId": key.key_id(),
            })
        })
        .to_vec();
    let chains: Vec<Value> = chains()
        .into_iter()
        .map(|(id, chain)| {
            let refused = verify(&chain, &roots(), now(), None).err().map(|error| error.reason());
            json!({"id": id, "chain": chain, "refused": refused})
        })
        .collect();
    json!({
        "note": "Keys are made from the seeds printed here: they protect nothing.",
        "payloadType": sealane_policy::PAYLOAD_TYPE,
        "now": now().to_string(),
        "keys": keys,
        "roots": roots(),
        "documents": documents,
        "chains": chains,
    })
}

#[test]
fn vectors_are_what_this_code_makes() {
    let fresh = format!("{:#}\n", generate());
    if std::env::var_os("SEALANE_WRITE_VECTORS").is_some() {
        std::fs::write(path(), &fresh).unwrap();
    }
    let stored = std::fs::read_to_string(path()).expect("tests/vectors/policy.json");
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(stored, generate(), "see the head of this file");
}

#[test]
fn vectors_verify_as_they_say() {
    let stored: Value = serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap();
    let roots: Roots = serde_json::from_value(stored["roots"].clone()).unwrap();
    let now = at(stored["now"].as_str().unwrap());
    for document in stored["documents"].as_array().unwrap() {
        let bytes = STANDARD.decode(document["bytes"].as_str().unwrap()).unwrap();
        assert_eq!(canonical(document["document"].to_string().as_bytes()).unwrap(), bytes);
        parse(&bytes).unwrap();
    }
    for case in stored["chains"].as_array().unwrap() {
        let chain: SignedChain = serde_json::from_value(case["chain"].clone()).unwrap();
        let refused = verify(&chain, &roots, now, None).err().map(|error| json!(error.reason()));
        assert_eq!(refused.unwrap_or_default(), case["refused"], "{}", case["id"]);
    }
}
