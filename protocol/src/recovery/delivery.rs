//! How fast a path delivers (draft-cheng-iccrg-delivery-rate-estimation).
//!
//! Every datagram remembers how much had been delivered when it left. When it is acknowledged, what was delivered since,
//! divided by the time since, is a lower bound of what the path carries. The time is the longer of that between the
//! datagrams' departures and that between their acknowledgements: acknowledgements that come in a heap would otherwise
//! make the path look faster than it is.
//!
//! For the same reason a sender takes in all acknowledgements that have come before it sends again: a datagram that
//! leaves between two of one heap would count the second as delivered in its own time.

use super::rtt::Rtt;
use crate::Moment;

/// What the sender keeps with every datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    delivered: u64,
    delivered_at: Moment,
    first_sent: Moment,
    /// Bytes, this datagram's too, that were on the way.
    in_flight: u32,
    limited: bool,
}

/// How the path delivered what one acknowledgement acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateSample {
    pub(crate) bytes_per_second: u64,
    /// Bytes delivered ever.
    pub(crate) delivered: u64,
    /// Those of them that had been delivered when the newest acknowledged datagram left.
    pub(crate) prior_delivered: u64,
    /// Bytes that were on the way when it had left.
    pub(crate) prior_in_flight: u64,
    /// From its departure to its acknowledgement.
    pub(crate) rtt_micros: u64,
    /// The application did not fill the path then: it may carry more.
    pub(crate) limited: bool,
}

/// The estimator of one path.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    delivered: u64,
    delivered_at: Moment,
    /// When the first datagram of what is now being measured left.
    first_sent: Moment,
    /// Samples are those of a limited sender until so much is delivered.
    limited_until: Option<u64>,
    newest: Option<Newest>,
}

/// The newest datagram that the current acknowledgement names.
#[derive(Debug, Clone, Copy)]
struct Newest {
    stamp: Stamp,
    sent: Moment,
}

impl Delivery {
    pub(crate) const fn new() -> Self {
        Self {
            delivered: 0,
            delivered_at: Moment::from_micros(0),
            first_sent: Moment::from_micros(0),
            limited_until: None,
            newest: None,
        }
    }

    /// A datagram that asks for an acknowledgement leaves.
    pub(crate) fn on_sent(&mut self, now: Moment, bytes: u64, in_flight_before: u64) -> Stamp {
        if in_flight_before == 0 {
            // The time in which nothing was on the way says nothing about the path.
            (self.first_sent, self.delivered_at) = (now, now);
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            in_flight: u32::try_from(in_flight_before.saturating_add(bytes)).unwrap_or(u32::MAX),
            limited: self.limited_until.is_some(),
        }
    }

    /// A datagram of `bytes` that left at `sent` with `stamp` was acknowledged.
    pub(crate) fn on_acknowledged(&mut self, now: Moment, stamp: &Stamp, sent: Moment, bytes: u64) {
        self.delivered = self.delivered.saturating_add(bytes);
        self.delivered_at = now;
        let order = (stamp.delivered, sent);
        if self.newest.is_none_or(|newest| order >= (newest.stamp.delivered, newest.sent)) {
            self.newest = Some(Newest { stamp: *stamp, sent });
        }
    }

    /// After all that one acknowledgement names: what it says of the path. None: nothing.
    pub(crate) fn take_sample(&mut self, now: Moment, rtt: &Rtt) -> Option<RateSample> {
        let Newest { stamp, sent } = self.newest.take()?;
        if self.limited_until.is_some_and(|until| self.delivered > until) {
            self.limited_until = None;
        }
        let sending_micros = sent.micros_since(stamp.first_sent);
        let acknowledging_micros = now.micros_since(stamp.delivered_at);
        self.first_sent = sent;
        let micros = sending_micros.max(acknowledging_micros);
        if micros == 0 || (rtt.has_sample() && micros < rtt.min_micros()) {
            // No path is faster than its shortest round trip: such a sample would overstate it.
            return None;
        }
        let bytes = u128::from(self.delivered.saturating_sub(stamp.delivered));
        let rate = bytes.saturating_mul(1_000_000).checked_div(u128::from(micros))?;
        Some(RateSample {
            bytes_per_second: u64::try_from(rate).unwrap_or(u64::MAX),
            delivered: self.delivered,
            prior_delivered: stamp.delivered,
            prior_in_flight: stamp.in_flight.into(),
            rtt_micros: now.micros_since(sent),
            limited: stamp.limited,
        })
    }

