//! Why a policy is refused.

use std::fmt;

use sealane_types::{Digest, Namespace, PeerName, PolicyName, PublicKey, Reason, SessionName};

use crate::document::Flow;
use crate::field::FieldError;
use crate::json::JsonError;
use crate::limits::{CHAIN_BYTES_MAX, ROTATIONS_MAX, SIGNATURES_MAX};
use crate::lint::Finding;
use crate::quorum::Tally;
use crate::time::Timestamp;

/// Why bytes are not a policy that may be acted on, or why a verified policy does not permit something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    // What the bytes are.
    #[error("{part} is not standard base64")]
    NotBase64 { part: Part },
    #[error("document and rotations have more than {CHAIN_BYTES_MAX} bytes together")]
    ChainTooLarge,
    #[error("{found} rotations; at most {ROTATIONS_MAX} are allowed")]
    TooManyRotations { found: usize },
    #[error("{part} has {found} signatures; at most {SIGNATURES_MAX} are allowed")]
    TooManySignatures { part: Part, found: usize },
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error("{}", join(.0))]
    Lint(Vec<Finding>),

    // Who signed them.
    #[error("the roots are unusable: a threshold of {threshold} signatures from {keys} distinct keys")]
    Roots { threshold: u32, keys: usize },
    #[error("the roots list {key}, a point of small order for which anybody can sign")]
    WeakRoot { key: PublicKey },
    #[error("{part} carries no signature; `kubectl sealane policy sign` adds one")]
    Unsigned { part: Part },
    #[error("{part} has {} of the {needed} valid signatures that {owners} must give{tally}", tally.counted.len())]
    UnderSigned { part: Part, owners: Owners, needed: u32, tally: Tally },

    // Whether they are the ones that hold now.
    #[error(
        "{part} is for policy {name} in namespace {namespace}, not for {expected_name} in {expected_namespace}"
    )]
    ForAnother {
        part: Part,
        namespace: Namespace,
        name: PolicyName,
        expected_namespace: Namespace,
        expected_name: PolicyName,
    },
    #[error("{part} has epoch {epoch}, but the document before it in the chain has {before}; epochs grow")]
    ChainOutOfOrder { part: Part, epoch: u64, before: u64 },
    #[error("epoch {epoch} is below the roots' minimumEpoch {minimum}")]
    BelowMinimumEpoch { epoch: u64, minimum: u64 },
    #[error("epoch {epoch} is older than epoch {held}, which is in effect")]
    RolledBack { epoch: u64, held: u64 },
    #[error(
        "two different documents of epoch {epoch} are signed by a quorum: {held} is held, {offered} is offered; neither is followed until the owners sign a later epoch"
    )]
    ConflictingEpoch { epoch: u64, held: Digest, offered: Digest },
    #[error("{part} names {named} as the document before it, but that of epoch {epoch} is {actual}")]
    PreviousMismatch { part: Part, epoch: u64, named: Digest, actual: Digest },
    #[error("not in force before {not_before}")]
    NotYetValid { not_before: Timestamp },
    #[error("expired at {expires}; sign the next epoch")]
    Expired { expires: Timestamp },

    // What they permit.
    #[error("the policy does not describe the Peer `{peer}`")]
    PeerNotInPolicy { peer: PeerName },
    #[error("the policy permits no TransferSession `{session}` from `{from}` to `{to}` that carries {flow}")]
    SessionNotInPolicy { session: SessionName, from: PeerName, to: PeerName, flow: Flow },

    // Keys of owners.
    #[error(
        "not an unencrypted Ed25519 private key in PKCS#8 PEM; `kubectl sealane policy keygen` makes one"
    )]
    NotASigningKey,
    #[error("the cryptographic library could not make a key")]
    KeyGeneration,
}

/// A document of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Document,
    /// Counted from 0, oldest first.
    Rotation(usize),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document => f.write_str("the document"),
            Self::Rotation(index) => write!(f, "rotations[{index}]"),
        }
    }
}

/// Whose quorum was not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// Those of the roots.
    Roots,
    /// Those that the document before it in the chain names.
    Current,
    /// Those that the document itself newly names.
    New,
    /// Those of the policy in effect.
    Held,
}

impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Roots => "the owners in the roots",
            Self::Current => "the owners named by the document before it",
            Self::New => "the new owners that it names itself",
            Self::Held => "the owners named by the policy in effect",
        })
    }
}

fn join(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl PolicyError {
    /// The word for conditions, events, metrics and logs.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::NotBase64 { .. }
            | Self::Json(_)
            | Self::Field(_)
            | Self::Lint(_)
            | Self::ChainOutOfOrder { .. } => Reason::PolicyMalformed,
            Self::ChainTooLarge | Self::TooManyRotations { .. } | Self::TooManySignatures { .. } => {
                Reason::LimitExceeded
            }
            Self::Roots { .. } | Self::WeakRoot { .. } => Reason::PolicyRootsMissing,
            Self::Unsigned { .. } => Reason::PolicyUnsigned,
            Self::UnderSigned { .. } => Reason::PolicyUnderSigned,
            Self::ForAnother { .. } => Reason::PolicyMismatch,
            Self::BelowMinimumEpoch { .. } | Self::RolledBack { .. } => Reason::PolicyRolledBack,
            Self::ConflictingEpoch { .. } | Self::PreviousMismatch { .. } => Reason::PolicyConflict,
            Self::NotYetValid { .. } => Reason::PolicyNotYetValid,
            Self::Expired { .. } => Reason::PolicyExpired,
            Self::PeerNotInPolicy { .. } => Reason::PeerNotInPolicy,
            Self::SessionNotInPolicy { .. } => Reason::SessionNotInPolicy,
            Self::NotASigningKey | Self::KeyGeneration => Reason::Unspecified,
        }
    }
}
