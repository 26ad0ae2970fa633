use std::ops::Range;

use sealane_types::CongestionControl;

use super::super::part::{Part, Writer, next};
use super::*;
use crate::recovery::Ranges;

const BYTES: usize = 1_200;

fn at(micros: u64) -> Moment {
    Moment::from_micros(micros)
}

/// A sender of datagrams, and how many it has sent.
struct Flow {
    recoverer: Recoverer,
    outgoing: Outgoing,
    sent: u64,
}

impl Flow {
    fn new(congestion: CongestionChoice) -> Self {
        let tuning = Tuning { congestion, datagram_bytes_max: 1_200 };
        Self { recoverer: Recoverer::new(tuning), outgoing: Outgoing::default(), sent: 0 }
    }

    fn send(&mut self, now: Moment, datagrams: u64) {
        for _ in 0..datagrams {
            self.recoverer.on_sent(now, BYTES, Some(Content::default()));
            self.sent += 1;
        }
        self.recoverer.on_drained(false);
    }

    /// All that was sent, but for the newest, arrived.
    fn hear(&mut self, now: Moment, but: u64) {
        self.hear_of(now, 0..self.sent - but);
    }

    /// These arrived.
    fn hear_of(&mut self, now: Moment, these: Range<u64>) {
        let mut numbers = Ranges::new();
        numbers.insert(these);
        let mut space = [0; 64];
        let mut writer = Writer::new(&mut space);
        writer.acknowledge(numbers.iter(), 0, u64::MAX);
        let Ok(Some((Part::Acknowledge(told), _))) = next(&space) else { panic!("{space:?}") };
        self.recoverer.on_acknowledged(&told, now, &mut self.outgoing).unwrap();
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut flow = Flow::new(CongestionChoice::Cubic);
    for round in 0..100 {
        flow.send(at(round * 10_000), 10);
        flow.hear(at(round * 10_000 + 5_000), 0);
    }
    let window = flow.recoverer.controller.window();
    assert!(window <= 2 * 10 * BYTES as u64 + BYTES as u64 * 10, "{window} bytes for ten datagrams");
    assert!(window >= 2 * 10 * BYTES as u64, "{window}: it was used");
}

/// What is on its way when the remote moves arrives from another path, or late, or never.
#[test]
fn what_took_another_path_teaches_nothing_of_this_one() {
    for congestion in [CongestionChoice::Bbr, CongestionChoice::Cubic] {
        let mut flow = Flow::new(congestion);
        for round in 0..6 {
            flow.send(at(round * 100_000), 10);
            flow.hear(at(round * 100_000 + 50_000), 0);
        }
        flow.send(at(600_000), 20);
        flow.recoverer.restart();
        let fresh = Flow::new(congestion).recoverer;
        flow.hear(at(700_000), 10);
        let now = &flow.recoverer;
        assert_eq!((now.rtt, now.controller.window()), (fresh.rtt, fresh.controller.window()));
        assert_eq!((now.controller.rate(), now.sent.in_flight()), (None, 0));
        flow.send(at(700_000), 10);
        flow.hear(at(701_000), 0);
        assert_eq!(flow.recoverer.rtt.min_micros(), 1_000);
        let rate = flow.recoverer.controller.rate();
        assert!(
            rate.is_none_or(|rate| rate > 10_000_000),
            "{rate:?} bytes a second, of 12,000 in a millisecond"
        );
    }
}

#[test]
fn what_is_lost_or_late_or_tries_a_size_is_told_apart() {
    let mut flow = Flow::new(CongestionChoice::Cubic);
    flow.send(at(0), 10);
    let figures = flow.recoverer.figures();
    assert_eq!(figures.round_trip, None, "nothing was heard");
    assert_eq!((figures.datagram_bytes, figures.counts.sent), (1_200, 10));
    assert_eq!(figures.window_bytes, flow.recoverer.controller.window());
    // All but the first four, then the first two.
    flow.hear_of(at(20_000), 4..10);
    let measured = Some(RoundTrip { smoothed_micros: 20_000, min_micros: 20_000 });
    assert_eq!(flow.recoverer.figures().round_trip, measured);
    assert_eq!(flow.recoverer.figures().counts, PathCounts { sent: 10, lost: 4, late: 0, moves: 0 });
    flow.hear_of(at(21_000), 0..2);
    assert_eq!(flow.recoverer.figures().counts, PathCounts { sent: 10, lost: 4, late: 2, moves: 0 });
    flow.recoverer.on_sent(at(22_000), 1_400, Some(Content { probe: true, ..Content::default() }));
    flow.recoverer.on_sent(at(22_000), 50, None);
    flow.sent += 2;
    flow.send(at(22_000), 4);
    flow.hear_of(at(42_000), 12..16);
    assert_eq!(flow.recoverer.figures().counts, PathCounts { sent: 14, lost: 4, late: 2, moves: 0 });
    flow.send(at(50_000), 4);
    flow.recoverer.restart();
    flow.send(at(60_000), 4);
    flow.hear_of(at(80_000), 20..24);
    assert_eq!(flow.recoverer.figures().counts, PathCounts { sent: 22, lost: 4, late: 2, moves: 1 });
}

#[test]
fn another_congestion_control_begins_anew_and_stays_on_another_path() {
    let mut flow = Flow::new(CongestionChoice::Cubic);
    flow.send(at(0), 10);
    flow.recoverer.set_congestion(CongestionChoice::Bbr);
    assert_eq!(flow.recoverer.figures().congestion, CongestionControl::Bbr);
    // What was on its way under the one before is acknowledged and lost as ever.
    flow.hear_of(at(5_000), 5..10);
    assert_eq!(flow.recoverer.figures().counts.lost, 5);
    let window = flow.recoverer.controller.window();
    flow.recoverer.set_congestion(CongestionChoice::Bbr);
    assert_eq!(flow.recoverer.controller.window(), window, "it is the same");
    flow.recoverer.restart();
    assert_eq!(flow.recoverer.figures().congestion, CongestionControl::Bbr);
}