    /// The sender has nothing to send, or may not for the peer's sake, while the controller would let it: what is on the
    /// way now, `in_flight`, will not show what the path can carry.
    pub(crate) fn on_limited(&mut self, in_flight: u64) {
        self.limited_until = Some(self.delivered.saturating_add(in_flight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Moment {
        Moment::from_micros(micros)
    }

    fn path(micros: u64) -> Rtt {
        let mut rtt = Rtt::new();
        rtt.update(micros, 0);
        rtt
    }

    #[test]
    fn a_stamp_is_small_enough_to_keep_with_every_datagram() {
        assert!(size_of::<Stamp>() <= 32);
    }

    /// One datagram of 1,000 bytes per millisecond over a path of 10 ms.
    #[test]
    fn an_even_flow_is_measured_exactly() {
        let (mut delivery, rtt) = (Delivery::new(), path(10_000));
        let mut sent = Vec::new();
        let mut last = None;
        for millis in 1..100_u64 {
            let now = at(millis * 1_000);
            if millis > 10 {
                let departed = at((millis - 10) * 1_000);
                let stamp = sent[(millis - 11) as usize];
                delivery.on_acknowledged(now, &stamp, departed, 1_000);
                last = delivery.take_sample(now, &rtt);
            }
            sent.push(delivery.on_sent(now, 1_000, millis.min(10) * 1_000 - 1_000));
        }
        let last = last.unwrap();
        assert_eq!((last.bytes_per_second, last.rtt_micros, last.limited), (1_000_000, 10_000, false));
        assert_eq!(last.delivered - last.prior_delivered, 10_000);
        assert_eq!(last.prior_in_flight, 10_000);
    }

    #[test]
    fn acknowledgements_in_a_heap_do_not_make_the_path_faster() {
        let (mut delivery, rtt) = (Delivery::new(), path(10_000));
        let stamps: Vec<_> = (0..20).map(|n| delivery.on_sent(at(n * 1_000), 1_000, n * 1_000)).collect();
        for (n, stamp) in stamps.iter().enumerate() {
            delivery.on_acknowledged(at(30_000), stamp, at(n as u64 * 1_000), 1_000);
        }
        let sample = delivery.take_sample(at(30_000), &rtt).unwrap();
        assert_eq!(sample.bytes_per_second, 20_000 * 1_000_000 / 30_000);
        assert_eq!(delivery.take_sample(at(30_000), &rtt), None, "once per acknowledgement");
    }

    #[test]
    fn a_limited_sender_is_told_apart_until_its_last_datagram_arrived() {
        let (mut delivery, rtt) = (Delivery::new(), path(10));
        let first = delivery.on_sent(at(0), 1_000, 0);
        delivery.on_limited(1_000);
        let second = delivery.on_sent(at(5), 1_000, 1_000);
        delivery.on_acknowledged(at(10), &first, at(0), 1_000);
        assert!(!delivery.take_sample(at(10), &rtt).unwrap().limited);
        delivery.on_acknowledged(at(15), &second, at(5), 1_000);
        assert!(delivery.take_sample(at(15), &rtt).unwrap().limited);
        assert!(!delivery.on_sent(at(20), 1_000, 0).limited);
    }

    #[test]
    fn idle_time_does_not_count() {
        let (mut delivery, rtt) = (Delivery::new(), path(1_000));
        let stamp = delivery.on_sent(at(0), 1_000, 0);
        delivery.on_acknowledged(at(1_000), &stamp, at(0), 1_000);
        delivery.take_sample(at(1_000), &rtt).unwrap();
        let stamp = delivery.on_sent(at(5_000_000), 1_000, 0);
        delivery.on_acknowledged(at(5_001_000), &stamp, at(5_000_000), 1_000);
        assert_eq!(delivery.take_sample(at(5_001_000), &rtt).unwrap().bytes_per_second, 1_000_000);
    }
}
