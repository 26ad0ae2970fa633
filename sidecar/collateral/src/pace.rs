//! How often a service is asked: no faster than it likes, and less and less often while it does not answer.

use std::time::{Duration, Instant};

use crate::error::FetchError;

/// Longest that anybody waits for the turn of a service.
const TURN_MAX: Duration = Duration::from_secs(60);
/// First wait after an answer that did not come; each further one doubles it.
const BACKOFF_MIN: Duration = Duration::from_secs(2);
const BACKOFF_MAX: Duration = Duration::from_secs(600);
/// What a service that wants rest may ask for, and what it gets if it does not say.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// The pace of one service. Holds no clock.
#[derive(Debug)]
pub(crate) struct Pace {
    interval: Duration,
    /// When it may be asked next.
    next: Option<Instant>,
    failures: u32,
}

impl Pace {
    pub(crate) const fn new(interval: Duration) -> Self {
        Self { interval, next: None, failures: 0 }
    }

    /// How long to wait before asking. The turn is taken: the next one comes an interval later.
    ///
    /// # Errors
    /// [`FetchError::NotYet`] when that is longer than anybody waits.
    pub(crate) fn turn(&mut self, now: Instant) -> Result<Duration, FetchError> {
        let at = self.next.map_or(now, |next| next.max(now));
        let wait = at.duration_since(now);
        if wait > TURN_MAX {
            return Err(FetchError::NotYet { wait });
        }
        self.next = Some(at + self.interval);
        Ok(wait)
    }

    /// What came of asking: whether the service answered as it should, and how long it wants to be left alone.
    pub(crate) fn answered(&mut self, now: Instant, well: bool, retry_after: Option<Duration>) {
        if well {
            self.failures = 0;
            return;
        }
        let doubled = BACKOFF_MIN.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        let wait = retry_after.map_or_else(|| jittered(doubled), |wait| wait.min(RETRY_AFTER_MAX));
        self.next = Some(self.next.map_or(now + wait, |next| next.max(now + wait)));
    }
}

/// What a service asks for that answers 429 or 503.
pub(crate) fn retry_after(header: Option<&str>) -> Duration {
    let seconds = header.and_then(|text| text.trim().parse().ok());
    seconds.map_or(RETRY_AFTER, Duration::from_secs).min(RETRY_AFTER_MAX)
}

/// Between half of `wait` and all of it, so that many sidecars do not come back at one moment.
fn jittered(wait: Duration) -> Duration {
    let mut byte = [0];
    // Without random numbers nothing else works either.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    wait / 2 + wait / 2 * u32::from(byte[0]) / 255
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn turns_are_an_interval_apart() {
        let (mut pace, now) = (Pace::new(10 * SECOND), Instant::now());
        for turn in 0..7 {
            assert_eq!(pace.turn(now).unwrap(), 10 * SECOND * turn);
        }
        assert!(matches!(pace.turn(now), Err(FetchError::NotYet { wait }) if wait == 70 * SECOND));
        assert_eq!(pace.turn(now + 100 * SECOND).unwrap(), Duration::ZERO);
    }

    #[test]
    fn failures_double_the_wait_up_to_a_bound_and_an_answer_ends_it() {
        let (mut pace, mut now) = (Pace::new(Duration::ZERO), Instant::now());
        for most in [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            let most = Duration::from_secs(most);
            pace.answered(now, false, None);
            let wait = pace.next.unwrap() - now;
            assert!(wait >= most / 2 && wait <= most, "{wait:?} of {most:?}");
            now += wait;
        }
        pace.answered(now, true, None);
        assert_eq!(pace.turn(now).unwrap(), Duration::ZERO);
        pace.answered(now, false, None);
        assert!(pace.next.unwrap() - now <= BACKOFF_MIN);
    }

    #[test]
    fn a_service_that_wants_rest_gets_it() {
        let (mut pace, now) = (Pace::new(Duration::ZERO), Instant::now());
        pace.answered(now, false, Some(retry_after(Some("30"))));
        assert_eq!(pace.turn(now).unwrap(), 30 * SECOND);
        for (header, wait) in [(None, 60), (Some("soon"), 60), (Some("999999"), 3600), (Some(" 5 "), 5)] {
            assert_eq!(retry_after(header), Duration::from_secs(wait));
        }
    }
}
