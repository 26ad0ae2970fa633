//! How it stands with one replica.

use std::time::Duration;

use sealane_protocol::handshake::Suite;
use sealane_types::Reason;

use super::traffic::Established;

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
    /// Of a connection that has just been established.
    pub(crate) fn of(connection: &Established<'_>) -> Self {
        let mut degraded: Vec<_> = connection.peer.degradations().iter().map(|one| one.reason()).collect();
        degraded.dedup();
        Self::Established { suite: connection.suite, handshake: connection.handshake, degraded }
    }

    pub(crate) fn is_established(&self) -> bool {
        matches!(self, Self::Established { .. })
    }

    pub(crate) fn handshake_micros(&self) -> Option<u64> {
        match self {
            Self::Established { handshake, .. } => {
                Some(u64::try_from(handshake.as_micros()).unwrap_or(u64::MAX))
            }
            Self::Waiting(_) => None,
        }
    }

    pub(crate) fn suite(&self) -> Option<Suite> {
        match self {
            Self::Established { suite, .. } => Some(*suite),
            Self::Waiting(_) => None,
        }
    }

    pub(crate) fn problem(&self) -> Option<(Reason, String)> {
        match self {
            Self::Waiting(problem) => problem.clone(),
            Self::Established { .. } => None,
        }
    }

    pub(crate) fn degraded(&self) -> Vec<Reason> {
        match self {
            Self::Established { degraded, .. } => degraded.clone(),
            Self::Waiting(_) => Vec::new(),
        }
    }
}
