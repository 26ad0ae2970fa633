//! How it stands with one replica.

use std::time::Duration;

use sealane_attestation::VerifiedPeer;
use sealane_protocol::handshake::Suite;
use sealane_types::Reason;

use super::carried::Carried;
use super::traffic::Established;

/// What is degraded about a verified replica, each word once.
pub(crate) fn degraded(peer: &VerifiedPeer) -> Vec<Reason> {
    let mut degraded: Vec<_> = peer.degradations().iter().map(|one| one.reason()).collect();
    degraded.dedup();
    degraded
}

/// Whether a replica is connected, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// With why the last attempt ended.
    Waiting(Option<(Reason, String)>),
    Established {
        carried: Carried,
        suite: Suite,
        handshake: Duration,
        degraded: Vec<Reason>,
    },
}

impl Phase {
    /// Of a connection that has just been established.
    pub(crate) fn of(connection: &Established<'_>) -> Self {
        let degraded = degraded(connection.peer);
        let Established { carried, suite, handshake, .. } = *connection;
        Self::Established { carried, suite, handshake, degraded }
    }

    /// The replica was judged again, and this is degraded about it now. What is about the connection stays.
    pub(crate) fn judged_again(&mut self, judged: &[Reason]) {
        if let Self::Established { degraded, .. } = self {
            degraded.retain(|reason| *reason == Reason::Stalled);
            degraded.extend_from_slice(judged);
        }
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

    pub(crate) fn carried(&self) -> Option<Carried> {
        match self {
            Self::Established { carried, .. } => Some(*carried),
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
