//! A pinned key: its holder signs what a platform would have signed.
//!
//! ```text
//! report    = public key (32) ‖ REPORT_DATA (64) ‖ signature (64)
//! signature = Ed25519 over DSSE PAE("application/vnd.sealane.key-evidence.v1", REPORT_DATA)
//! ```
//!
//! It proves that the holder of the private key meant this handshake, replica and policy, and nothing about where the
//! key lies or what uses it. Since REPORT_DATA is bound as on every platform, the static keys of such a replica are as
//! short-lived as those of any other, and no statement serves twice.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use sealane_policy::pae_as;
use sealane_types::{Platform, PublicKey, UnixSeconds};

use crate::claims::{Claims, KeyClaims, Revocation, Statement};
use crate::collateral::fingerprint;
use crate::evidence::Evidence;
use crate::limits::KEY_REPORT_BYTES;
use crate::rejection::Rejection;

/// The DSSE payload type under which a pinned key signs REPORT_DATA, and nothing else.
pub const KEY_PAYLOAD_TYPE: &str = "application/vnd.sealane.key-evidence.v1";

/// The report of [`crate::Format::Key`]: `signature` is that of `key` under [`KEY_PAYLOAD_TYPE`].
#[must_use]
pub fn key_report(key: &PublicKey, report_data: &[u8; 64], signature: &[u8; 64]) -> Vec<u8> {
    let report = [key.as_bytes().as_slice(), report_data, signature].concat();
    debug_assert_eq!(report.len(), KEY_REPORT_BYTES);
    report
}

pub(crate) fn inspect(evidence: &Evidence) -> Result<Claims, Rejection> {
    if !evidence.certificates.is_empty() {
        return Err(Rejection::Malformed("certificates beside the statement of a pinned key"));
    }
    let (key, report_data, signature) =
        split(&evidence.report).ok_or(Rejection::Malformed("the statement of a pinned key has 160 bytes"))?;
    UnparsedPublicKey::new(&ED25519, key)
        .verify(&pae_as(KEY_PAYLOAD_TYPE, report_data), signature)
        .map_err(|_| Rejection::Untrusted("the statement is not signed by the key that it names"))?;
    Ok(Claims {
        platform: Platform::Key,
        root: fingerprint(key),
        report_data: Some(*report_data),
        statement: Statement::Key(KeyClaims { public_key: PublicKey::new(*key) }),
        tcb_status: None,
        revocation: Revocation::NotApplicable,
        expires: UnixSeconds::NEVER,
        lists: Vec::new(),
        collateral: None,
    })
}

fn split(report: &[u8]) -> Option<(&[u8; 32], &[u8; 64], &[u8; 64])> {
    let (key, rest) = report.split_first_chunk()?;
    let (report_data, signature) = rest.split_first_chunk()?;
    Some((key, report_data, signature.try_into().ok()?))
}
