//! Round-trip times and the timers that follow from them (RFC 9002, sections 5 and 6).

/// The round trip before the first sample (RFC 9002, section 6.2.2).
const INITIAL_MICROS: u64 = 333_000;
/// Timers never get finer than this (RFC 9002, section 6.1.2). On a path of 50 µs a millisecond is long, but shells
/// have timers of one millisecond, and what is called lost too early costs more than what is called lost late.
const GRANULARITY_MICROS: u64 = 1_000;

/// Round trips of one path, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rtt {
    latest: u64,
    smoothed: u64,
    variation: u64,
    /// None: no sample yet.
    min: Option<u64>,
}

impl Rtt {
    pub(crate) const fn new() -> Self {
        Self { latest: INITIAL_MICROS, smoothed: INITIAL_MICROS, variation: INITIAL_MICROS / 2, min: None }
    }

    pub(crate) const fn has_sample(&self) -> bool {
        self.min.is_some()
    }

    /// An acknowledgement came `sample` microseconds after the newest datagram that it names, of which the peer says
    /// that it held it back for `ack_delay` (RFC 9002, section 5.3). The caller bounds the delay by what the peer
    /// promised.
    pub(crate) fn update(&mut self, sample: u64, ack_delay: u64) {
        // Zero would make rates infinite.
        let sample = sample.max(1);
        self.latest = sample;
        let Some(min) = self.min else {
            (self.smoothed, self.variation, self.min) = (sample, sample / 2, Some(sample));
            return;
        };
        // The smallest one ignores what the peer says, so that it cannot make the path shorter than it is.
        let min = min.min(sample);
        self.min = Some(min);
        let adjusted =
            if sample >= min.saturating_add(ack_delay) { sample.saturating_sub(ack_delay) } else { sample };
        self.variation = average(self.variation, self.smoothed.abs_diff(adjusted), 4);
        self.smoothed = average(self.smoothed, adjusted, 8);
    }

    /// The path may be another one: the smallest round trip is the latest one (RFC 9002, section 5.2), as it is after
    /// persistent congestion.
    pub(crate) fn restart_min(&mut self) {
        self.min = self.min.map(|_| self.latest);
    }

    pub(crate) const fn smoothed_micros(&self) -> u64 {
        self.smoothed
    }

    /// The smallest round trip; before the first sample, what is assumed.
    pub(crate) fn min_micros(&self) -> u64 {
        self.min.unwrap_or(INITIAL_MICROS)
    }

    pub(crate) const fn latest_micros(&self) -> u64 {
        self.latest
    }

    /// How long a sender waits for an acknowledgement before it sends something that asks for one (RFC 9002, section
    /// 6.2.1), where the peer holds acknowledgements back for `ack_delay_max` at most.
    pub(crate) fn probe_timeout_micros(&self, ack_delay_max: u64) -> u64 {
        let margin = self.variation.saturating_mul(4).max(GRANULARITY_MICROS);
        self.smoothed.saturating_add(margin).saturating_add(ack_delay_max)
    }

    /// How long after a datagram left another that was sent later may be acknowledged, before the first counts as lost
    /// (RFC 9002, section 6.1.2).
    pub(crate) fn loss_delay_micros(&self) -> u64 {
        let longest = self.smoothed.max(self.latest);
        longest.saturating_add(longest / 8).max(GRANULARITY_MICROS)
    }
}

/// The average of `old`, which counts `weight` - 1 times, and `new`.
fn average(old: u64, new: u64, weight: u64) -> u64 {
    let sum = old.saturating_mul(weight.saturating_sub(1)).saturating_add(new);
    sum.checked_div(weight).unwrap_or(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_the_first_sample_a_third_of_a_second_is_assumed() {
        let rtt = Rtt::new();
        assert!(!rtt.has_sample());
        assert_eq!((rtt.smoothed_micros(), rtt.min_micros()), (333_000, 333_000));
        assert_eq!(rtt.probe_timeout_micros(0), 333_000 + 4 * 166_500);
    }

    #[test]
    fn the_first_sample_replaces_the_assumption_and_later_ones_move_it() {
        let mut rtt = Rtt::new();
        rtt.update(80_000, 10_000);
        assert!(rtt.has_sample());
        assert_eq!((rtt.smoothed_micros(), rtt.variation), (80_000, 40_000), "its delay does not count");
        rtt.update(160_000, 0);
        assert_eq!((rtt.smoothed_micros(), rtt.variation), (90_000, 50_000));
        assert_eq!((rtt.latest_micros(), rtt.min_micros()), (160_000, 80_000));
        assert_eq!(rtt.probe_timeout_micros(25_000), 90_000 + 200_000 + 25_000);
        assert_eq!(rtt.loss_delay_micros(), 180_000);
    }

    #[test]
    fn a_delay_that_the_peer_claims_never_makes_the_path_shorter_than_its_shortest() {
        let mut rtt = Rtt::new();
        rtt.update(10_000, 0);
        rtt.update(12_000, 5_000);
        assert_eq!(rtt.smoothed_micros(), 10_250, "it would have been 7 ms: not believed");
        rtt.update(20_000, 5_000);
        assert_eq!(rtt.smoothed_micros(), 10_843, "15 ms");
        assert_eq!(rtt.min_micros(), 10_000);
        rtt.restart_min();
        assert_eq!(rtt.min_micros(), 20_000);
    }

    #[test]
    fn timers_are_never_finer_than_a_millisecond_and_nothing_overflows() {
        let mut rtt = Rtt::new();
        for _ in 0..100 {
            rtt.update(50, 0);
        }
        assert_eq!(rtt.loss_delay_micros(), 1_000);
        assert_eq!(rtt.probe_timeout_micros(0), 1_050);
        rtt.update(0, 0);
        assert_eq!(rtt.min_micros(), 1);
        rtt.update(u64::MAX, u64::MAX);
        rtt.update(u64::MAX, 1);
        assert!(rtt.probe_timeout_micros(u64::MAX) == u64::MAX && rtt.loss_delay_micros() == u64::MAX);
    }
}
