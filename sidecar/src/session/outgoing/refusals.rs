//! How long a lane puts up with replicas that refuse it.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::handoff::LaneError;
use crate::session::readiness::Readiness;

/// How often a lane that waits looks whether it waits in vain.
const INTERVAL: Duration = Duration::from_secs(1);
/// Looks in a row after which it does. A policy that is being rolled out refuses for moments.
const REFUSALS_MAX: u32 = 10;

/// The looks of one lane, while something of it waits for a replica.
///
/// The moment of the next look is kept here, so that whatever else wakes the lane (every failed attempt to connect to any
/// of its replicas does) puts it off no further.
#[derive(Debug, Default)]
pub(super) struct RefusalWatch {
    due: Option<Instant>,
    refusals: u32,
}

impl RefusalWatch {
    /// Sleeps until the next look while the lane `is_waiting`, and for ever while it is not. Cancel safe.
    pub(super) async fn due(&mut self, is_waiting: bool) {
        if !is_waiting {
            *self = Self::default();
            return std::future::pending().await;
        }
        sleep_until(*self.due.get_or_insert_with(|| Instant::now() + INTERVAL)).await;
        self.due = None;
    }

    /// Replicas that are all refused, and stay so for a while, will not take what waits for them.
    pub(super) fn look(&mut self, readiness: Readiness) -> Option<LaneError> {
        let Readiness::Refused { reason, message } = readiness else {
            self.refusals = 0;
            return None;
        };
        self.refusals += 1;
        (self.refusals >= REFUSALS_MAX).then(|| LaneError::refused(reason, message))
    }
}

#[cfg(test)]
mod tests {
    use sealane_types::Reason;

    use super::*;

    fn refused() -> Readiness {
        Readiness::refused(Reason::PolicyExpired, "the policy has expired")
    }

    /// Waits as a lane does: woken every 40 ms, since each of 50 replicas that are down fails to connect every two
    /// seconds. Gives when the lane fails, if it does in a minute.
    async fn fails_after(mut readiness: impl FnMut(Duration) -> Readiness) -> Option<Duration> {
        let begun = Instant::now();
        let mut watch = RefusalWatch::default();
        for _wake in 0..1_500 {
            tokio::select! {
                () = watch.due(true) => if watch.look(readiness(begun.elapsed())).is_some() {
                    return Some(begun.elapsed());
                },
                () = tokio::time::sleep(Duration::from_millis(40)) => {}
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn wakes_do_not_put_off_the_end_of_a_refused_lane() {
        assert_eq!(fails_after(|_| refused()).await.map(|after| after.as_secs()), Some(10));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_count_in_a_row_only() {
        let after = fails_after(|after| match after.as_secs() {
            9 => Readiness::waiting(Reason::Unreachable, "a replica restarts"),
            _ => refused(),
        });
        assert_eq!(after.await.map(|after| after.as_secs()), Some(19));
    }

    #[tokio::test(start_paused = true)]
    async fn lane_that_stops_waiting_begins_anew() {
        let mut watch = RefusalWatch::default();
        for _ in 1..REFUSALS_MAX {
            watch.due(true).await;
            assert!(watch.look(refused()).is_none());
        }
        tokio::select! {
            () = watch.due(false) => unreachable!("nothing waits"),
            () = tokio::time::sleep(INTERVAL * 3) => {}
        }
        watch.due(true).await;
        assert!(watch.look(refused()).is_none());
    }
}
