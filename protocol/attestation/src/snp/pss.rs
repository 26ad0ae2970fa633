//! The keys and signature algorithms of AMD's certificates.

use aws_lc_rs::signature::{ParsedPublicKey, RSA_PSS_2048_8192_SHA384};
use rustls_pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::seen::Seen;

/// RFC 8017 §A.1, rsaEncryption.
const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// RSASSA-PSS with SHA-384, MGF1 with SHA-384, a 48-byte salt, and an *explicit* trailerField, which webpki does not know:
/// the contents of the AlgorithmIdentifier (RFC 4055 §3.1), without its outer SEQUENCE.
const SPELT_OUT: AlgorithmIdentifier = AlgorithmIdentifier::from_slice(&[
    // OID 1.2.840.113549.1.1.10, id-RSASSA-PSS.
    0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a, //
    0x30, 0x39, // RSASSA-PSS-params
    // [0] hashAlgorithm: SHA-384, NULL.
    0xa0, 0x0f, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05,
    0x00, //
    // [1] maskGenAlgorithm: MGF1 with SHA-384, NULL.
    0xa1, 0x1c, 0x30, 0x1a, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08, //
    0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, //
    // [2] saltLength: 48.
    0xa2, 0x03, 0x02, 0x01, 0x30, //
    // [3] trailerField: 1, spelt out.
    0xa3, 0x03, 0x02, 0x01, 0x01,
]);

/// What AMD signs certificates and revocation lists with. Roots, issuers and chips certified until about 2023 spell
/// the default trailerField out; revocation lists and later chips leave it out, as DER demands.
pub(super) const IDENTIFIERS: [AlgorithmIdentifier; 2] = [SPELT_OUT, alg_id::RSA_PSS_SHA384];

/// A key that signs certificates or revocation lists: RSA, with PSS and SHA-384.
#[derive(Debug)]
pub(super) struct Key {
    /// RSAPublicKey, in the DER of the certificate.
    der: Vec<u8>,
    parsed: ParsedPublicKey,
    /// As a root.
    seen: Seen,
}

impl Key {
    /// Nothing if it is of another kind.
    pub(super) fn read(info: &SubjectPublicKeyInfoOwned) -> Option<Self> {
        let der = info.subject_public_key.as_bytes().filter(|_| info.algorithm.oid == RSA_ENCRYPTION)?;
        let parsed = ParsedPublicKey::new(&RSA_PSS_2048_8192_SHA384, der).ok()?;
        Some(Self { der: der.to_vec(), parsed, seen: Seen::new() })
    }

    /// # Errors
    /// When this key did not sign `message`.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        self.parsed.verify_sig(message, signature).map_err(|_| InvalidSignature)
    }
}

/// For webpki: an algorithm under keys that were read before. It knows no others.
#[derive(Debug)]
pub(super) struct Algorithm<'k> {
    identifier: AlgorithmIdentifier,
    root: &'k Key,
    issuing: &'k Key,
}

impl<'k> Algorithm<'k> {
    /// One for each of [`IDENTIFIERS`].
    pub(super) fn all(root: &'k Key, issuing: &'k Key) -> [Self; 2] {
        IDENTIFIERS.map(|identifier| Self { identifier, root, issuing })
    }
}

impl SignatureVerificationAlgorithm for Algorithm<'_> {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let Self { root, issuing, .. } = self;
        match public_key {
            key if key == root.der => {
                root.seen.or_verify(key, message, signature, || root.verify(message, signature))
            }
            key if key == issuing.der => issuing.verify(message, signature),
            _ => Err(InvalidSignature),
        }
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.identifier
    }
}
