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
    fn new(congestion: Congestion) -> Self {
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
        let mut numbers = Ranges::new();
        numbers.insert(0..self.sent - but);
        let mut space = [0; 64];
        let mut writer = Writer::new(&mut space);
        writer.acknowledge(numbers.iter(), 0, u64::MAX);
        let Ok(Some((Part::Acknowledge(told), _))) = next(&space) else { panic!("{space:?}") };
        self.recoverer.on_acknowledged(&told, now, &mut self.outgoing).unwrap();
    }
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut flow = Flow::new(Congestion::Cubic);
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
    for congestion in [Congestion::Model, Congestion::Cubic] {
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
