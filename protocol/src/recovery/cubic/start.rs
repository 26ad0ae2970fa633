//! HyStart++ (RFC 9406): leaves slow start when round trips get longer, before the queue overflows.

use crate::Moment;
use crate::recovery::rtt::Rtt;

/// A round trip longer by an eighth, within these bounds, is a queue (RFC 9406, section 4.3).
const LONGER_MICROS_MIN: u64 = 4_000;
/// On a path that is shorter than that, twice the path is, and at least what timers and interrupts take: 4 ms on one of
/// 50 µs would be more than the caches of both ends hold.
const LONGER_MICROS_SHORT: u64 = 250;
const LONGER_MICROS_MAX: u64 = 16_000;
const LONGER_DIVISOR: u64 = 8;
/// Round trips that a round must have shown before they are believed; or it is over, because each acknowledgement named
/// so much.
const SAMPLES: u32 = 8;
/// The conservative slow start grows by this part of what is acknowledged, for so many rounds.
const CONSERVATIVE_DIVISOR: u64 = 4;
const CONSERVATIVE_ROUNDS: u32 = 5;

/// The slow start of one path.
#[derive(Debug, Default)]
pub(crate) struct Start {
    last_sent: Moment,
    /// A round ends with the acknowledgement of something that was sent after it had begun.
    round_end: Moment,
    samples: u32,
    /// Smallest round trip of all, of this round, and of the one before.
    path: u64,
    shortest: Option<u64>,
    shortest_before: Option<u64>,
    pace: Pace,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Pace {
    #[default]
    Full,
    /// The queue may be growing; it was not if round trips get shorter than `baseline` again.
    Conservative {
        baseline: u64,
        rounds: u32,
    },
    Over,
}

impl Start {
    pub(crate) fn on_sent(&mut self, now: Moment) {
        self.last_sent = now;
    }

    /// By how much the window grows for `bytes` that were acknowledged.
    pub(crate) fn growth(&mut self, bytes: u64, newest_sent: Moment, rtt: &Rtt) -> u64 {
        self.path = rtt.min_micros();
        if newest_sent > self.round_end {
            self.begin_round();
        }
        self.samples = self.samples.saturating_add(1);
        let latest = rtt.latest_micros();
        let shortest = self.shortest.map_or(latest, |shortest| shortest.min(latest));
        self.shortest = Some(shortest);
        if self.samples >= SAMPLES {
            self.judge(shortest);
        }
        match self.pace {
            Pace::Full => bytes,
            Pace::Conservative { .. } | Pace::Over => bytes / CONSERVATIVE_DIVISOR,
        }
    }

    /// The window is large enough, though nothing was lost.
    pub(crate) fn is_over(&self) -> bool {
        self.pace == Pace::Over
    }

    fn begin_round(&mut self) {
        if let Pace::Conservative { baseline, rounds } = self.pace {
            let rounds = rounds.saturating_add(1);
            self.pace = if rounds > CONSERVATIVE_ROUNDS {
                Pace::Over
            } else {
                Pace::Conservative { baseline, rounds }
            };
        }
        if let Some(shortest) = self.shortest.filter(|_| self.samples < SAMPLES) {
            self.judge(shortest);
        }
        self.round_end = self.last_sent;
        (self.samples, self.shortest_before, self.shortest) = (0, self.shortest, None);
    }

    fn judge(&mut self, shortest: u64) {
        match (self.pace, self.shortest_before) {
            (Pace::Full, Some(before)) => {
                let least = self.path.saturating_mul(2).clamp(LONGER_MICROS_SHORT, LONGER_MICROS_MIN);
                let longer = (before / LONGER_DIVISOR).clamp(least, LONGER_MICROS_MAX);
                if shortest >= before.saturating_add(longer) {
                    self.pace = Pace::Conservative { baseline: shortest, rounds: 1 };
                }
            }
            (Pace::Conservative { baseline, .. }, _) if shortest < baseline => self.pace = Pace::Full,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of so many acknowledgements with this round trip, over a path of `path` microseconds; by how much 1,000 bytes
    /// make the window grow at its end.
    fn round_of(start: &mut Start, acknowledgements: u32, path: u64, number: u64, micros: u64) -> u64 {
        let now = Moment::from_micros(number * 1_000_000);
        start.on_sent(now);
        let mut rtt = Rtt::new();
        rtt.update(path, 0);
        rtt.update(micros, 0);
        (0..acknowledgements).map(|_| start.growth(1_000, now, &rtt)).last().unwrap()
    }

    fn round(start: &mut Start, number: u64, micros: u64) -> u64 {
        round_of(start, 10, 20_000, number, micros)
    }

    #[test]
    fn a_queue_on_a_short_path_is_found_as_early() {
        for (path, longer) in [(50, 250), (600, 1_200), (3_000, 4_000)] {
            let mut start = Start::default();
            round_of(&mut start, 10, path, 1, path);
            assert_eq!(round_of(&mut start, 10, path, 2, path + longer - 1), 1_000, "{path}");
            assert_eq!(round_of(&mut start, 10, path, 3, path + 2 * longer - 1), 250, "{path}");
        }
    }

    #[test]
    fn a_round_of_few_acknowledgements_is_judged_when_it_is_over() {
        let mut start = Start::default();
        round_of(&mut start, 2, 20_000, 1, 20_000);
        assert_eq!(round_of(&mut start, 2, 20_000, 2, 30_000), 1_000);
        for number in 3..8 {
            assert_eq!(round_of(&mut start, 2, 20_000, number, 30_000), 250);
            assert!(!start.is_over());
        }
        round_of(&mut start, 2, 20_000, 8, 30_000);
        assert!(start.is_over());
    }

    #[test]
    fn even_round_trips_keep_it_going() {
        let mut start = Start::default();
        for number in 1..50 {
            assert_eq!(round(&mut start, number, 20_000 + number % 3 * 1_000), 1_000);
        }
    }

    #[test]
    fn longer_round_trips_slow_it_down_and_after_five_rounds_end_it() {
        let mut start = Start::default();
        round(&mut start, 1, 20_000);
        assert_eq!(round(&mut start, 2, 23_999), 1_000, "less than four milliseconds longer");
        assert_eq!(round(&mut start, 3, 28_000), 250);
        for number in 4..8 {
            assert_eq!(round(&mut start, number, 30_000), 250);
            assert!(!start.is_over());
        }
        round(&mut start, 8, 30_000);
        assert!(start.is_over());
    }

    #[test]
    fn shorter_ones_take_it_back() {
        let mut start = Start::default();
        round(&mut start, 1, 20_000);
        assert_eq!(round(&mut start, 2, 30_000), 250);
        assert_eq!(round(&mut start, 3, 20_000), 1_000);
        assert!(!start.is_over());
    }
}
