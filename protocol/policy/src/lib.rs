//! The quorum-signed policy: from the exact signed bytes to a document that the caller may act on.
//!
//! Invariant: a [`VerifiedPolicy`] comes only from [`verify`], so code that holds one knows that a threshold
//! of distinct registered owners signed exactly these bytes, that every change of owners on the way from the
//! roots was signed by the old and the new set, that the epoch was neither rolled back nor forked, and that
//! the document was in force at the `now` that was given.
//!
//! Signatures are checked before anything is parsed: in [`verify`], bytes that no quorum signed reach no
//! parser. The format and its rules are in `POLICY.md`. Deliberately absent: clocks, files, networks,
//! Kubernetes, and any judgement of evidence.

mod advice;
mod decode;
mod diff;
mod document;
mod encode;
mod error;
mod field;
mod json;
pub mod limits;
mod lint;
mod quorum;
mod sign;
mod time;
mod verified;
mod verify;
mod weak;

pub use advice::{Advice, advice};
pub use diff::{Change, diff};
pub use document::{
    Auditors, Authorities, CollateralRules, Document, Entry, Floors, Flow, Limits, NitroMeasurement,
    NitroPermissions, NitroReference, Pinnable, PolicyPeer, Reference, SessionKind, SessionRule, SnpAbi,
    SnpFirmware, SnpIdentity, SnpPermissions, SnpReference, Tcb, TdxMeasurement, TdxPermissions,
    TdxReference, Workload,
};
pub use error::{Owners, Part, PolicyError};
pub use field::{FieldError, Problem};
pub use json::{Fault, JsonError};
pub use lint::{Finding, lint};
pub use quorum::Tally;
pub use sign::{PAYLOAD_TYPE, SigningKey, digest_of, key_id, pae, pae_as, sign, sign_as};
pub use time::{InvalidTimestamp, Timestamp};
pub use verified::VerifiedPolicy;
pub use verify::{parse, read, verify};

impl Document {
    /// The canonical bytes that are signed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        json::write(&encode::document(self))
    }
}

/// The signed form (RFC 8785) of a document that a person formatted.
///
/// # Errors
/// [`PolicyError::Json`] when the text is not JSON, or says something that documents cannot.
pub fn canonical(text: &[u8]) -> Result<Vec<u8>, PolicyError> {
    Ok(json::write(&json::read(text)?))
}
