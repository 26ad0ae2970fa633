//! How often something may happen.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use sealane_protocol::Moment;

const MICROS_PER_SECOND: u64 = 1_000_000;

/// So many at once, and one more in every interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimit {
    burst: u32,
    interval_micros: u64,
}

impl RateLimit {
    /// `burst` at once, and one more every `interval_micros`.
    pub(crate) const fn every_micros(burst: u32, interval_micros: u64) -> Self {
        assert!(interval_micros > 0, "a limit of no time is none");
        Self { burst, interval_micros }
    }

    /// `burst` at once, and `count` more every second.
    pub(crate) const fn per_second(burst: u32, count: u32) -> Self {
        Self::every_micros(burst, MICROS_PER_SECOND / count as u64)
    }

    #[cfg(test)]
    pub(crate) const fn burst(self) -> u32 {
        self.burst
    }
}

/// What is left of one [`RateLimit`]: a token bucket, full at first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    tokens: u32,
    refilled: Moment,
}

impl TokenBucket {
    pub(crate) const fn full(limit: RateLimit, now: Moment) -> Self {
        Self { tokens: limit.burst, refilled: now }
    }

    /// Adds what has become due until `now`. Time that is no whole interval counts the next time.
    pub(crate) fn refill(&mut self, limit: RateLimit, now: Moment) {
        let gained = now.micros_since(self.refilled) / limit.interval_micros;
        let tokens = u64::from(self.tokens).saturating_add(gained).min(u64::from(limit.burst));
        self.tokens = u32::try_from(tokens).unwrap_or(limit.burst);
        self.refilled = self.refilled.plus_micros(gained.saturating_mul(limit.interval_micros));
    }

    /// Whether one more is in time at `now`; if so, it is counted.
    pub(crate) fn take(&mut self, limit: RateLimit, now: Moment) -> bool {
        self.refill(limit, now);
        self.take_refilled()
    }

    /// As [`Self::take`], of a bucket that was just refilled.
    pub(crate) fn take_refilled(&mut self) -> bool {
        let left = self.tokens.checked_sub(1);
        self.tokens = left.unwrap_or_default();
        left.is_some()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    /// Whether forgetting this bucket gives nobody more than they have; it was just refilled.
    pub(crate) const fn is_full(&self, limit: RateLimit) -> bool {
        self.tokens >= limit.burst
    }
}

/// A [`TokenBucket`] that many tasks take from, by the clock of the process.
#[derive(Debug)]
pub(crate) struct SharedBucket {
    limit: RateLimit,
    begun: Instant,
    bucket: Mutex<TokenBucket>,
}

impl SharedBucket {
    pub(crate) fn full(limit: RateLimit) -> Self {
        let bucket = Mutex::new(TokenBucket::full(limit, Moment::default()));
        Self { limit, begun: Instant::now(), bucket }
    }

    /// Whether one more is in time now; if so, it is counted.
    pub(crate) fn take(&self) -> bool {
        let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        bucket.take(self.limit, Moment::from_micros(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: RateLimit = RateLimit::per_second(3, 2);

    fn taken(bucket: &mut TokenBucket, attempts: usize, now: Moment) -> usize {
        (0..attempts).filter(|_| bucket.take(LIMIT, now)).count()
    }

    #[test]
    fn a_burst_is_served_and_then_the_rate() {
        let begin = Moment::from_micros(7);
        let mut bucket = TokenBucket::full(LIMIT, begin);
        assert_eq!(taken(&mut bucket, 5, begin), 3);
        assert_eq!(taken(&mut bucket, 3, begin.plus_micros(MICROS_PER_SECOND)), 2);
        let late = begin.plus_micros(3_600 * MICROS_PER_SECOND);
        assert_eq!(taken(&mut bucket, 5, late), 3, "it does not overflow");
    }

    /// Whoever asks all the time gets as much as whoever waits: parts of an interval are not lost.
    #[test]
    fn asking_too_often_costs_nothing() {
        let mut now = Moment::from_micros(0);
        let mut bucket = TokenBucket::full(LIMIT, now);
        let mut served = 0;
        for _ in 0..1_000 {
            served += taken(&mut bucket, 1, now);
            now = now.plus_micros(10_000);
        }
        assert_eq!(served, 3 + 19, "ten seconds at two a second behind the burst");
    }

    #[test]
    fn a_clock_that_stands_still_or_jumps_gives_no_more_than_the_burst() {
        let begin = Moment::from_micros(0);
        let mut bucket = TokenBucket::full(LIMIT, begin);
        bucket.refill(LIMIT, begin.plus_micros(u64::MAX));
        assert_eq!(taken(&mut bucket, 9, begin), 3);
        assert!(bucket.is_empty() && !bucket.is_full(LIMIT));
    }
}
