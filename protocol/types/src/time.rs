//! Wall-clock time as the data plane handles it.

use serde::{Deserialize, Serialize};

/// Seconds since 1970-01-01T00:00:00Z, leap seconds ignored (RFC 3339 and X.509 dates convert to it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnixSeconds(pub u64);

impl UnixSeconds {
    /// Later than every date: the end of what does not end by itself.
    pub const NEVER: Self = Self(u64::MAX);

    /// This time plus `seconds`, saturating.
    #[must_use]
    pub const fn plus(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds))
    }
}
