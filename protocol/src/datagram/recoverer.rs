//! What is on the path: how much may be, what came of it, and when something has to be said again.

use sealane_types::CongestionChoice;

use super::figures::{PathCounts, PathFigures, RoundTrip};
use super::outgoing::Outgoing;
use super::part::Acknowledgement;
use crate::Moment;
use crate::limits::{ACKNOWLEDGE_DELAY_MICROS, PROBE_MICROS_MAX, SENT_PACKETS_MAX};
use crate::recovery::{
    Acknowledged, Auto, BASE_BYTES, Bbr, Content, Controller, Cubic, Delivery, Lost, Mtu, NeverSent, News,
    Pacer, Rtt, Sent,
};

/// Packets that go out when nothing is heard (RFC 9002 §6.2.4).
const PROBES: u8 = 2;
/// Timeouts in a row after which packets may be too large for the path.
const TIMEOUTS_SUSPICIOUS: u32 = 2;
/// A window is paced over a little less than a round trip (RFC 9002 §7.7): by five quarters.
const PACED_MICROS_PER_SECOND: u64 = 1_250_000;

/// How the carrier is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    pub congestion: CongestionChoice,
    /// UDP payload that the interface carries: larger datagrams are not tried.
    pub datagram_bytes_max: u16,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Recoverer {
    tuning: Tuning,
    sent: Sent,
    rtt: Rtt,
    delivery: Delivery,
    controller: Box<dyn Controller>,
    pacer: Pacer,
    mtu: Mtu,
    counts: PathCounts,
    /// Timeouts in a row without an answer.
    timeouts: u32,
    /// Packets that may leave whatever the window says.
    probes: u8,
    /// Nothing but what there was to say held this side back.
    limited: bool,
}

impl Recoverer {
    pub(super) fn new(tuning: Tuning) -> Self {
        let datagram = u64::from(BASE_BYTES);
        Self {
            tuning,
            sent: Sent::default(),
            rtt: Rtt::new(),
            delivery: Delivery::new(),
            controller: controller(tuning.congestion, datagram),
            pacer: Pacer::new(datagram),
            mtu: Mtu::new(tuning.datagram_bytes_max),
            counts: PathCounts::default(),
            timeouts: 0,
            probes: 0,
            limited: true,
        }
    }

    /// The path is another one: nothing that was known of the old one holds (RFC 9000 §9.4).
    pub(super) fn restart(&mut self) {
        let datagram = u64::from(BASE_BYTES);
        (self.rtt, self.delivery) = (Rtt::new(), Delivery::new());
        self.controller = controller(self.tuning.congestion, datagram);
        self.pacer = Pacer::new(datagram);
        self.mtu = Mtu::new(self.tuning.datagram_bytes_max);
        self.timeouts = 0;
        self.counts.moves = self.counts.moves.saturating_add(1);
        self.sent.leave_path();
    }

    /// What decides from now on, beginning as on a path of which nothing is known.
    pub(super) fn set_congestion(&mut self, congestion: CongestionChoice) {
        if congestion != self.tuning.congestion {
            self.tuning.congestion = congestion;
            self.controller = controller(congestion, u64::from(self.mtu.current()));
        }
    }

    /// Bytes of a full datagram.
    pub(super) fn datagram_bytes(&self) -> usize {
        usize::from(self.mtu.current())
    }

    pub(super) fn figures(&self) -> PathFigures {
        let rtt = &self.rtt;
        let round_trip = rtt
            .has_sample()
            .then(|| RoundTrip { smoothed_micros: rtt.smoothed_micros(), min_micros: rtt.min_micros() });
        PathFigures {
            counts: self.counts,
            round_trip,
            datagram_bytes: self.mtu.current(),
            window_bytes: self.controller.window(),
            congestion: self.controller.name(),
        }
    }

    /// The first round trip, as the handshake saw it.
    pub(super) fn on_handshake_trip(&mut self, micros: u64) {
        if !self.rtt.has_sample() {
            self.rtt.update(micros, 0);
        }
    }

