//! Documents and chains to start from; each test spoils one thing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_policy::{SigningKey, Timestamp, canonical, sign};
use sealane_types::{PublicKey, Roots, Signature, SignedChain, SignedDocument};
use serde_json::{Value, json};

pub(crate) fn owner(index: u8) -> SigningKey {
    SigningKey::from_seed(&[index; 32]).unwrap()
}

pub(crate) fn public(indices: &[u8]) -> Vec<PublicKey> {
    indices.iter().map(|index| owner(*index).public_key()).collect()
}

pub(crate) fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// A moment at which every document made here is in force.
pub(crate) fn now() -> Timestamp {
    at("2026-11-21T00:00:00Z")
}

pub(crate) fn authorities(threshold: u32, indices: &[u8]) -> Value {
    let mut keys: Vec<String> = public(indices).iter().map(ToString::to_string).collect();
    keys.sort();
    json!({"threshold": threshold, "keys": keys})
}

pub(crate) fn snp(host_data: u8) -> Value {
    json!({
        "kind": "SevSnp",
        "assurance": "Pod",
        "measurements": ["ab".repeat(48)],
        "hostData": [format!("{host_data:02x}").repeat(32)],
        "products": ["Genoa"],
        "minTcb": {"bootloader": 4, "tee": 0, "snp": 24, "microcode": 219},
    })
}

/// Owners 1 and 2, both needed; two Peers and one stream.
pub(crate) fn document(epoch: u64) -> Value {
    json!({
        "version": 1,
        "namespace": "demo",
        "name": "demo",
        "epoch": epoch,
        "notBefore": "2026-11-20T00:00:00Z",
        "expires": "2026-11-27T00:00:00Z",
        "authorities": authorities(2, &[1, 2]),
        "peers": {"embedder": {"entries": [snp(1)]}, "ranker": {"entries": [snp(2)]}},
        "sessions": [{"name": "activations", "from": "embedder", "to": "ranker", "stream": {}}],
    })
}

pub(crate) fn bytes(document: &Value) -> Vec<u8> {
    canonical(document.to_string().as_bytes()).unwrap()
}

pub(crate) fn signatures(document: &[u8], owners: &[u8]) -> Vec<Signature> {
    owners.iter().map(|index| sign(document, &owner(*index))).collect()
}

pub(crate) fn signed(document: &Value, owners: &[u8]) -> SignedDocument {
    let bytes = bytes(document);
    SignedDocument { document: STANDARD.encode(&bytes), signatures: signatures(&bytes, owners) }
}

pub(crate) fn chain(document: &Value, owners: &[u8]) -> SignedChain {
    let SignedDocument { document, signatures } = signed(document, owners);
    SignedChain { document, signatures, rotations: Vec::new() }
}

pub(crate) fn rotated(rotations: Vec<SignedDocument>, document: &Value, owners: &[u8]) -> SignedChain {
    SignedChain { rotations, ..chain(document, owners) }
}

pub(crate) fn roots() -> Roots {
    Roots {
        namespace: "demo".parse().unwrap(),
        policy: "demo".parse().unwrap(),
        threshold: 2,
        keys: public(&[1, 2]),
        minimum_epoch: 1,
    }
}
