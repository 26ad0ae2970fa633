//! The signature algorithms of AMD's certificates.

use aws_lc_rs::signature::{RSA_PSS_2048_8192_SHA384, UnparsedPublicKey};
use rustls_pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id};

/// What AMD signs certificates and revocation lists with. Roots, issuers and chips certified until about 2023
/// spell the default trailerField out; revocation lists and later chips leave it out, as DER demands.
pub(super) const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] =
    &[&AmdPssSha384, webpki::aws_lc_rs::RSA_PSS_2048_8192_SHA384_LEGACY_KEY];

/// RSASSA-PSS with SHA-384, MGF1 with SHA-384, a 48-byte salt, and an *explicit* trailerField.
///
/// webpki compares the parameters byte for byte with its own constant, which has no trailerField.
#[derive(Debug)]
struct AmdPssSha384;

/// The contents of the AlgorithmIdentifier (RFC 4055 §3.1), without its outer SEQUENCE.
const IDENTIFIER: AlgorithmIdentifier = AlgorithmIdentifier::from_slice(&[
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

/// Whether the key (RSAPublicKey, DER) signed `message` as AMD signs.
pub(super) fn verifies(public_key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA384, public_key).verify(message, signature).is_ok()
}

impl SignatureVerificationAlgorithm for AmdPssSha384 {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        if verifies(public_key, message, signature) { Ok(()) } else { Err(InvalidSignature) }
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        IDENTIFIER
    }
}
