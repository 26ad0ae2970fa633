//! One connection after the other between two participants, to whom things happen; and what holds whatever it was.

use sealane_protocol::connection::ClosedBy;
use sealane_protocol::datagram::Tuning;
use sealane_support::world::Counter;
use sealane_types::{CongestionChoice, Reason};

use super::crossing::{Crossing, Flow, address_of_initiator};
use super::happening::{End, Happening, Weather};
use super::link::Link;
use super::node::NodeId;
use super::steps::Steps;

const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000_000;
/// 80 Mbit/s, and a queue for 50 ms of it.
const RATE: u64 = 10_000_000;
const QUEUE_BYTES: u64 = 500_000;
/// Until both sides know that a connection is over: silence ends it.
const SILENT_MICROS: u64 = 25 * SECOND;
/// Until everything has arrived when nothing is wrong any more.
const HEALED_MICROS: u64 = 60 * SECOND;

/// See the module's documentation.
pub struct Trial {
    crossing: Crossing,
    flow: Flow,
    random: Counter,
    moves: u8,
}

impl Trial {
    #[must_use]
    pub fn new(seed: u64, congestion: CongestionChoice) -> Self {
        let link = || Link::new(Steps::always(RATE), QUEUE_BYTES);
        let mut crossing = Crossing::new(seed, link(), link());
        let tuning = Tuning { congestion, datagram_bytes_max: 1_472 };
        let flow = crossing.add(tuning, |path| Weather::FAIR.come_over(path));
        crossing.network.act(flow.responder, |speaker, _| speaker.takes = false);
        Self { crossing, flow, random: Counter(seed), moves: 0 }
    }

    /// Lets one thing happen, and holds what must hold. What is taken is compared as it is taken.
    ///
    /// # Panics
    /// When it does not.
    pub fn apply(&mut self, happening: &Happening) {
        let Self { crossing, flow, random, .. } = self;
        let flow = *flow;
        match happening {
            Happening::Push(lengths) => {
                let lengths: Vec<_> = lengths.iter().map(|length| *length as usize).collect();
                crossing.push(flow, &lengths);
            }
            Happening::Take(count) => {
                crossing.network.act(flow.responder, |speaker, _| {
                    (0..*count).all(|_| speaker.take());
                });
            }
            Happening::Pass { millis } => crossing.network.run(u64::from(*millis) * MILLI),
            Happening::Weather(weather) => crossing.change(flow, |path| weather.come_over(path)),
            Happening::Silence { millis } => {
                let now = crossing.network.now();
                let until = now.plus_micros(u64::from(*millis) * MILLI);
                crossing.change(flow, |path| path.blackholes.push(now..until));
            }
            Happening::Move => self.relocate(),
            Happening::Reattest(end) => {
                let mut random = Counter(random.draw());
                crossing.network.act(node(flow, *end), |speaker, now| {
                    let connection = &mut speaker.party.side.connection;
                    // One that is not established, or was just attested, refuses.
                    let _ = connection.reattest(now, &mut random);
                });
            }
            Happening::Close(end) => {
                crossing.network.act(node(flow, *end), |speaker, _| {
                    speaker.party.side.connection.close(Reason::Draining);
                });
            }
            Happening::Forget(end) => {
                crossing.network.act(node(flow, *end), |speaker, _| speaker.forget());
            }
            Happening::Dial => self.dial(),
        }
        self.hold();
    }

    /// Nothing is wrong any more: everything that was pushed arrives, over one more connection if need be.
    ///
    /// # Panics
    /// When something is missing.
    pub fn heal(&mut self) {
        let now = self.crossing.network.now();
        self.crossing.change(self.flow, |path| {
            Weather::FAIR.come_over(path);
            path.blackholes.iter_mut().for_each(|blackhole| blackhole.end = blackhole.end.min(now));
        });
        self.crossing.network.run(SILENT_MICROS);
        self.hold();
        self.dial();
        self.crossing.network.act(self.flow.responder, |speaker, _| speaker.takes = true);
        let until = self.crossing.network.now().plus_micros(HEALED_MICROS);
        let all = self.crossing.is_all_taken(self.flow, until);
        let Self { crossing, flow, .. } = self;
        let [pushed, taken] =
            [crossing.network.node(flow.initiator).pushed.len(), crossing.network.node(flow.responder).taken];
        assert!(all, "{taken} of {pushed}: {:?} {:?}", crossing.closed(*flow), crossing.fails(*flow));
        crossing.network.run(SECOND);
        assert_eq!(crossing.network.node(flow.initiator).unsettled(), 0, "its sender does not know");
        self.hold();
    }

    fn relocate(&mut self) {
        self.moves = self.moves.wrapping_add(1);
        let now = self.crossing.network.now();
        self.crossing.network.rebind(self.flow.initiator, now, address_of_initiator(0, self.moves));
        self.crossing.network.run(0);
    }

    fn dial(&mut self) {
        if self.crossing.closed(self.flow).iter().any(Option::is_some) {
            self.crossing.redial(self.flow);
        }
    }

    fn hold(&self) {
        let closed = self.crossing.closed(self.flow);
        let fails = self.crossing.fails(self.flow);
        for (end, other) in [(End::Initiator, End::Responder), (End::Responder, End::Initiator)] {
            let speaker = self.crossing.network.node(node(self.flow, end));
            let established = speaker.party.side.established();
            let peer = self.crossing.network.node(node(self.flow, other)).party.side.established();
            if let (Some(own), Some(peer)) = (established, peer) {
                assert_eq!(own, peer, "two sides of one connection");
            }
            if established.is_some() {
                let fail = &fails[end as usize];
                assert_eq!(*fail, None, "{end:?} found fault with what an honest side said");
            }
            let by = closed[end as usize];
            // On a path that is bad enough, a side has not proved itself anew in time.
            let known = matches!(
                by,
                None | Some(
                    (ClosedBy::Cut, Reason::LinkLost) | (_, Reason::Draining | Reason::HandshakeTimeout)
                )
            );
            assert!(known || established.is_none(), "{end:?} ended by {by:?}");
        }
    }
}

const fn node(flow: Flow, end: End) -> NodeId {
    match end {
        End::Initiator => flow.initiator,
        End::Responder => flow.responder,
    }
}
