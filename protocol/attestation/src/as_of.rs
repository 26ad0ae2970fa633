//! When evidence is verified, and how long collateral counts by then.

use sealane_types::UnixSeconds;

/// The time of one verification.
///
/// Certificates hold until their dates say otherwise. Revocation lists and statements may count for `grace` seconds
/// longer, where the owners of the policy signed that they do; [`crate::appraise`] holds claims against that again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsOf {
    pub(crate) now: UnixSeconds,
    grace: u64,
}

impl AsOf {
    /// Nothing counts after its end.
    pub(crate) const fn strictly(now: UnixSeconds) -> Self {
        Self { now, grace: 0 }
    }

    pub(crate) const fn with_grace(now: UnixSeconds, grace: u64) -> Self {
        Self { now, grace }
    }

    /// The end of something that may count longer, whose own end is `until`.
    pub(crate) fn lasting(self, until: UnixSeconds) -> UnixSeconds {
        until.plus(self.grace)
    }
}
