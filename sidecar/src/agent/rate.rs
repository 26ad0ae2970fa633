//! How often somebody may ask.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A bucket that fills with time; each question takes one out.
#[derive(Debug)]
pub(super) struct Bucket {
    most: f64,
    per_second: f64,
    left: Mutex<(f64, Instant)>,
}

impl Bucket {
    pub(super) fn new(most: u32, per_second: u32, now: Instant) -> Self {
        let most = f64::from(most);
        Self { most, per_second: f64::from(per_second), left: Mutex::new((most, now)) }
    }

    /// Whether one more question is in time at `now`.
    pub(super) fn take(&self, now: Instant) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = now
            .saturating_duration_since(left.1)
            .as_secs_f64()
            .mul_add(self.per_second, left.0)
            .min(self.most);
        let enough = filled >= 1.0;
        *left = (if enough { filled - 1.0 } else { filled }, now);
        enough
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_is_served_and_then_the_rate() {
        let begin = Instant::now();
        let bucket = Bucket::new(3, 2, begin);
        assert_eq!([(); 5].map(|()| bucket.take(begin)), [true, true, true, false, false]);
        let later = begin + Duration::from_secs(1);
        assert_eq!([(); 3].map(|()| bucket.take(later)), [true, true, false]);
        let late = begin + Duration::from_secs(3600);
        assert_eq!([(); 4].map(|()| bucket.take(late)), [true, true, true, false], "it does not overflow");
    }
}
