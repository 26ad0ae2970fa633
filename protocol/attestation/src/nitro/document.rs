//! The attestation document: what AWS's specification lists, once each, within the bounds that it gives.

use sealane_types::Measurement;

use super::cbor::Reader;
use crate::limits::{
    NITRO_BUNDLE_MAX, NITRO_CERTIFICATE_BYTES_MAX, NITRO_DATA_BYTES_MAX, NITRO_MODULE_ID_BYTES_MAX,
};
use crate::rejection::Rejection;

/// Longest name of a member.
const NAME_BYTES_MAX: usize = 16;
/// PCRs of an enclave.
const PCRS: usize = 32;
const DIGEST: &str = "SHA384";

/// A document whose every member is well-formed, and not verified yet.
pub(super) struct Document<'a> {
    pub(super) module_id: &'a str,
    /// Milliseconds since 1970, by the hypervisor's clock.
    pub(super) timestamp: u64,
    pub(super) pcrs: [Option<Measurement>; PCRS],
    /// DER of the certificate of the key that signed.
    pub(super) certificate: &'a [u8],
    /// DER of its issuers, the root first; never empty.
    pub(super) bundle: Vec<&'a [u8]>,
    pub(super) public_key: Option<&'a [u8]>,
    pub(super) user_data: Option<&'a [u8]>,
    pub(super) nonce: Option<&'a [u8]>,
}

/// Members as they come.
#[derive(Default)]
struct Members<'a> {
    module_id: Option<&'a str>,
    digest: Option<&'a str>,
    timestamp: Option<u64>,
    pcrs: Option<[Option<Measurement>; PCRS]>,
    certificate: Option<&'a [u8]>,
    bundle: Option<Vec<&'a [u8]>>,
    public_key: Option<Option<&'a [u8]>>,
    user_data: Option<Option<&'a [u8]>>,
    nonce: Option<Option<&'a [u8]>>,
}

impl<'a> Document<'a> {
    pub(super) fn parse(payload: &'a [u8]) -> Result<Self, Rejection> {
        let mut reader = Reader::new(payload);
        let mut members = Members::default();
        let mut map = reader.map().ok_or(Rejection::Malformed("the document is no map"))?;
        while map.more(&mut reader).ok_or(Rejection::Malformed("the document's end is missing"))? {
            members.read(&mut reader)?;
        }
        if !reader.is_empty() {
            return Err(Rejection::Malformed("bytes after the document's members"));
        }
        members.complete()
    }
}

impl<'a> Members<'a> {
    fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), Rejection> {
        let name = reader.text(NAME_BYTES_MAX).ok_or(Rejection::Malformed("name of a member"))?;
        match name {
            "module_id" => once(&mut self.module_id, reader.text(NITRO_MODULE_ID_BYTES_MAX)),
            "digest" => once(&mut self.digest, reader.text(DIGEST.len())),
            "timestamp" => once(&mut self.timestamp, reader.unsigned()),
            "pcrs" => once(&mut self.pcrs, pcrs(reader)),
            "certificate" => once(&mut self.certificate, certificate(reader)),
            "cabundle" => once(&mut self.bundle, bundle(reader)),
            "public_key" => once(&mut self.public_key, optional(reader)),
            "user_data" => once(&mut self.user_data, optional(reader)),
            "nonce" => once(&mut self.nonce, optional(reader)),
            _ => Err(Rejection::Malformed("a member that attestation documents do not have")),
        }
    }

    fn complete(self) -> Result<Document<'a>, Rejection> {
        let Self { module_id, digest, timestamp, pcrs, certificate, bundle, public_key, user_data, nonce } =
            self;
        if digest != Some(DIGEST) {
            return Err(Rejection::Malformed("digest of the document"));
        }
        let pcrs = pcrs.ok_or(Rejection::Malformed("PCRs of the document"))?;
        Ok(Document {
            module_id: module_id.filter(is_module_id).ok_or(Rejection::Malformed("module_id"))?,
            timestamp: timestamp.filter(|time| *time > 0).ok_or(Rejection::Malformed("timestamp"))?,
            pcrs,
            certificate: certificate.ok_or(Rejection::Malformed("the document has no certificate"))?,
            bundle: bundle.ok_or(Rejection::Malformed("the document has no cabundle"))?,
            public_key: public_key.flatten(),
            user_data: user_data.flatten(),
            nonce: nonce.flatten(),
        })
    }
}

/// AWS gives no alphabet; people read it, and policies pin it as text.
fn is_module_id(id: &&str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Of two values one reader takes the first and another the last, so a second one is refused.
fn once<T>(member: &mut Option<T>, value: Option<T>) -> Result<(), Rejection> {
    let value = value.ok_or(Rejection::Malformed("type or size of a member of the document"))?;
    match member.replace(value) {
        None => Ok(()),
        Some(_) => Err(Rejection::Malformed("a member of the document is there twice")),
    }
}

/// A byte string, or null, which AWS writes for what the enclave did not give.
fn optional<'a>(reader: &mut Reader<'a>) -> Option<Option<&'a [u8]>> {
    if reader.null() { Some(None) } else { reader.bytes(NITRO_DATA_BYTES_MAX).map(Some) }
}

/// At least one PCR, each below 32, once, and as long as SHA-384. Which of them are there is for policy, but PCR0–2
/// name the image.
fn pcrs(reader: &mut Reader<'_>) -> Option<[Option<Measurement>; PCRS]> {
    let mut pcrs = [None; PCRS];
    let mut map = reader.map()?;
    while map.more(reader)? {
        let pcr = pcrs.get_mut(usize::try_from(reader.unsigned()?).ok()?)?;
        let value = reader.bytes(48)?.try_into().map(Measurement::new).ok()?;
        if pcr.replace(value).is_some() {
            return None;
        }
    }
    Some(pcrs)
}

fn bundle<'a>(reader: &mut Reader<'a>) -> Option<Vec<&'a [u8]>> {
    let mut bundle = Vec::with_capacity(NITRO_BUNDLE_MAX);
    let mut array = reader.array()?;
    while array.more(reader)? {
        if bundle.len() == NITRO_BUNDLE_MAX {
            return None;
        }
        bundle.push(certificate(reader)?);
    }
    (!bundle.is_empty()).then_some(bundle)
}

fn certificate<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    reader.bytes(NITRO_CERTIFICATE_BYTES_MAX).filter(|der| !der.is_empty())
}
