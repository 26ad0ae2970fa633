//! What the model knows of the path: how fast it delivers, how long it is, and when a round of it is over.

use crate::Moment;
use crate::recovery::controller::WINDOW_BYTES_MAX;
use crate::recovery::delivery::RateSample;

/// The shortest round trip is forgotten after so long (draft-ietf-ccwg-bbr, `MinRTTFilterLen`).
const SHORTEST_MICROS_MAX: u64 = 10_000_000;

/// Or once all round trips of so long a time, and so many of them, were longer by more than a queue of ours makes them, and
/// still were when there was none: then the path is another one.
const MOVED_MICROS: u64 = 1_000_000;
const MOVED_SAMPLES: u32 = 4;
/// What is in flight fills the path twice and makes up for heaps (see `HEAP_MICROS_MAX`), and some is for others' queues.
const MOVED_FACTOR: u64 = 3;
const MOVED_MICROS_MORE: u64 = 5_000;

/// Heaps of acknowledgements are remembered for so many rounds, and at most twice as many (draft-ietf-ccwg-bbr,
/// `ExtraAckedFilterLen`).
const HEAP_ROUNDS: u64 = 5;

/// Largest delivery rate of this cycle of probing and the one before, in bytes per second.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Bandwidth {
    current: u64,
    before: u64,
}

impl Bandwidth {
    /// A limited sender shows only that the path carries more than was thought.
    pub(super) fn update(&mut self, sample: &RateSample) {
        if !sample.limited || sample.bytes_per_second > self.bytes_per_second() {
            self.current = self.current.max(sample.bytes_per_second);
        }
    }

    /// A cycle is over. One that showed nothing makes nothing be forgotten.
    pub(super) fn end_cycle(&mut self) {
        if self.current > 0 {
            (self.before, self.current) = (self.current, 0);
        }
    }

    pub(super) fn bytes_per_second(&self) -> u64 {
        self.current.max(self.before)
    }
}

/// The shortest round trip of the last ten seconds.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Shortest {
    micros: Option<u64>,
    seen_at: Moment,
    recent: Recent,
    /// The path may have become longer: the recent ones count once it was all but empty.
    is_doubted: bool,
}

/// The shortest of about the last second.
#[derive(Debug, Default, Clone, Copy)]
struct Recent {
    micros: Option<u64>,
    samples: u32,
    since: Moment,
}

impl Shortest {
    /// Whether the path should be emptied, because what was known has become too old or may be untrue.
    pub(super) fn update(&mut self, now: Moment, micros: u64) -> bool {
        let Some(shortest) = self.micros else {
            (self.micros, self.seen_at) = (Some(micros), now);
            return false;
        };
        let is_old = now.micros_since(self.seen_at) > SHORTEST_MICROS_MAX;
        if is_old || micros <= shortest {
            (self.micros, self.seen_at, self.is_doubted) = (Some(micros), now, false);
        }
        let longer = shortest.saturating_mul(MOVED_FACTOR).saturating_add(MOVED_MICROS_MORE);
        self.recent.add(micros);
        let has_moved = !self.is_doubted && self.recent.take(now).is_some_and(|recent| recent > longer);
        if has_moved {
            self.is_doubted = true;
            self.recent.add(micros);
        }
        is_old || has_moved
    }

    /// The path was all but empty: what was seen then is true.
    pub(super) fn renew(&mut self, now: Moment) {
        self.seen_at = now;
        if std::mem::take(&mut self.is_doubted) {
            self.micros = self.recent.micros.or(self.micros);
        }
    }

    pub(super) fn micros(&self) -> Option<u64> {
        self.micros
    }
}

impl Recent {
    fn add(&mut self, micros: u64) {
        self.micros = Some(self.micros.map_or(micros, |shortest| shortest.min(micros)));
        self.samples = self.samples.saturating_add(1);
    }

    /// The shortest of a time that is over.
    fn take(&mut self, now: Moment) -> Option<u64> {
        if now.micros_since(self.since) < MOVED_MICROS || self.samples < MOVED_SAMPLES {
            return None;
        }
        std::mem::replace(self, Self { since: now, ..Self::default() }).micros
    }
}

/// A round ends when something is delivered that left after it had begun.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Rounds {
    pub(super) count: u64,
    end: u64,
}

impl Rounds {
    /// Whether a round begins.
    pub(super) fn update(&mut self, sample: &RateSample) -> bool {
        let begins = sample.prior_delivered >= self.end;
        if begins {
            self.end = sample.delivered;
            self.count = self.count.saturating_add(1);
        }
        begins
    }
}

/// How much comes at once beyond what the rate makes expect: acknowledgements are held back by receivers, radios and
/// busy machines, and meanwhile so much more has to be on its way (draft-ietf-ccwg-bbr, `extra_acked`).
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Heaps {
    since: Moment,
    delivered: u64,
    /// The largest of these rounds, and of as many before.
    current: u64,
    before: u64,
    /// The round in which `current` began.
    round: u64,
}

impl Heaps {
    /// `bytes` were acknowledged; no heap is larger than the `window`.
    pub(super) fn update(&mut self, now: Moment, bytes: u64, bandwidth: u64, window: u64, round: u64) {
        if round.saturating_sub(self.round) >= HEAP_ROUNDS {
            (self.before, self.current, self.round) = (self.current, 0, round);
        }
        let mut expected = pipe_bytes(bandwidth, now.micros_since(self.since));
        if self.delivered <= expected {
            (self.since, self.delivered, expected) = (now, 0, 0);
        }
        self.delivered = self.delivered.saturating_add(bytes);
        self.current = self.current.max(self.delivered.saturating_sub(expected).min(window));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.current.max(self.before)
    }
}

