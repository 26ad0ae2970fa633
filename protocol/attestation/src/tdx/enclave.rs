//! The quoting enclave: its report, signed by the platform's key, says which key signs quotes ("Intel SGX ECDSA
//! QuoteGenReference", QE report; the layout of REPORTBODY is in the Intel SDM, volume 3D, §38.16).

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

use super::identity::QeIdentity;
use super::levels::reached;
use super::quote::{ENCLAVE_REPORT_BYTES, Quote};
use super::statement::Standing;
use crate::rejection::Rejection;

/// ATTRIBUTES.DEBUG.
const DEBUG: u8 = 1 << 1;
/// Uncompressed points begin with this (SEC 1, §2.3.3).
const UNCOMPRESSED: u8 = 4;

/// Holds the quoting enclave of `quote` against `identity`, and its keys against each other: `platform_key` signed its
/// report, the report names the attestation key, and that signed the quote. Returns how Intel says the enclave stands.
pub(super) fn verify<'a>(
    quote: &Quote<'_>,
    platform_key: &[u8],
    identity: &'a QeIdentity,
) -> Result<&'a Standing, Rejection> {
    signed(platform_key, &quote.enclave_report, &quote.enclave_signature)
        .ok_or(Rejection::Untrusted("the signature of the quoting enclave's report"))?;
    let report = Fields(&quote.enclave_report);
    let standing = check_identity(&report, identity)?;
    let named = digest(&SHA256, &[&quote.attestation_key[..], quote.authentication_data].concat());
    let report_data: [u8; 64] = report.at(320)?;
    let (names, rest) = report_data.split_at(named.as_ref().len());
    if names != named.as_ref() || rest.iter().any(|byte| *byte != 0) {
        return Err(Rejection::Untrusted("the attestation key is not the quoting enclave's"));
    }
    let attestation_key = [&[UNCOMPRESSED], &quote.attestation_key[..]].concat();
    signed(&attestation_key, quote.signed, &quote.signature)
        .ok_or(Rejection::Untrusted("the signature of the quote"))?;
    Ok(standing)
}

fn check_identity<'a>(report: &Fields<'_>, identity: &'a QeIdentity) -> Result<&'a Standing, Rejection> {
    let misc_select = same_under(&report.at(16)?, &identity.misc_select, &identity.misc_select_mask);
    let attributes: [u8; 16] = report.at(48)?;
    let [flags, ..] = attributes;
    let intended = same_under(&attributes, &identity.attributes, &identity.attributes_mask);
    let signer: [u8; 32] = report.at(128)?;
    let product = report.at(256).map(u16::from_le_bytes)?;
    let genuine = misc_select && intended && signer == identity.signer && product == identity.product;
    // Whatever the identity's mask leaves out: a debuggable enclave keeps no secret.
    if !genuine || flags & DEBUG != 0 {
        return Err(Rejection::Untrusted("the quoting enclave is not the one that Intel describes"));
    }
    let version = report.at(258).map(u16::from_le_bytes)?;
    reached(&identity.levels, version)
        .ok_or(Rejection::Untrusted("the quoting enclave reaches none of Intel's levels"))
}

fn same_under<const N: usize>(found: &[u8; N], expected: &[u8; N], mask: &[u8; N]) -> bool {
    found.iter().zip(expected).zip(mask).all(|((found, expected), mask)| found & mask == expected & mask)
}

/// ECDSA on P-256 with SHA-256; the signature is r ‖ s.
pub(super) fn signed(key: &[u8], message: &[u8], signature: &[u8]) -> Option<()> {
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature).ok()
}

struct Fields<'a>(&'a [u8; ENCLAVE_REPORT_BYTES]);

impl Fields<'_> {
    fn at<const N: usize>(&self, offset: usize) -> Result<[u8; N], Rejection> {
        let field = self.0.get(offset..).and_then(|rest| rest.first_chunk());
        field.copied().ok_or(Rejection::Malformed("length of the quoting enclave's report"))
    }
}
