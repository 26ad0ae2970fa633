//! CUBIC until the path is seen to lose datagrams by chance, BBR from then on.
//!
//! A queue that overflows was full before: round trips just before such a loss are longer than the shortest by what it holds, or,
//! where others never let it run empty, 1.4 times the shortest, since CUBIC leaves 70 % of what was in flight. A loss while round
//! trips are short has another cause, such as a radio or a damaged line, for which CUBIC slows down in vain.
//!
//! What cannot be told from chance: a queue of a tenth or less of what the path holds, a queue that is managed so that it
//! stays as short (on paths of 50 ms and more), and a policer. There BBR takes what CUBIC beside it leaves: at 20 Mbit/s and a queue
//! of a tenth fourteen times as much, in simulation. So it is for whoever knows the path, and nobody's default.

use sealane_types::CongestionControl;

use super::bbr::Bbr;
use super::controller::{Acknowledged, Controller, Lost};
use super::cubic::Cubic;
use super::rtt::Rtt;
use crate::Moment;

/// Round trips up to so much of the shortest are short.
const SHORT_PERCENT: u64 = 110;
/// How many losses are looked at, and how many of those came by chance where the path loses by chance.
const EVENTS: u32 = u8::BITS;
const BY_CHANCE_MIN: u32 = 6;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Auto {
    datagram_bytes: u64,
    chosen: Box<dyn Controller>,
    /// The losses that came last, one bit each: whether round trips were short. All of a round trip are one.
    by_chance: u8,
    events: u32,
    /// The loss that came last.
    last: Option<Event>,
}

/// Datagrams that left in this time were lost together.
#[derive(Debug, Clone, Copy)]
struct Event {
    after: Moment,
    until: Moment,
    /// It was noted, and did not turn out to be none.
    counts: bool,
}

impl Event {
    fn holds(&self, sent: Moment) -> bool {
        sent > self.after && sent <= self.until
    }
}

impl Auto {
    pub(crate) fn new(datagram_bytes: u64) -> Self {
        Self {
            datagram_bytes,
            chosen: Box::new(Cubic::new(datagram_bytes)),
            by_chance: 0,
            events: 0,
            last: None,
        }
    }

    /// Notes a loss that CUBIC slows down for.
    fn note(&mut self, lost: &Lost, rtt: &Rtt) {
        let until = self.last.map_or(Moment::default(), |last| last.until);
        if lost.persistent || !rtt.has_sample() || (self.last.is_some() && lost.newest_sent <= until) {
            return;
        }
        let short = rtt.latest_micros().saturating_mul(100) <= rtt.min_micros().saturating_mul(SHORT_PERCENT);
        self.by_chance = self.by_chance << 1 | u8::from(short);
        self.events = self.events.saturating_add(1).min(EVENTS);
        self.last = Some(Event { after: until, until: lost.now, counts: true });
    }

    const fn loses_by_chance(&self) -> bool {
        self.events == EVENTS && self.by_chance.count_ones() >= BY_CHANCE_MIN
    }
}

impl Controller for Auto {
    fn on_sent(&mut self, now: Moment, bytes: u64, in_flight: u64) {
        self.chosen.on_sent(now, bytes, in_flight);
    }

    fn on_acknowledged(&mut self, acknowledged: &Acknowledged, rtt: &Rtt) {
        self.chosen.on_acknowledged(acknowledged, rtt);
    }

    fn on_lost(&mut self, lost: &Lost, rtt: &Rtt) {
        if self.chosen.name() == CongestionControl::Cubic {
            self.note(lost, rtt);
            if self.loses_by_chance() {
                self.chosen = Box::new(Bbr::beginning_with(self.datagram_bytes, self.window()));
            }
        }
        self.chosen.on_lost(lost, rtt);
    }

    fn on_spurious_loss(&mut self, newest_sent: Moment) {
        if let Some(last) = &mut self.last
            && last.counts
            && last.holds(newest_sent)
        {
            last.counts = false;
            self.by_chance >>= 1;
            self.events = self.events.saturating_sub(1);
        }
        self.chosen.on_spurious_loss(newest_sent);
    }

    fn on_datagram_bytes(&mut self, bytes: u64) {
        self.datagram_bytes = bytes;
        self.chosen.on_datagram_bytes(bytes);
    }

    fn window(&self) -> u64 {
        self.chosen.window()
    }

    fn rate(&self) -> Option<u64> {
        self.chosen.rate()
    }

    fn name(&self) -> CongestionControl {
        self.chosen.name()
    }
}

#[cfg(test)]
mod tests;
