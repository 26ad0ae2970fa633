//! Why a policy is refused.

use sealane_types::Reason;

/// Why bytes are not a policy that may be acted on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    #[error("not written yet")]
    Unwritten,
}

impl PolicyError {
    /// The word for conditions, events, metrics and logs.
    #[must_use]
    pub fn reason(&self) -> Reason {
        Reason::PolicyMalformed
    }
}