    /// Whether a datagram of so many bytes may leave now.
    pub(super) fn may_send(&mut self, now: Moment, bytes: u64) -> bool {
        self.probes > 0 || (self.has_window(bytes) && self.pacer.room(now) >= bytes)
    }

    fn has_window(&self, bytes: u64) -> bool {
        self.sent.in_flight().saturating_add(bytes) <= self.controller.window()
    }

    /// Whether something has to leave although there is nothing to say.
    pub(super) const fn wants_probe(&self) -> bool {
        self.probes > 0
    }

    /// When as much may leave as may not now.
    pub(super) fn next_send(&self, now: Moment, bytes: u64) -> Option<Moment> {
        self.has_window(bytes).then(|| self.pacer.next(now, bytes))
    }

    /// The size of a datagram that tries whether the path carries it, when it is time for one.
    pub(super) fn mtu_probe(&mut self, now: Moment) -> Option<usize> {
        if !self.rtt.has_sample() || !self.has_window(u64::from(self.tuning.datagram_bytes_max)) {
            return None;
        }
        self.mtu.probe(now).map(usize::from)
    }

    /// A datagram leaves. Without content it asks for no acknowledgement.
    pub(super) fn on_sent(&mut self, now: Moment, bytes: usize, content: Option<Content>) {
        let size = u16::try_from(bytes).unwrap_or(u16::MAX);
        let stamp = self.delivery.on_sent(now, u64::from(size), self.sent.in_flight());
        self.sent.push(now, size, content, stamp);
        if let Some(content) = content {
            self.counts.sent = self.counts.sent.saturating_add(u64::from(!content.probe));
            self.controller.on_sent(now, u64::from(size), self.sent.in_flight());
            self.pacer.spent(u64::from(size));
            self.probes = self.probes.saturating_sub(1);
        }
    }

    /// Nothing more leaves now; whether because all was said.
    pub(super) fn on_drained(&mut self, said_all: bool) {
        self.limited = said_all && self.has_window(u64::from(self.mtu.current()));
        if self.limited {
            self.delivery.on_limited(self.sent.in_flight());
        }
    }

    /// The remote says what it has.
    pub(super) fn on_acknowledged(
        &mut self,
        told: &Acknowledgement<'_>,
        now: Moment,
        outgoing: &mut Outgoing,
    ) -> Result<(), NeverSent> {
        let Self { sent, delivery, mtu, .. } = self;
        let before = mtu.current();
        let news = sent.acknowledge(told.ranges(), |packet| {
            outgoing.on_acknowledged(packet.content.bytes());
            if packet.is_foreign {
                return;
            }
            delivery.on_acknowledged(now, &packet.stamp, packet.sent, u64::from(packet.size));
            if packet.content.probe {
                mtu.on_probe_acknowledged(packet.size);
            } else {
                mtu.on_acknowledged(packet.size);
            }
        })?;
        if !news.any {
            return Ok(());
        }
        (self.timeouts, self.probes) = (0, 0);
        self.counts.late = self.counts.late.saturating_add(news.late);
        if let Some(newest_sent) = news.newest_sent {
            self.learn(now, newest_sent, &news, told.delay_micros);
        }
        self.find_losses(now, outgoing);
        if self.mtu.current() != before {
            self.resized();
        }
        self.pace();
        Ok(())
    }

    /// What came over this path says something of it.
    fn learn(&mut self, now: Moment, newest_sent: Moment, news: &News, delay_micros: u32) {
        if news.is_newest {
            let delay = u64::from(delay_micros).min(ACKNOWLEDGE_DELAY_MICROS);
            self.rtt.update(now.micros_since(newest_sent), delay);
        }
        if let Some(sent) = news.spurious {
            self.controller.on_spurious_loss(sent);
        }
        let delivery = self.delivery.take_sample(now, &self.rtt);
        let (bytes, in_flight) = (news.bytes, self.sent.in_flight());
        // Who is held up elsewhere, by its processor or the carrier, does not use its window either (RFC 9002 §7.8).
        let is_used = in_flight.saturating_add(bytes).saturating_mul(2) >= self.controller.window();
        let limited = self.limited || !is_used;
        let acknowledged = Acknowledged { now, bytes, newest_sent, in_flight, limited, delivery };
        self.controller.on_acknowledged(&acknowledged, &self.rtt);
    }

