//! Why a change is not applied.

use super::limits::{CONFIGURATION_BYTES_MAX, ITEMS_MAX, SESSIONS_MAX};
use crate::bounded::BoundedError;

/// All are the sender's fault but [`DeltaError::Base`], which a receiver that has lost its base meets too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    #[error("it changes another configuration than the one that is held")]
    Base,
    #[error("what comes of it is not what was announced")]
    Digest,
    #[error("a part of it is missing: {expected} bytes were received, and the next part begins at {found}")]
    Part { expected: u64, found: u64 },
    #[error("its encoding is not valid")]
    Encoding(#[from] prost::DecodeError),
    #[error(transparent)]
    Bounds(#[from] BoundedError),
    #[error("it copies {count} items from {start} on of a base that has {held}")]
    Run { start: u32, count: u32, held: usize },
    #[error("more than {ITEMS_MAX} items")]
    Items,
    #[error("more than {CONFIGURATION_BYTES_MAX} bytes")]
    Bytes,
    #[error("more than {SESSIONS_MAX} sessions")]
    Sessions,
    #[error("a {item} has no place where it stands")]
    Order { item: &'static str },
}
