//! The attestation document and its COSE_Sign1, honest or not.

use std::collections::BTreeMap;

use super::cbor;

/// `{1: -35}`: ES384.
pub const PROTECTED: &[u8] = &[0xa1, 0x01, 0x38, 0x22];

/// What a document states. For tests any of it may be what no hypervisor writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub module_id: String,
    pub digest: String,
    /// Milliseconds since 1970.
    pub timestamp: u64,
    pub pcrs: BTreeMap<u64, Vec<u8>>,
    /// DER of the certificate of the key that signs.
    pub certificate: Vec<u8>,
    /// DER of its issuers, the root first.
    pub cabundle: Vec<Vec<u8>>,
    pub public_key: Option<Vec<u8>>,
    pub user_data: Option<Vec<u8>>,
    pub nonce: Option<Vec<u8>>,
}

impl Document {
    /// CBOR as documents have it since 2020: every length is given.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        let members = self.members();
        let mut out = Vec::new();
        cbor::map(&mut out, members.len());
        put_members(&mut out, &members);
        out
    }

    /// CBOR as documents have it since 2025: maps end with a break.
    #[must_use]
    pub fn open_payload(&self) -> Vec<u8> {
        let mut members = self.members();
        let pcrs = &mut members[3].1;
        pcrs.clear();
        cbor::open_map(pcrs);
        put_pcrs(pcrs, &self.pcrs);
        cbor::end(pcrs);
        let mut out = Vec::new();
        cbor::open_map(&mut out);
        put_members(&mut out, &members);
        cbor::end(&mut out);
        out
    }

    /// Each member's name and the CBOR of its value, in the order of AWS.
    #[must_use]
    pub fn members(&self) -> Vec<(String, Vec<u8>)> {
        let value = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            out
        };
        let optional = |bytes: &Option<Vec<u8>>| {
            value(&|out| match bytes {
                Some(bytes) => cbor::bytes(out, bytes),
                None => cbor::null(out),
            })
        };
        let members = [
            ("module_id", value(&|out| cbor::text(out, &self.module_id))),
            ("digest", value(&|out| cbor::text(out, &self.digest))),
            ("timestamp", value(&|out| cbor::unsigned(out, self.timestamp))),
            (
                "pcrs",
                value(&|out| {
                    cbor::map(out, self.pcrs.len());
                    put_pcrs(out, &self.pcrs);
                }),
            ),
            ("certificate", value(&|out| cbor::bytes(out, &self.certificate))),
            (
                "cabundle",
                value(&|out| {
                    cbor::array(out, self.cabundle.len());
                    self.cabundle.iter().for_each(|certificate| cbor::bytes(out, certificate));
                }),
            ),
            ("public_key", optional(&self.public_key)),
            ("user_data", optional(&self.user_data)),
            ("nonce", optional(&self.nonce)),
        ];
        members.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }

    /// CBOR of a map with these members.
    #[must_use]
    pub fn of_members(members: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        cbor::map(&mut out, members.len());
        put_members(&mut out, members);
        out
    }
}

fn put_members(out: &mut Vec<u8>, members: &[(String, Vec<u8>)]) {
    for (name, value) in members {
        cbor::text(out, name);
        out.extend_from_slice(value);
    }
}

fn put_pcrs(out: &mut Vec<u8>, pcrs: &BTreeMap<u64, Vec<u8>>) {
    for (index, pcr) in pcrs {
        cbor::unsigned(out, *index);
        cbor::bytes(out, pcr);
    }
}

/// An untagged COSE_Sign1 (RFC 9052 §4.2). `unprotected` is CBOR already.
#[must_use]
pub fn cose_sign1(protected: &[u8], unprotected: &[u8], payload: &[u8], signature: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::array(&mut out, 4);
    cbor::bytes(&mut out, protected);
    out.extend_from_slice(unprotected);
    cbor::bytes(&mut out, payload);
    cbor::bytes(&mut out, signature);
    out
}

/// What the signature is over (RFC 9052 §4.4).
pub(super) fn to_be_signed(protected: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::array(&mut out, 4);
    cbor::text(&mut out, "Signature1");
    cbor::bytes(&mut out, protected);
    cbor::bytes(&mut out, &[]);
    cbor::bytes(&mut out, payload);
    out
}
