//! Packets that were sent and are neither acknowledged nor lost (RFC 9002 §6).

use std::collections::VecDeque;
use std::ops::Range;

use super::{Rtt, Stamp};
use crate::Moment;
use crate::size::{index, wide};

/// Packets that may overtake one before it is lost (RFC 9002 §6.1.1), until the path shows that more of them do.
const REORDERED_MIN: u64 = 3;
const REORDERED_MAX: u64 = 1_000;
/// Probe timeouts that separate losses of a path that carries nothing at all (RFC 9002 §7.6.1).
const PERSISTENT_TIMEOUTS: u64 = 3;

/// What a packet carried, as far as it has to be known once it has arrived or is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Content {
    /// Bytes of the stream.
    pub(crate) offset: u64,
    pub(crate) length: u16,
    /// A packet that tries a larger size; that it is lost says nothing about congestion.
    pub(crate) probe: bool,
}

impl Content {
    pub(crate) fn bytes(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(u64::from(self.length))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Flying,
    Lost,
    /// It asks for no acknowledgement, and none has named it.
    Unasked,
    Acknowledged,
}

impl State {
    /// Whether nothing more comes of it.
    const fn is_settled(self) -> bool {
        matches!(self, Self::Unasked | Self::Acknowledged)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) sent: Moment,
    pub(crate) stamp: Stamp,
    pub(crate) content: Content,
    /// Of the whole datagram.
    pub(crate) size: u16,
    state: State,
    /// It took a path that is no longer used: what becomes of it says nothing of the one that is.
    pub(crate) is_foreign: bool,
}

impl Packet {
    /// Bytes of it that are on the path while it flies.
    fn in_flight(&self) -> u64 {
        if self.is_foreign { 0 } else { u64::from(self.size) }
    }
}

/// Acknowledges what was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeverSent;

/// What one acknowledgement says that was not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct News {
    /// Bytes of datagrams that were in flight.
    pub(crate) bytes: u64,
    /// Whether anything is new.
    pub(crate) any: bool,
    /// When the newest of them was sent that took this path.
    pub(crate) newest_sent: Option<Moment>,
    /// Whether it is the newest of all that were ever acknowledged, so that it measures the round trip.
    pub(crate) is_newest: bool,
    /// When the newest packet was sent that was called lost and was not.
    pub(crate) spurious: Option<Moment>,
    /// How many such packets there were, without probes.
    pub(crate) late: u64,
}

/// What was found to be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Losses {
    /// Without probes.
    pub(crate) bytes: u64,
    pub(crate) newest_sent: Option<Moment>,
    pub(crate) persistent: bool,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    packets: VecDeque<Packet>,
    /// The number of the first of them.
    base: u64,
    /// The lowest number that may still be flying.
    flying_from: u64,
    in_flight: u64,
    flying: u64,
    newest_acknowledged: Option<u64>,
    last_sent: Option<Moment>,
    reordered_max: Option<u64>,
    /// When the next packet counts as lost if it is not acknowledged.
    loss_due: Option<Moment>,
}

impl Sent {
    /// A packet left under the next number. Only those that ask for an acknowledgement are in flight.
    pub(crate) fn push(&mut self, sent: Moment, size: u16, content: Option<Content>, stamp: Stamp) {
        let state = if content.is_some() { State::Flying } else { State::Unasked };
        if content.is_some() {
            self.in_flight = self.in_flight.saturating_add(u64::from(size));
            self.flying = self.flying.saturating_add(1);
            self.last_sent = Some(sent);
        }
        let content = content.unwrap_or_default();
        self.packets.push_back(Packet { sent, stamp, content, size, state, is_foreign: false });
        while self.packets.front().is_some_and(|packet| packet.state.is_settled()) {
            self.packets.pop_front();
            self.base = self.base.saturating_add(1);
        }
    }

    /// Bytes of datagrams in flight.
    pub(crate) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Packets that are remembered.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether any packet is in flight.
    pub(crate) const fn is_empty(&self) -> bool {
        self.flying == 0
    }

    /// When the newest packet that asks for an acknowledgement was sent.
    pub(crate) const fn last_sent(&self) -> Option<Moment> {
        self.last_sent
    }

