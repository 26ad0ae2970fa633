//! DSSE pre-authentication encoding, and the Ed25519 keys of policy owners and of Peers without a TEE.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::AsBigEndian as _;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_types::{Digest, KeyId, PublicKey, Signature};
use zeroize::Zeroizing;

use crate::PolicyError;

/// The DSSE payload type under which documents are signed.
pub const PAYLOAD_TYPE: &str = "application/vnd.sealane.policy.v1+json";

/// The bytes that are signed for a policy document ([`pae_as`]).
#[must_use]
pub fn pae(payload: &[u8]) -> Vec<u8> {
    pae_as(PAYLOAD_TYPE, payload)
}

/// The bytes that are signed for `payload` (DSSE v1, PAE): type and length are part of them, so a signature
/// for another purpose never counts.
#[must_use]
pub fn pae_as(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// SHA-256 of an owner's raw public key.
#[must_use]
pub fn key_id(key: &PublicKey) -> KeyId {
    KeyId::new(sha256(key.as_bytes()))
}

/// SHA-256 of a document's exact bytes.
#[must_use]
pub fn digest_of(document: &[u8]) -> Digest {
    Digest::new(sha256(document))
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut output = [0; 32];
    output.copy_from_slice(digest(&SHA256, bytes).as_ref());
    output
}

/// Signs the exact bytes of a document.
#[must_use]
pub fn sign(document: &[u8], key: &SigningKey) -> Signature {
    sign_as(PAYLOAD_TYPE, document, key)
}

/// Signs the exact bytes of something else that owners vouch for.
#[must_use]
pub fn sign_as(payload_type: &str, document: &[u8], key: &SigningKey) -> Signature {
    let signature = key.0.sign(&pae_as(payload_type, document));
    Signature { key_id: key.key_id(), signature: STANDARD.encode(signature.as_ref()) }
}

/// The private key of a policy owner, or of a Peer without a TEE. Redacted in `Debug`; aws-lc-rs wipes its copy when it
/// is dropped.
pub struct SigningKey(Ed25519KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(public {})", self.public_key())
    }
}

/// Header of an Ed25519 PKCS#8 v1 key (RFC 8410, section 7); the 32-byte seed follows.
const PKCS8_HEAD: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";
/// A PKCS#8 Ed25519 key in PEM has 119 bytes, with its public key about 180.
const PEM_BYTES_MAX: usize = 1024;

impl SigningKey {
    /// A fresh key.
    ///
    /// # Errors
    /// [`PolicyError::KeyGeneration`] when the library has no randomness.
    pub fn generate() -> Result<Self, PolicyError> {
        Ed25519KeyPair::generate().map(Self).map_err(|_| PolicyError::KeyGeneration)
    }

    /// The key with this RFC 8032 seed.
    ///
    /// # Errors
    /// [`PolicyError::NotASigningKey`] when the library refuses it.
    pub fn from_seed(seed: &[u8; 32]) -> Result<Self, PolicyError> {
        Ed25519KeyPair::from_seed_unchecked(seed).map(Self).map_err(|_| PolicyError::NotASigningKey)
    }

    /// Reads what [`SigningKey::to_pem`] or `openssl genpkey -algorithm ed25519` wrote.
    ///
    /// # Errors
    /// [`PolicyError::NotASigningKey`].
    pub fn from_pem(pem: &str) -> Result<Self, PolicyError> {
        let refused = || PolicyError::NotASigningKey;
        if pem.len() > PEM_BYTES_MAX {
            return Err(refused());
        }
        let body = pem.trim().strip_prefix(PEM_BEGIN).and_then(|rest| rest.strip_suffix(PEM_END));
        let body: Zeroizing<String> =
            Zeroizing::new(body.ok_or_else(refused)?.split_ascii_whitespace().collect());
        let der = Zeroizing::new(STANDARD.decode(body.as_bytes()).map_err(|_| refused())?);
        Ed25519KeyPair::from_pkcs8(&der).map(Self).map_err(|_| refused())
    }

    /// Unencrypted PKCS#8 v1 in PEM, which OpenSSL reads too.
    ///
    /// # Errors
    /// [`PolicyError::KeyGeneration`] when the library does not give the seed.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, PolicyError> {
        let seed = self.0.seed().map_err(|_| PolicyError::KeyGeneration)?;
        let seed = seed.as_be_bytes().map_err(|_| PolicyError::KeyGeneration)?;
        let der = Zeroizing::new([&PKCS8_HEAD, seed.as_ref()].concat());
        let body = Zeroizing::new(STANDARD.encode(&*der));
        Ok(Zeroizing::new(format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", &*body)))
    }

    /// Signs a payload of a type of its own, which is part of what is signed: it never counts as a document.
    #[must_use]
    pub fn sign_as(&self, payload_type: &str, payload: &[u8]) -> [u8; 64] {
        let signature = self.0.sign(&pae_as(payload_type, payload));
        let mut bytes = [0; 64];
        bytes.copy_from_slice(signature.as_ref());
        bytes
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pae_follows_dsse() {
        assert_eq!(pae(b"{}"), b"DSSEv1 38 application/vnd.sealane.policy.v1+json 2 {}");
        assert_eq!(pae(b""), b"DSSEv1 38 application/vnd.sealane.policy.v1+json 0 ");
    }

    #[test]
    fn a_payload_is_signed_under_its_type() {
        use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
        let key = SigningKey::from_seed(&[7; 32]).unwrap();
        let signature = key.sign_as("text/plain", b"payload");
        let public = *key.public_key().as_bytes();
        let verify = |payload_type, payload| {
            UnparsedPublicKey::new(&ED25519, public).verify(&pae_as(payload_type, payload), &signature)
        };
        assert!(verify("text/plain", b"payload").is_ok());
        assert!(verify("text/html", b"payload").is_err() && verify("text/plain", b"other").is_err());
    }

    #[test]
    fn a_key_survives_its_pem_form() {
        let key = SigningKey::from_seed(&[7; 32]).unwrap();
        let pem = key.to_pem().unwrap();
        let read = SigningKey::from_pem(&pem).unwrap();
        assert_eq!(read.public_key(), key.public_key());
        assert_eq!(sign(b"x", &read), sign(b"x", &key));
    }

    #[test]
    fn openssl_keys_are_read() {
        // openssl genpkey -algorithm ed25519; RFC 8410 section 10.3 prints this key.
        let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
        let key = SigningKey::from_pem(pem).unwrap();
        let public = "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
        assert_eq!(key.public_key().to_string(), public);
    }

    #[test]
    fn other_texts_are_not_keys() {
        let key = SigningKey::generate().unwrap().to_pem().unwrap().to_string();
        let public = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        let longest = format!("{key}{}", " ".repeat(PEM_BYTES_MAX - key.len()));
        SigningKey::from_pem(&longest).unwrap();
        let long = format!("{key}{}", " ".repeat(PEM_BYTES_MAX));
        for text in ["", public, &key.replace("MC4C", "MC4D"), &key.replace("END", "BEGIN"), &long] {
            assert_eq!(SigningKey::from_pem(text).unwrap_err(), PolicyError::NotASigningKey, "{text}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let key = SigningKey::from_seed(&[7; 32]).unwrap();
        let shown = format!("{key:?}");
        assert!(!shown.contains(&"07".repeat(8)) && !shown.contains("7, 7"), "{shown}");
    }
}