    /// When [`Self::on_timeout`] is due. `starved`: the remote has to be asked for room.
    pub(super) fn timeout(&self, starved: bool) -> Option<Moment> {
        if let Some(due) = self.sent.loss_due() {
            return Some(due);
        }
        if self.sent.is_empty() && !starved {
            return None;
        }
        self.sent.last_sent().map(|sent| sent.plus_micros(self.wait_micros()))
    }

    /// How long an answer may take, and twice as long with each that did not come.
    pub(super) fn wait_micros(&self) -> u64 {
        let timeout = self.rtt.probe_timeout_micros(ACKNOWLEDGE_DELAY_MICROS);
        timeout.saturating_mul(1_u64.checked_shl(self.timeouts).unwrap_or(u64::MAX)).min(PROBE_MICROS_MAX)
    }

    pub(super) fn on_timeout(&mut self, now: Moment, starved: bool, outgoing: &mut Outgoing) {
        if self.timeout(starved).is_none_or(|due| now < due) {
            return;
        }
        if self.sent.loss_due().is_some() {
            self.find_losses(now, outgoing);
            self.pace();
            return;
        }
        self.timeouts = self.timeouts.saturating_add(1);
        self.probes = PROBES;
        if let Some(oldest) = self.sent.oldest() {
            outgoing.on_lost(&oldest.bytes());
        }
        if self.timeouts >= TIMEOUTS_SUSPICIOUS && self.mtu.on_lost(self.mtu.current()) {
            self.resized();
        }
    }

    /// Whether so many packets wait for a word of the remote that no more of them are begun which ask for none.
    pub(super) fn is_crowded(&self) -> bool {
        self.sent.len() >= SENT_PACKETS_MAX
    }

    /// Gives memory back that an idle path has no use for.
    pub(super) fn release(&mut self) {
        self.sent.release();
    }

    fn find_losses(&mut self, now: Moment, outgoing: &mut Outgoing) {
        let timeout = self.rtt.probe_timeout_micros(ACKNOWLEDGE_DELAY_MICROS);
        let Self { sent, mtu, rtt, counts, .. } = self;
        let mut largest = 0;
        let losses = sent.lose(now, rtt, timeout, |packet| {
            outgoing.on_lost(&packet.content.bytes());
            if packet.is_foreign {
                return;
            }
            if packet.content.probe {
                mtu.on_probe_lost(packet.size);
            } else {
                largest = largest.max(packet.size);
                counts.lost = counts.lost.saturating_add(1);
            }
        });
        if self.mtu.on_lost(largest) {
            self.resized();
        }
        let Some(newest_sent) = losses.newest_sent else { return };
        if losses.persistent {
            // What carries again may be another path (RFC 9002 §5.2).
            self.rtt.restart_min();
        }
        let (bytes, persistent, in_flight) = (losses.bytes, losses.persistent, self.sent.in_flight());
        self.controller.on_lost(&Lost { now, bytes, newest_sent, in_flight, persistent }, &self.rtt);
    }

    fn resized(&mut self) {
        let bytes = u64::from(self.mtu.current());
        self.controller.on_datagram_bytes(bytes);
        self.pacer.on_datagram_bytes(bytes);
    }

    fn pace(&mut self) {
        let derived = || {
            let paced = self.controller.window().saturating_mul(PACED_MICROS_PER_SECOND);
            paced.checked_div(self.rtt.smoothed_micros())
        };
        if let Some(rate) = self.controller.rate().or_else(derived) {
            self.pacer.on_rate(rate);
        }
    }
}

fn controller(congestion: CongestionChoice, datagram_bytes: u64) -> Box<dyn Controller> {
    match congestion {
        CongestionChoice::Auto => Box::new(Auto::new(datagram_bytes)),
        CongestionChoice::Cubic => Box::new(Cubic::new(datagram_bytes)),
        CongestionChoice::Bbr => Box::new(Bbr::new(datagram_bytes)),
    }
}

#[cfg(test)]
mod tests;
