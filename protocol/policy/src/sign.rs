//! DSSE pre-authentication encoding and Ed25519 keys of policy owners.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_types::{KeyId, PublicKey, Signature};

/// The DSSE payload type under which documents are signed.
pub const PAYLOAD_TYPE: &str = "application/vnd.sealane.policy.v1+json";

/// The bytes that are signed for `payload` (DSSE v1, PAE): type and length are part of them, so a signature
/// for another purpose never counts here.
#[must_use]
pub fn pae(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// SHA-256 of an owner's raw public key.
#[must_use]
pub fn key_id(key: &PublicKey) -> KeyId {
    KeyId::new(sha256(key.as_bytes()))
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut output = [0; 32];
    output.copy_from_slice(digest(&SHA256, bytes).as_ref());
    output
}

/// A policy owner's private key. Redacted in `Debug`; aws-lc-rs wipes it when dropped.
pub struct SigningKey(Ed25519KeyPair);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.public_key())
    }
}

impl SigningKey {
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey::new(bytes)
    }

    #[must_use]
    pub fn key_id(&self) -> KeyId {
        key_id(&self.public_key())
    }
}

/// Signs the exact bytes of a document.
#[must_use]
pub fn sign(document: &[u8], key: &SigningKey) -> Signature {
    let signature = key.0.sign(&pae(document));
    Signature { key_id: key.key_id(), signature: STANDARD.encode(signature.as_ref()) }
}
