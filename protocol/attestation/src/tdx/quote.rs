//! The layout of quotes, version 4 and 5 ("Intel TDX DCAP Quoting Library API", appendix A.3 and A.4). Numbers are
//! little-endian. Exactly one reading of the bytes, and nothing left over.

use crate::codec::Reader;
use crate::rejection::Rejection;

const HEADER_BYTES: usize = 48;
/// Type and size of the body, in version 5.
const DESCRIPTOR_BYTES: usize = 6;
/// ECDSA on P-256 with SHA-256.
const KEY_TYPE: u16 = 2;
const TEE_TYPE_TDX: u32 = 0x81;
/// 939a7233-f79c-4ca9-940a-0db3957f0607: Intel's quoting enclaves.
const INTEL: [u8; 16] =
    [0x93, 0x9a, 0x72, 0x33, 0xf7, 0x9c, 0x4c, 0xa9, 0x94, 0x0a, 0x0d, 0xb3, 0x95, 0x7f, 0x06, 0x07];
/// Certification data that holds the report of the quoting enclave, and within it, a chain of PEM certificates. Other
/// kinds name a certificate that the verifier would have to fetch.
const DATA_ENCLAVE_REPORT: u16 = 6;
const DATA_CHAIN: u16 = 5;

pub(super) const ENCLAVE_REPORT_BYTES: usize = 384;

/// Which TD report a quote carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Td10,
    Td15,
    Td15Ex,
}

impl Body {
    fn of(kind: u16) -> Option<Self> {
        match kind {
            2 => Some(Self::Td10),
            3 => Some(Self::Td15),
            4 => Some(Self::Td15Ex),
            _ => None,
        }
    }

    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Td10 => 584,
            Self::Td15 => 648,
            Self::Td15Ex => 885,
        }
    }
}

/// The parts of a quote, none of them verified.
#[derive(Debug)]
pub(super) struct Quote<'a> {
    pub(super) version: u16,
    pub(super) body: Body,
    /// As long as `body` says.
    pub(super) report: &'a [u8],
    /// What `signature` covers: everything before it.
    pub(super) signed: &'a [u8],
    /// r ‖ s.
    pub(super) signature: [u8; 64],
    /// x ‖ y on P-256.
    pub(super) attestation_key: [u8; 64],
    pub(super) enclave_report: [u8; ENCLAVE_REPORT_BYTES],
    pub(super) enclave_signature: [u8; 64],
    pub(super) authentication_data: &'a [u8],
    /// PEM of the platform's certificate, its authority and the root.
    pub(super) certificates: &'a [u8],
}

impl<'a> Quote<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Rejection> {
        let mut reader = Reader::new(bytes);
        let version = header(&mut reader)?;
        let (body, prelude) = match version {
            4 => (Body::Td10, HEADER_BYTES),
            _ => (descriptor(&mut reader)?, HEADER_BYTES + DESCRIPTOR_BYTES),
        };
        let report = reader.take(body.bytes()).ok_or(LENGTH)?;
        let signed = bytes.get(..prelude.saturating_add(body.bytes())).ok_or(LENGTH)?;
        let mut authentication = rest(&mut reader)?;
        let signature = authentication.array().ok_or(LENGTH)?;
        let attestation_key = authentication.array().ok_or(LENGTH)?;
        let mut data = certification(&mut authentication, DATA_ENCLAVE_REPORT)?;
        let enclave_report = data.array().ok_or(LENGTH)?;
        let enclave_signature = data.array().ok_or(LENGTH)?;
        let length = data.array().map(u16::from_le_bytes).ok_or(LENGTH)?;
        let authentication_data = data.take(usize::from(length)).ok_or(LENGTH)?;
        let chain = certification(&mut data, DATA_CHAIN)?;
        Ok(Self {
            version,
            body,
            report,
            signed,
            signature,
            attestation_key,
            enclave_report,
            enclave_signature,
            authentication_data,
            certificates: chain.remaining(),
        })
    }
}

const LENGTH: Rejection = Rejection::Malformed("length of the quote");

/// The version of a quote by an Intel enclave for a trust domain.
fn header(reader: &mut Reader<'_>) -> Result<u16, Rejection> {
    let version = reader.array().map(u16::from_le_bytes).ok_or(LENGTH)?;
    if !matches!(version, 4 | 5) {
        return Err(Rejection::Malformed("version of the quote"));
    }
    if reader.array().map(u16::from_le_bytes) != Some(KEY_TYPE) {
        return Err(Rejection::Malformed("attestation key type of the quote"));
    }
    if reader.array().map(u32::from_le_bytes) != Some(TEE_TYPE_TDX) {
        return Err(Rejection::Malformed("the quote is not of a trust domain"));
    }
    // A meaning given to them later must not pass unseen.
    if reader.array() != Some([0; 4]) {
        return Err(Rejection::Malformed("reserved bytes of the quote"));
    }
    if reader.array() != Some(INTEL) {
        return Err(Rejection::Malformed("the quoting enclave is not Intel's"));
    }
    // The enclave's own data: it says nothing to a verifier.
    reader.array::<20>().ok_or(LENGTH)?;
    Ok(version)
}

/// Type and size of a version 5 body, which have to agree.
fn descriptor(reader: &mut Reader<'_>) -> Result<Body, Rejection> {
    let kind = reader.array().map(u16::from_le_bytes).ok_or(LENGTH)?;
    let body = Body::of(kind).ok_or(Rejection::Malformed("body type of the quote"))?;
    let size = reader.array().map(u32::from_le_bytes).ok_or(LENGTH)?;
    if usize::try_from(size) != Ok(body.bytes()) {
        return Err(Rejection::Malformed("body size of the quote"));
    }
    Ok(body)
}

/// A length, exactly as many bytes as it says, and nothing after them.
fn rest<'a>(reader: &mut Reader<'a>) -> Result<Reader<'a>, Rejection> {
    let length = reader.array().map(u32::from_le_bytes).ok_or(LENGTH)?;
    let rest = reader.remaining();
    if usize::try_from(length) != Ok(rest.len()) {
        return Err(Rejection::Malformed("bytes after the quote, or missing from it"));
    }
    Ok(Reader::new(rest))
}

/// Certification data of the one kind that is accepted there; it is the last thing of what holds it.
fn certification<'a>(reader: &mut Reader<'a>, kind: u16) -> Result<Reader<'a>, Rejection> {
    if reader.array().map(u16::from_le_bytes) != Some(kind) {
        return Err(Rejection::Malformed("certification data of the quote"));
    }
    rest(reader)
}
