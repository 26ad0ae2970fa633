//! The COSE_Sign1 (RFC 9052 §4.2) around a document.

use aws_lc_rs::signature::{ECDSA_P384_SHA384_FIXED, UnparsedPublicKey};

use super::cbor::Reader;
use crate::limits::NITRO_PAYLOAD_BYTES_MAX;
use crate::p384::Point;
use crate::rejection::Rejection;

/// ECDSA with SHA-384 is -35 (RFC 9053 §2.1): -1 - 34.
const ES384: u64 = 34;
/// COSE's header parameter `alg`.
const ALG: u64 = 1;
/// `r` and `s`.
const SIGNATURE_BYTES: usize = 96;
/// One parameter with one small value, in any form of CBOR.
const PROTECTED_BYTES_MAX: usize = 32;
/// Array of four, the text `Signature1` (RFC 9052 §4.4).
const SIGNATURE_CONTEXT: &[u8] = b"\x84\x6aSignature1";
/// A byte string of no bytes.
const NO_EXTERNAL_DATA: u8 = 0x40;

/// A signed document whose signature is not verified yet.
pub(super) struct Envelope<'a> {
    protected: &'a [u8],
    pub(super) payload: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Reads exactly one untagged COSE_Sign1 with ES384 in its protected header and nothing in the other.
    ///
    /// AWS's text speaks of tag 18, which no document of AWS carries; a verifier that takes both takes two encodings.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Rejection> {
        const MALFORMED: Rejection = Rejection::Malformed("the document is no COSE_Sign1");
        let mut reader = Reader::new(bytes);
        if reader.array_length() != Some(4) {
            return Err(MALFORMED);
        }
        let protected = reader.bytes(PROTECTED_BYTES_MAX).ok_or(MALFORMED)?;
        let mut unprotected = reader.map().ok_or(MALFORMED)?;
        if unprotected.more(&mut reader).ok_or(MALFORMED)? {
            return Err(Rejection::Malformed("the document has an unprotected header"));
        }
        let payload = reader.bytes(NITRO_PAYLOAD_BYTES_MAX).ok_or(MALFORMED)?;
        let signature = reader.bytes(SIGNATURE_BYTES).ok_or(MALFORMED)?;
        if signature.len() != SIGNATURE_BYTES {
            return Err(Rejection::Malformed("length of the document's signature"));
        }
        if !reader.is_empty() {
            return Err(Rejection::Malformed("bytes after the document"));
        }
        if !says_es384(protected).unwrap_or_default() {
            return Err(Rejection::Malformed("the document is not signed by ES384"));
        }
        Ok(Self { protected, payload, signature })
    }

    pub(super) fn verify(&self, key: &Point) -> Result<(), Rejection> {
        let mut message = Vec::with_capacity(self.payload.len().saturating_add(64));
        message.extend_from_slice(SIGNATURE_CONTEXT);
        put_bytes(&mut message, self.protected);
        message.push(NO_EXTERNAL_DATA);
        put_bytes(&mut message, self.payload);
        UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, key)
            .verify(&message, self.signature)
            .map_err(|_| Rejection::Untrusted("the document's signature"))
    }
}

/// Whether the protected header is `{1: -35}` and nothing else.
fn says_es384(protected: &[u8]) -> Option<bool> {
    let mut reader = Reader::new(protected);
    let mut parameters = reader.map()?;
    let first = parameters.more(&mut reader)? && reader.unsigned()? == ALG && reader.negative()? == ES384;
    Some(first && !parameters.more(&mut reader)? && reader.is_empty())
}

/// A byte string behind its shortest head, as RFC 9052 §9 wants it signed.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len();
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(small @ 0..=23), _) => out.push(0x40 | small),
        (Ok(byte), _) => out.extend_from_slice(&[0x58, byte]),
        (_, Ok(word)) => {
            out.push(0x59);
            out.extend_from_slice(&word.to_be_bytes());
        }
        // What is longer was refused when it was parsed.
        _ => {}
    }
    out.extend_from_slice(bytes);
}
