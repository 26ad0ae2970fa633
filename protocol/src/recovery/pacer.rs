//! Spreads datagrams over time (RFC 9002, section 7.7): a bucket that fills at the sender's rate.

use crate::Moment;

/// Datagrams that may leave at once: a window of a new path (RFC 9002, section 7.2).
const BURST_DATAGRAMS: u64 = 10;
/// Bytes that may leave at once: what one call hands to a kernel that segments.
const BURST_BYTES: u64 = 64 << 10;
/// Time's worth of the rate that may leave at once: timers of a shell are good to one millisecond, and what was missed
/// during one of them is caught up with.
const BURST_MICROS: u64 = 2_000;
const MICROS_PER_SECOND: u64 = 1_000_000;

/// See the module's documentation. Before it knows a rate, it holds nothing back.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// None: no rate is known.
    bytes_per_second: Option<u64>,
    datagram_bytes: u64,
    /// What may leave, in millionths of a byte, so that nothing is lost to rounding.
    filled: u64,
    filled_at: Moment,
}

impl Pacer {
    /// Its bucket is full.
    pub(crate) fn new(datagram_bytes: u64) -> Self {
        let mut pacer =
            Self { bytes_per_second: None, datagram_bytes, filled: 0, filled_at: Moment::from_micros(0) };
        pacer.filled = pacer.burst_bytes().saturating_mul(MICROS_PER_SECOND);
        pacer
    }

    /// Bytes per second from here on. What has filled up to now stays.
    pub(crate) fn on_rate(&mut self, bytes_per_second: u64) {
        self.bytes_per_second = Some(bytes_per_second.max(1));
    }

    pub(crate) fn on_datagram_bytes(&mut self, bytes: u64) {
        self.datagram_bytes = bytes;
    }

    /// Bytes that may leave now.
    pub(crate) fn room(&mut self, now: Moment) -> u64 {
        let Some(rate) = self.bytes_per_second else {
            // Time without a rate fills nothing once there is one.
            self.filled_at = self.filled_at.max(now);
            return u64::MAX;
        };
        let added = rate.saturating_mul(now.micros_since(self.filled_at));
        let full = self.burst_bytes().saturating_mul(MICROS_PER_SECOND);
        self.filled = self.filled.saturating_add(added).min(full);
        self.filled_at = self.filled_at.max(now);
        self.filled / MICROS_PER_SECOND
    }

    /// `bytes` left.
    pub(crate) fn spent(&mut self, bytes: u64) {
        self.filled = self.filled.saturating_sub(bytes.saturating_mul(MICROS_PER_SECOND));
    }

    /// When `wanted` bytes, or as many as ever may leave at once, may leave: `now` or later.
    pub(crate) fn next(&self, now: Moment, wanted: u64) -> Moment {
        let Some(rate) = self.bytes_per_second else {
            return now;
        };
        let wanted = wanted.min(self.burst_bytes()).saturating_mul(MICROS_PER_SECOND);
        let missing = wanted.saturating_sub(self.filled);
        // Rounded up: a timer that rings too early finds too little room and would ring again at once.
        let micros = missing.saturating_add(rate.saturating_sub(1)).checked_div(rate).unwrap_or(0);
        self.filled_at.plus_micros(micros).max(now)
    }

    fn burst_bytes(&self) -> u64 {
        let of_rate = self.bytes_per_second.unwrap_or(0).saturating_mul(BURST_MICROS) / MICROS_PER_SECOND;
        BURST_BYTES.max(of_rate).max(self.datagram_bytes.saturating_mul(BURST_DATAGRAMS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Moment {
        Moment::from_micros(micros)
    }

    #[test]
    fn it_holds_nothing_back_before_it_knows_a_rate() {
        let mut pacer = Pacer::new(1_200);
        assert_eq!(pacer.room(at(0)), u64::MAX);
        assert_eq!(pacer.next(at(7), 1 << 40), at(7));
        pacer.spent(60_000);
        pacer.on_rate(1_000_000);
        assert_eq!(pacer.room(at(100)), 65_536 - 60_000 + 100, "but counts what leaves meanwhile");
    }

    #[test]
    fn a_burst_leaves_at_once_and_the_rest_at_the_rate() {
        let mut pacer = Pacer::new(1_200);
        pacer.on_rate(1_000_000);
        assert_eq!(pacer.room(at(0)), 65_536, "64 KiB");
        pacer.spent(65_536);
        assert_eq!(pacer.room(at(0)), 0);
        assert_eq!(pacer.next(at(0), 1_200), at(1_200), "a byte per microsecond");
        assert_eq!(pacer.room(at(1_199)), 1_199);
        assert_eq!(pacer.next(at(1_199), 1_200), at(1_200));
        assert_eq!(pacer.room(at(1_200)), 1_200);
        assert_eq!(pacer.room(at(10_000_000)), 65_536, "idle time fills it no further");
        assert_eq!(pacer.next(at(10_000_000), u64::MAX), at(10_000_000), "no more is ever to be had");
    }

    #[test]
    fn the_burst_follows_the_rate_and_the_datagrams() {
        let mut pacer = Pacer::new(1_200);
        pacer.on_rate(1_000_000_000);
        assert_eq!(pacer.room(at(1_000_000)), 2_000_000, "two milliseconds");
        let mut pacer = Pacer::new(1_200);
        pacer.on_datagram_bytes(8_972);
        pacer.on_rate(1);
        pacer.room(at(0));
        assert_eq!(pacer.room(at(1_000_000_000_000)), 89_720, "ten datagrams");
    }

    /// Whatever the steps in which time goes on, no more leaves than burst and rate allow, and no less.
    #[test]
    fn nothing_is_lost_to_rounding() {
        for (rate, step) in [(3_333_333, 7), (12_345, 1), (999_999_937, 1)] {
            let mut pacer = Pacer::new(1_200);
            pacer.on_rate(rate);
            let (mut now, mut left) = (at(0), 0);
            while now < at(1_000_000) {
                let room = pacer.room(now);
                pacer.spent(room);
                left += room;
                now = now.plus_micros(step);
            }
            assert!(left.abs_diff(rate + 65_536) <= 2 + rate * step / 1_000_000, "{left} of {rate}");
        }
    }
}
