//! Which packets have come, and when the remote is told (RFC 9000 §13.2).

use std::ops::Range;

use super::Ranges;
use crate::Moment;
use crate::limits::{ACKNOWLEDGE_DELAY_MICROS, ACKNOWLEDGE_PACKETS, RECEIVED_RANGES_MAX};

/// See the module's documentation. A number is committed only after its packet has opened.
#[derive(Debug, Default)]
pub(crate) struct Received {
    numbers: Ranges,
    /// Every number below counts as seen, whether it was or not: what it carried comes again under another.
    floor: u64,
    /// When the newest packet came.
    newest: Moment,
    /// Packets that ask for an acknowledgement and have none.
    waiting: u32,
    due: Option<Moment>,
    /// The remote knows what there is to say of numbers below (RFC 9000 §13.2.4).
    known: u64,
    watched: Option<Watched>,
}

/// An acknowledgement of which it is not known whether it has arrived.
#[derive(Debug, Clone, Copy)]
struct Watched {
    /// The packet that carries it.
    number: u64,
    /// Behind the newest that it names.
    end: u64,
}

impl Received {
    pub(crate) fn is_seen(&self, number: u64) -> bool {
        number < self.floor || self.numbers.contains(number)
    }

    /// Behind the newest number.
    pub(crate) fn end(&self) -> u64 {
        self.numbers.last().map_or(0, |newest| newest.end)
    }

    /// A packet opened, and what it says was taken.
    pub(crate) fn commit(&mut self, number: u64, asks: bool, now: Moment) {
        let expected = self.end();
        self.numbers.insert(number..number.saturating_add(1));
        while self.numbers.len() > RECEIVED_RANGES_MAX {
            let Some(oldest) = self.numbers.first() else { break };
            self.floor = oldest.end;
            self.numbers.remove_below(oldest.end);
        }
        if number >= expected {
            self.newest = now;
        }
        // One that comes late is news.
        self.known = self.known.min(number);
        if !asks {
            return;
        }
        self.waiting = self.waiting.saturating_add(1);
        // The remote finds out about losses, and that there were none, as early as it can.
        let at_once = number != expected || self.waiting >= ACKNOWLEDGE_PACKETS;
        let due = if at_once { now } else { now.plus_micros(ACKNOWLEDGE_DELAY_MICROS) };
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// When the remote is told at the latest.
    pub(crate) const fn due(&self) -> Option<Moment> {
        self.due
    }

    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.due.is_some_and(|due| now >= due)
    }

    /// What the remote is told: numbers, newest first, and how long ago the newest came.
    pub(crate) fn report(&self, now: Moment) -> (impl Iterator<Item = Range<u64>>, u32) {
        let delay_micros = u32::try_from(now.micros_since(self.newest)).unwrap_or(u32::MAX);
        (self.numbers.iter().rev().take_while(|range| range.end > self.known), delay_micros)
    }

    /// The remote is being told, in the packet of this number.
    pub(crate) fn reported(&mut self, number: u64) {
        (self.waiting, self.due) = (0, None);
        let end = self.end();
        self.watched.get_or_insert(Watched { number, end });
    }

    /// The remote has packets of `ranges`, newest first.
    pub(crate) fn on_acknowledged(&mut self, ranges: impl Iterator<Item = Range<u64>>) {
        let Some(Watched { number, end }) = self.watched else { return };
        let mut newer = ranges.take_while(|range| range.end > number).peekable();
        if newer.peek().is_none() {
            return;
        }
        if newer.any(|range| range.start <= number) {
            self.known = end;
        }
        // If it has only newer ones, this one is lost, and the next is watched.
        self.watched = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_micros(5);

    #[test]
    fn a_number_is_seen_once_and_old_ones_are_not_asked_for() {
        let mut received = Received::default();
        for number in (0..4 * RECEIVED_RANGES_MAX as u64).step_by(2) {
            assert!(!received.is_seen(number));
            received.commit(number, true, NOW);
            assert!(received.is_seen(number) && !received.is_seen(number + 1));
        }
        assert!(received.is_seen(1), "forgotten, and so as good as seen");
        assert!(received.numbers.len() <= RECEIVED_RANGES_MAX);
    }

    #[test]
    fn order_can_wait_and_disorder_cannot() {
        let mut received = Received::default();
        received.commit(0, true, NOW);
        let due = NOW.plus_micros(ACKNOWLEDGE_DELAY_MICROS);
        assert_eq!(received.due(), Some(due));
        assert!(!received.is_due(NOW) && received.is_due(due));
        received.commit(2, true, NOW);
        assert!(received.is_due(NOW), "something is missing");
        assert_eq!(received.report(NOW.plus_micros(9)).1, 9);
        received.reported(0);
        assert_eq!(received.due(), None);
        received.commit(3, false, NOW);
        assert_eq!(received.due(), None, "nobody asked");
        for number in 4..4 + u64::from(ACKNOWLEDGE_PACKETS) {
            assert!(!received.is_due(NOW));
            received.commit(number, true, NOW);
        }
        assert!(received.is_due(NOW));
    }

    fn told(received: &Received) -> Vec<Range<u64>> {
        received.report(NOW).0.collect()
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
    fn what_the_remote_knows_is_not_told_again() {
        let mut received = Received::default();
        for number in [0, 2, 4] {
            received.commit(number, true, NOW);
        }
        received.reported(7);
        received.commit(6, true, NOW);
        received.reported(8);
        received.on_acknowledged(std::iter::once(5..7));
        assert_eq!(told(&received), [6..7, 4..5, 2..3, 0..1], "it has older ones");
        received.on_acknowledged([8..9, 0..7].into_iter());
        assert_eq!(told(&received), [6..7, 4..5, 2..3, 0..1], "the first was lost");
        received.reported(9);
        received.on_acknowledged(std::iter::once(8..12));
        assert_eq!(told(&received), [], "it knows all");
        received.commit(8, true, NOW);
        assert_eq!(told(&received), [8..9]);
        received.commit(3, true, NOW);
        assert_eq!(told(&received), [8..9, 6..7, 2..5], "this one was late");
        assert!(received.is_seen(0) && received.is_seen(2) && !received.is_seen(5));
    }
}
