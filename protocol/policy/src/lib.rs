//! The quorum-signed policy: from the exact signed bytes to a document that the caller may act on.
//!
//! Invariant: a [`VerifiedPolicy`] comes only from [`verify`], so code that holds one knows that a threshold
//! of distinct registered owners signed exactly these bytes, that every change of owners on the way from the
//! roots was signed by the old and the new set, that the epoch was neither rolled back nor forked, and that
//! the document was in force at the `now` that was given.
//!
//! Signatures are checked before anything is parsed: bytes that no quorum signed reach no parser here.
//! Deliberately absent: clocks, files, networks, Kubernetes, and any judgement of evidence.

mod document;
mod error;
pub mod limits;
mod sign;
mod time;
mod verify;

pub use document::{
    Auditors, Authorities, Document, Entry, Floors, Permissions, Pinnable, PolicyPeer, SessionKind,
    SessionRule, Tcb, Workload,
};
pub use error::PolicyError;
pub use sign::{PAYLOAD_TYPE, SigningKey, key_id, pae, sign};
pub use time::{InvalidTimestamp, Timestamp};
pub use verify::{VerifiedPolicy, parse, verify};
