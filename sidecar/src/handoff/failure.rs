//! Why a lane does not open or does not go on.

use sealane_types::Reason;

/// What kind of answer a client gets: the exception's type, not its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneFailure {
    /// The deadline passed before the lane could work; asking again may succeed.
    NotReady,
    /// Policy, evidence or a limit refuses it; asking again does not help until that changes.
    Refused,
    /// The lane is over: closed, session deleted, sidecar draining.
    Closed,
}

/// Why a lane does not open or does not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({reason})")]
pub struct LaneError {
    pub failure: LaneFailure,
    pub reason: Reason,
    /// A sentence for the person who reads the exception: what is known and what to do.
    pub message: String,
}

impl LaneError {
    #[must_use]
    pub fn not_ready(reason: Reason, message: impl Into<String>) -> Self {
        Self { failure: LaneFailure::NotReady, reason, message: message.into() }
    }

    #[must_use]
    pub fn refused(reason: Reason, message: impl Into<String>) -> Self {
        Self { failure: LaneFailure::Refused, reason, message: message.into() }
    }

    #[must_use]
    pub fn closed(reason: Reason, message: impl Into<String>) -> Self {
        Self { failure: LaneFailure::Closed, reason, message: message.into() }
    }

    /// The other half is gone: the session ended without a word.
    #[must_use]
    pub fn gone() -> Self {
        Self::closed(Reason::Draining, "the sidecar closed this lane")
    }
}