    pub(crate) const fn loss_due(&self) -> Option<Moment> {
        self.loss_due
    }

    /// What the oldest packet in flight carries.
    pub(crate) fn oldest(&self) -> Option<Content> {
        let from = index(self.flying_from.saturating_sub(self.base));
        let mut packets = self.packets.iter().skip(from);
        packets.find(|packet| packet.state == State::Flying).map(|packet| packet.content)
    }

    /// The remote has packets of `ranges`, newest first. `settle` is told of each that it had not acknowledged.
    pub(crate) fn acknowledge(
        &mut self,
        ranges: impl Iterator<Item = Range<u64>>,
        mut settle: impl FnMut(&Packet),
    ) -> Result<News, NeverSent> {
        let next = self.next();
        let mut news = News::default();
        for range in ranges {
            if range.end > next {
                return Err(NeverSent);
            }
            if range.end <= self.base {
                break;
            }
            let newest = range.end.saturating_sub(1);
            if self.newest_acknowledged.is_none_or(|before| newest > before) {
                self.newest_acknowledged = Some(newest);
                news.is_newest = true;
            }
            let from = index(range.start.saturating_sub(self.base));
            let until = index(range.end.saturating_sub(self.base));
            // The newest packet of all comes with the first range, and is the last of it.
            for (packet, number) in self.packets.range_mut(from..until).zip(range.start.max(self.base)..) {
                match std::mem::replace(&mut packet.state, State::Acknowledged) {
                    State::Unasked | State::Acknowledged => continue,
                    State::Flying => {
                        self.in_flight = self.in_flight.saturating_sub(packet.in_flight());
                        self.flying = self.flying.saturating_sub(1);
                        news.bytes = news.bytes.saturating_add(packet.in_flight());
                    }
                    State::Lost if packet.is_foreign => {}
                    State::Lost => {
                        let distance = newest_of(self.newest_acknowledged).saturating_sub(number);
                        let before = self.reordered_max.unwrap_or(REORDERED_MIN);
                        self.reordered_max = Some(before.max(distance.saturating_add(1)).min(REORDERED_MAX));
                        news.spurious = news.spurious.max(Some(packet.sent));
                        news.late = news.late.saturating_add(u64::from(!packet.content.probe));
                    }
                }
                news.any = true;
                if !packet.is_foreign {
                    news.newest_sent = news.newest_sent.max(Some(packet.sent));
                }
                settle(packet);
            }
        }
        Ok(news)
    }

    /// Finds packets that are lost: those that enough others have overtaken, or that are overdue. `lose` is told of each.
    pub(crate) fn lose(
        &mut self,
        now: Moment,
        rtt: &Rtt,
        timeout_micros: u64,
        mut lose: impl FnMut(&Packet),
    ) -> Losses {
        let mut losses = Losses::default();
        self.loss_due = None;
        let Some(newest) = self.newest_acknowledged else { return losses };
        let delay = rtt.loss_delay_micros();
        let overtaken = newest.saturating_sub(self.reordered_max.unwrap_or(REORDERED_MIN));
        let from = self.flying_from.max(self.base);
        let (mut first_lost, mut heard_since) = (None::<Moment>, false);
        let mut flying_from = None;
        let span = index(from.saturating_sub(self.base))..index(newest.saturating_sub(self.base));
        let span = span.start.min(span.end)..span.end.min(self.packets.len());
        for (packet, number) in self.packets.range_mut(span).zip(from..) {
            if packet.state != State::Flying {
                heard_since |= packet.state == State::Acknowledged && first_lost.is_some();
                continue;
            }
            let due = packet.sent.plus_micros(delay);
            if number > overtaken && now < due {
                flying_from = flying_from.or(Some(number));
                self.loss_due = Some(self.loss_due.map_or(due, |before| before.min(due)));
                continue;
            }
            packet.state = State::Lost;
            self.in_flight = self.in_flight.saturating_sub(packet.in_flight());
            self.flying = self.flying.saturating_sub(1);
            if !packet.content.probe && !packet.is_foreign {
                losses.bytes = losses.bytes.saturating_add(u64::from(packet.size));
                losses.newest_sent = Some(packet.sent);
                let first = *first_lost.get_or_insert(packet.sent);
                let silent = timeout_micros.saturating_mul(PERSISTENT_TIMEOUTS);
                losses.persistent |= !heard_since && packet.sent.micros_since(first) > silent;
            }
            lose(packet);
        }
        self.flying_from = flying_from.unwrap_or(newest).max(self.flying_from);
        self.forget(now, timeout_micros);
        losses
    }

