//! Time of the day, for policies, evidence and the sidecars that judge both.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use sealane_sidecar::node::WallClock;
use sealane_types::UnixSeconds;

/// How long something lasts that expires in a test: sidecars meet within [`super::LIMIT`], so nothing expires before the test
/// moves their clock on.
pub(crate) const LIFETIME: Duration = Duration::from_secs(600);

/// Time since 1970, by the machine's clock.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// The clock of the sidecars of one test: the machine's, and ahead of it by as much as the test has moved it on, or behind
/// it. Clones are the same clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct TestClock {
    ahead_seconds: Arc<AtomicI64>,
}

impl TestClock {
    /// Lets time pass, for every sidecar that has this clock.
    pub(crate) fn advance(&self, by: Duration) {
        self.ahead_seconds.fetch_add(i64::try_from(by.as_secs()).unwrap(), Ordering::SeqCst);
    }

    /// Differs from the machine's by so many seconds from now on.
    pub(crate) fn step_to(&self, seconds: i64) {
        self.ahead_seconds.store(seconds, Ordering::SeqCst);
    }
}

impl WallClock for TestClock {
    fn now(&self) -> UnixSeconds {
        UnixSeconds(now().as_secs().saturating_add_signed(self.ahead_seconds.load(Ordering::SeqCst)))
    }
}