/// What is on a path of this rate and length when nothing queues.
pub(super) fn pipe_bytes(bandwidth: u64, micros: u64) -> u64 {
    let bytes = u128::from(bandwidth).saturating_mul(u128::from(micros)) / 1_000_000;
    u64::try_from(bytes).map_or(WINDOW_BYTES_MAX, |bytes| bytes.min(WINDOW_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(bytes_per_second: u64, limited: bool) -> RateSample {
        RateSample {
            bytes_per_second,
            delivered: 0,
            prior_delivered: 0,
            prior_in_flight: 0,
            rtt_micros: 1,
            limited,
        }
    }

    #[test]
    fn a_rate_is_remembered_for_two_cycles() {
        let mut bandwidth = Bandwidth::default();
        bandwidth.update(&sample(300, false));
        bandwidth.update(&sample(100, false));
        bandwidth.end_cycle();
        bandwidth.update(&sample(200, false));
        assert_eq!(bandwidth.bytes_per_second(), 300);
        bandwidth.end_cycle();
        assert_eq!(bandwidth.bytes_per_second(), 200);
        for _ in 0..3 {
            bandwidth.update(&sample(100, true));
            bandwidth.end_cycle();
        }
        assert_eq!(bandwidth.bytes_per_second(), 200, "a limited sender shows nothing");
        bandwidth.update(&sample(250, true));
        assert_eq!(bandwidth.bytes_per_second(), 250, "but that there is more");
    }

    #[test]
    fn the_shortest_round_trip_is_forgotten_after_ten_seconds() {
        let at = Moment::from_micros;
        let mut shortest = Shortest::default();
        assert!(!shortest.update(at(0), 50) && !shortest.update(at(SHORTEST_MICROS_MAX), 70));
        assert_eq!(shortest.micros(), Some(50));
        assert!(shortest.update(at(SHORTEST_MICROS_MAX + 1), 70));
        assert_eq!(shortest.micros(), Some(70));
        shortest.renew(at(SHORTEST_MICROS_MAX * 2));
        assert!(!shortest.update(at(SHORTEST_MICROS_MAX * 3), 80));
    }

    #[test]
    fn a_path_that_may_have_become_long_is_noticed_and_believed_once_it_was_empty() {
        let at = |step: u64| Moment::from_micros(step * 100_000);
        for (micros, noticed) in [(155_000, false), (155_001, true)] {
            let mut shortest = Shortest::default();
            (0..20).for_each(|step| assert!(!shortest.update(at(step), 50_000 + step)));
            let when = (20..60).find(|step| shortest.update(at(*step), micros));
            assert_eq!(when.is_some(), noticed, "{when:?}");
            assert!(when.is_none_or(|step| step <= 40), "within two seconds: {when:?}");
            assert!((60..80).all(|step| !shortest.update(at(step), micros)), "once");
            assert_eq!(shortest.micros(), Some(50_000), "it may be a queue of ours");
            shortest.renew(at(80));
            assert_eq!(shortest.micros(), Some(if noticed { micros } else { 50_000 }));
        }
        let mut shortest = Shortest::default();
        shortest.update(at(0), 50_000);
        assert!(!shortest.update(at(50), 500_000), "one is not enough");
    }

    #[test]
    fn a_doubt_ends_with_a_round_trip_as_short_as_before() {
        let at = |step: u64| Moment::from_micros(step * 100_000);
        let mut shortest = Shortest::default();
        shortest.update(at(0), 50_000);
        assert!((1..60).any(|step| shortest.update(at(step), 500_000)));
        shortest.update(at(61), 50_000);
        shortest.renew(at(62));
        assert_eq!(shortest.micros(), Some(50_000));
    }

    #[test]
    fn heaps_are_what_comes_beyond_the_rate() {
        let mut heaps = Heaps::default();
        for millis in 1..=100 {
            heaps.update(Moment::from_micros(millis * 1_000), 1_000, 1_000_000, 50_000, 0);
        }
        assert_eq!(heaps.bytes(), 1_000, "one datagram is none");
        for number in 1..=10 {
            heaps.update(Moment::from_micros(100_000 + number), 1_000, 1_000_000, 50_000, 5);
        }
        assert_eq!(heaps.bytes(), 10_990);
        heaps.update(Moment::from_micros(200_000), 90_000, 1_000_000, 50_000, 5);
        assert_eq!(heaps.bytes(), 50_000);
        heaps.update(Moment::from_micros(300_000), 1_000, 1_000_000, 50_000, 10);
        assert_eq!(heaps.bytes(), 50_000);
        heaps.update(Moment::from_micros(400_000), 1_000, 1_000_000, 50_000, 15);
        assert_eq!(heaps.bytes(), 1_000, "forgotten");
    }

    #[test]
    fn a_pipe_never_exceeds_the_largest_window() {
        assert_eq!(pipe_bytes(12_500_000, 20_000), 250_000);
        assert_eq!(pipe_bytes(u64::MAX, u64::MAX), WINDOW_BYTES_MAX);
    }
}
