//! What can be wrong with a bundle.

use sealane_policy::{Tally, Timestamp};
use sealane_types::UnixSeconds;

use crate::limits::{BUNDLE_PIECES_MAX, BUNDLE_SIGNATURES_MAX};

/// The only version of the document.
pub(super) const VERSION: u64 = 1;

/// Why a file is not a bundle that may be taken, or why a bundle cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    #[error(
        "it has more than {most} bytes; leave out chips or processor families that the policy does not name"
    )]
    TooLarge { most: usize },
    #[error("it has {found} pieces; at most {BUNDLE_PIECES_MAX} are allowed")]
    TooManyPieces { found: usize },
    #[error("it is not a signed bundle: {problem}")]
    NotEnvelope { problem: String },
    #[error("its document is not standard base64")]
    NotBase64,
    #[error("it has {found} signatures; at most {BUNDLE_SIGNATURES_MAX} are allowed")]
    TooManySignatures { found: usize },
    #[error(
        "none of the policy's owners signed it{0}; `kubectl sealane collateral bundle` signs with an owner's key"
    )]
    Unsigned(Tally),
    #[error("the signed document is not a bundle of this release: {problem}")]
    Malformed { problem: String },
    #[error("the signed document is not in its only form (RFC 8785)")]
    NotCanonical,
    #[error("it is of version {found}, and this release reads version {VERSION}")]
    Version { found: u64 },
    #[error("it was issued at {}, which is more than a day ahead of this clock", Timestamp::from(*issued))]
    FromTheFuture { issued: UnixSeconds },
    #[error(
        "it was issued at {}, and one of {} is held already",
        Timestamp::from(*issued),
        Timestamp::from(*held)
    )]
    RolledBack { issued: UnixSeconds, held: UnixSeconds },
    #[error("two different bundles were issued at {}; sign one of them again", Timestamp::from(*issued))]
    Conflict { issued: UnixSeconds },
}

pub(crate) fn malformed(error: &impl ToString) -> BundleError {
    BundleError::Malformed { problem: error.to_string() }
}
