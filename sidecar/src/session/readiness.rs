//! Whether a lane can be opened, and what the operator is told about a session.

use sealane_types::{Cipher, Reason};

use super::carried::Carried;
use crate::desired::SessionKey;
use crate::handoff::LaneError;

/// Whether a lane of a session can be opened now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// Not yet; the reason is told if the deadline passes first.
    Waiting {
        reason: Reason,
        message: String,
    },
    /// Not at all while policy and configuration stay as they are.
    Refused {
        reason: Reason,
        message: String,
    },
}

impl Readiness {
    pub(crate) fn waiting(reason: Reason, message: impl Into<String>) -> Self {
        Self::Waiting { reason, message: message.into() }
    }

    pub(crate) fn refused(reason: Reason, message: impl Into<String>) -> Self {
        Self::Refused { reason, message: message.into() }
    }

    /// What a status shows; None when there is nothing to show.
    pub(crate) fn problem(self) -> Option<(Reason, String)> {
        match self {
            Self::Ready => None,
            Self::Waiting { reason, message } | Self::Refused { reason, message } => Some((reason, message)),
        }
    }

    /// What a lane that does not open is told; None when it may open.
    pub(crate) fn error(self) -> Option<LaneError> {
        match self {
            Self::Ready => None,
            Self::Waiting { reason, message } => Some(LaneError::not_ready(reason, message)),
            Self::Refused { reason, message } => Some(LaneError::refused(reason, message)),
        }
    }
}

/// Whether a connection that ended for `reason` was refused on grounds that trying again does not change.
pub(crate) const fn is_refusal(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::PolicyMissing
            | Reason::PolicyMalformed
            | Reason::PolicyUnsigned
            | Reason::PolicyUnderSigned
            | Reason::PolicyExpired
            | Reason::PolicyNotYetValid
            | Reason::PolicyRolledBack
            | Reason::PolicyConflict
            | Reason::PolicyMismatch
            | Reason::PolicyRootsMissing
            | Reason::RootsDiffer
            | Reason::RootSourceTooWeak
            | Reason::PeerNotInPolicy
            | Reason::SessionNotInPolicy
            | Reason::EvidenceMissing
            | Reason::EvidenceMalformed
            | Reason::EvidenceUntrusted
            | Reason::EvidenceExpired
            | Reason::EvidenceNotBound
            | Reason::MeasurementMismatch
            | Reason::HostDataMismatch
            | Reason::ProductMismatch
            | Reason::TcbTooLow
            | Reason::DebugNotAllowed
            | Reason::PermissionNotAllowed
            | Reason::PlatformNotAllowed
            | Reason::SimulationNotAllowed
            | Reason::RootMismatch
            | Reason::KeyMismatch
            | Reason::WorkloadMismatch
            | Reason::ReferenceValueMissing
            | Reason::WorkloadUnverified
            | Reason::CollateralMissing
            | Reason::CollateralExpired
            | Reason::SuiteRefused
            | Reason::CarrierRefused
            | Reason::CongestionRefused
            | Reason::PostQuantumRequired
    )
}

/// What is known about a session at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Observed {
    pub(crate) key: SessionKey,
    pub(crate) uid: String,
    pub(crate) connections: u32,
    pub(crate) connections_desired: u32,
    pub(crate) bytes: u64,
    pub(crate) tensors: u64,
    /// TCP connections carried, of a forward.
    pub(crate) forwarded: u64,
    pub(crate) carried: Carried,
    /// Of the connections that there are.
    pub(crate) cipher: Option<Cipher>,
    pub(crate) post_quantum: bool,
    /// Median of the connections' handshakes.
    pub(crate) handshake_micros: u64,
    /// Every local sending lane was closed and acknowledged, and there was one.
    pub(crate) ended: bool,
    /// Why there is no connection.
    pub(crate) problem: Option<(Reason, String)>,
    pub(crate) degraded: Vec<Reason>,
}
