//! How it stands with one replica.

use std::time::Duration;

use sealane_protocol::handshake::Suite;
use sealane_types::Reason;

/// Whether a replica is connected, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// With why the last attempt ended.
    Waiting(Option<(Reason, String)>),
    Established {
        suite: Suite,
        handshake: Duration,
        degraded: Vec<Reason>,
    },
}

impl Phase {
    pub(super) fn is_established(&self) -> bool {
        matches!(self, Self::Established { .. })
    }

    pub(super) fn handshake_micros(&self) -> Option<u64> {
        match self {
            Self::Established { handshake, .. } => {
                Some(u64::try_from(handshake.as_micros()).unwrap_or(u64::MAX))
            }
            Self::Waiting(_) => None,
        }
    }

    pub(super) fn suite(&self) -> Option<Suite> {
        match self {
            Self::Established { suite, .. } => Some(*suite),
            Self::Waiting(_) => None,
        }
    }

    pub(super) fn problem(&self) -> Option<(Reason, String)> {
        match self {
            Self::Waiting(problem) => problem.clone(),
            Self::Established { .. } => None,
        }
    }

    pub(super) fn degraded(&self) -> Vec<Reason> {
        match self {
            Self::Established { degraded, .. } => degraded.clone(),
            Self::Waiting(_) => Vec::new(),
        }
    }
}