    /// Packets take another path from now on. Those that are on their way are so no longer on the one that is used.
    pub(crate) fn leave_path(&mut self) {
        for packet in &mut self.packets {
            packet.is_foreign = true;
        }
        (self.in_flight, self.reordered_max) = (0, None);
    }

    /// Gives memory back that nothing is kept in.
    pub(crate) fn release(&mut self) {
        if self.packets.is_empty() {
            self.packets = VecDeque::new();
        }
    }

    /// The next number.
    fn next(&self) -> u64 {
        self.base.saturating_add(wide(self.packets.len()))
    }

    /// Drops what is settled. One that was lost is remembered for a while, because it may have been late.
    fn forget(&mut self, now: Moment, timeout_micros: u64) {
        while let Some(packet) = self.packets.front() {
            let late = packet.sent.plus_micros(timeout_micros.saturating_mul(PERSISTENT_TIMEOUTS));
            match packet.state {
                State::Unasked | State::Acknowledged => {}
                State::Lost if now >= late => {}
                State::Lost | State::Flying => return,
            }
            self.packets.pop_front();
            self.base = self.base.saturating_add(1);
        }
    }
}

fn newest_of(acknowledged: Option<u64>) -> u64 {
    acknowledged.unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use super::super::Delivery;
    use super::*;

    const TIMEOUT: u64 = 5_000;

    fn at(micros: u64) -> Moment {
        Moment::from_micros(micros)
    }

    fn rtt() -> Rtt {
        let mut rtt = Rtt::new();
        rtt.update(1_000, 0);
        rtt
    }

    fn sent(count: u64, spacing: u64) -> Sent {
        let (mut sent, mut delivery) = (Sent::default(), Delivery::new());
        for number in 0..count {
            let content = Content { offset: number * 100, length: 100, probe: false };
            let stamp = delivery.on_sent(at(number * spacing), 100, sent.in_flight());
            sent.push(at(number * spacing), 100, Some(content), stamp);
        }
        sent
    }

    fn acknowledge(sent: &mut Sent, ranges: &[Range<u64>]) -> (News, Vec<u64>) {
        let mut settled = Vec::new();
        let settle = |packet: &Packet| settled.push(packet.content.offset / 100);
        let news = sent.acknowledge(ranges.iter().cloned(), settle).unwrap();
        (news, settled)
    }

    fn lose(sent: &mut Sent, now: u64) -> (Losses, Vec<u64>) {
        let mut lost = Vec::new();
        let losses = sent.lose(at(now), &rtt(), TIMEOUT, |packet| lost.push(packet.content.offset / 100));
        (losses, lost)
    }

    #[test]
    fn what_three_others_overtook_is_lost_and_what_is_overdue() {
        let mut sent = sent(10, 10);
        let (news, settled) = acknowledge(&mut sent, &[4..6]);
        assert_eq!(
            (settled, news.bytes, news.newest_sent, news.is_newest),
            (vec![4, 5], 200, Some(at(50)), true)
        );
        let (losses, lost) = lose(&mut sent, 60);
        assert_eq!((lost, losses.bytes, losses.newest_sent), (vec![0, 1, 2], 300, Some(at(20))));
        assert_eq!((sent.in_flight(), sent.loss_due()), (500, Some(at(30 + 1_125))));
        assert!(lose(&mut sent, 1_154).1.is_empty());
        assert_eq!(lose(&mut sent, 1_155).1, [3]);
        assert_eq!(sent.loss_due(), None);
        assert_eq!(sent.oldest().map(|content| content.offset), Some(600));
        assert_eq!(acknowledge(&mut sent, &[4..6]).0, News::default(), "nothing new");
        assert_eq!(acknowledge(&mut sent, &[6..10]).1, [6, 7, 8, 9]);
        assert!(sent.is_empty() && sent.in_flight() == 0);
    }

    #[test]
    fn what_was_late_is_not_lost_and_more_may_overtake_from_then_on() {
        let mut sent = sent(20, 10);
        acknowledge(&mut sent, &[9..10]);
        assert_eq!(lose(&mut sent, 100).1.len(), 7);
        let (news, settled) = acknowledge(&mut sent, &[0..10]);
        assert_eq!((news.spurious, news.late), (Some(at(60)), 7));
        assert_eq!(news.bytes, 200, "7 and 8 were still flying");
        assert_eq!(settled, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        acknowledge(&mut sent, &[19..20]);
        assert!(lose(&mut sent, 200).1.is_empty(), "nine may overtake now");
    }

    #[test]
    fn what_took_another_path_says_nothing_of_this_one() {
        let mut sent = sent(10, 10);
        sent.leave_path();
        assert_eq!((sent.in_flight(), sent.is_empty()), (0, false));
        let stamp = Delivery::new().on_sent(at(200), 100, 0);
        let content = Content { offset: 1_000, length: 100, probe: false };
        sent.push(at(200), 100, Some(content), stamp);
        let (news, settled) = acknowledge(&mut sent, &[8..9]);
        assert_eq!((settled, news.bytes, news.newest_sent, news.any), (vec![8], 0, None, true));
        let (losses, lost) = lose(&mut sent, 210);
        assert_eq!((lost, losses), (vec![0, 1, 2, 3, 4, 5], Losses::default()));
        assert_eq!(acknowledge(&mut sent, &[0..11]).0.spurious, None, "whatever it was thought to be");
        assert!(sent.is_empty() && sent.in_flight() == 0);
    }

    #[test]
    fn only_what_was_sent_is_acknowledged() {
        let mut sent = sent(3, 10);
        assert_eq!(sent.acknowledge(std::iter::once(2..4), |_| {}), Err(NeverSent));
        assert_eq!(Sent::default().acknowledge(std::iter::once(0..1), |_| {}), Err(NeverSent));
    }

    #[test]
    fn a_long_silence_is_more_than_congestion() {
        let mut silent = sent(10, 2_000);
        acknowledge(&mut silent, &[9..10]);
        assert!(lose(&mut silent, 19_000).0.persistent);
        let mut broken = sent(10, 2_000);
        acknowledge(&mut broken, &[4..5]);
        acknowledge(&mut broken, &[9..10]);
        assert!(!lose(&mut broken, 19_000).0.persistent, "something came through");
    }

    /// RFC 9002 §7.6.2: it counts what was acknowledged in between, not what asks for nothing.
    #[test]
    fn packets_that_ask_for_nothing_do_not_break_a_silence() {
        for heard in [false, true] {
            let (mut sent, mut delivery) = (Sent::default(), Delivery::new());
            for number in 0..20 {
                let content = (number % 2 == 0).then(Content::default);
                let stamp = delivery.on_sent(at(number * 1_000), 100, sent.in_flight());
                sent.push(at(number * 1_000), 100, content, stamp);
            }
            if heard {
                acknowledge(&mut sent, &[18..19, 5..6]);
            } else {
                acknowledge(&mut sent, &[18..19]);
            }
            // From 6 ms to 16 ms is less than three timeouts, from 0 ms to 16 ms is more.
            assert_eq!(lose(&mut sent, 19_000).0.persistent, !heard);
        }
    }

    #[test]
    fn what_asks_for_nothing_is_not_in_flight() {
        let mut sent = sent(2, 10);
        let stamp = Delivery::new().on_sent(at(30), 40, 0);
        sent.push(at(30), 40, None, stamp);
        assert_eq!((sent.in_flight(), sent.last_sent()), (200, Some(at(10))));
        acknowledge(&mut sent, &[0..3]);
        lose(&mut sent, 40);
        assert!(sent.packets.is_empty() && sent.base == 3);
    }
}
