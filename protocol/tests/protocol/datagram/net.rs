//! Two parties and a wire between them that takes its time and does what it is told.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use sealane_protocol::Moment;
use sealane_protocol::datagram::Tuning;
use sealane_protocol::frame::{Frame, Sequence};
use sealane_support::datagrams::{Party, SPACE_BYTES, TUNING, parties};
use sealane_support::endpoint::{Endpoint, Receiver, Sender};
use sealane_support::pair::{Pair, Recipe, STREAM};
use sealane_support::world::Who;

pub(crate) const DELAY_MICROS: u64 = 50;
/// Events until a test is called hung.
const EVENTS_MAX: usize = 2_000_000;

pub(crate) fn address(who: Who) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + who as u8], 14_710))
}

/// What the wire does with a datagram: how often it arrives.
pub(crate) type Bend = Box<dyn FnMut(Who, Moment, &mut Vec<u8>) -> usize>;

pub(crate) struct Net {
    pub(crate) initiator: Party,
    pub(crate) responder: Party,
    pub(crate) now: Moment,
    /// Where datagrams of the initiator come from.
    pub(crate) source: SocketAddr,
    pub(crate) bend: Bend,
    flying: BTreeMap<(Moment, u64), (Who, SocketAddr, Vec<u8>)>,
    order: u64,
}

impl Net {
    pub(crate) fn of(recipe: Recipe, tuning: Tuning) -> Self {
        Self::over(Pair::of(recipe), tuning)
    }

    pub(crate) fn over(pair: Pair, tuning: Tuning) -> Self {
        let now = pair.now;
        let (initiator, responder) = parties(pair, tuning, address(Who::Ranker));
        Self {
            initiator,
            responder,
            now,
            source: address(Who::Embedder),
            bend: Box::new(|_, _, _| 1),
            flying: BTreeMap::new(),
            order: 0,
        }
    }

    pub(crate) fn new() -> Self {
        Self::of(Recipe::default(), TUNING)
    }

    /// Both established, with the ends of a stream.
    pub(crate) fn streaming() -> Self {
        let mut net = Self::new();
        net.stream();
        net
    }

    /// Establishes both and opens a stream.
    pub(crate) fn stream(&mut self) {
        self.run_until(|net| net.is_established());
        let mut sender = Sender::new(STREAM);
        let open = sender.outbound.attach();
        self.initiator.side.connection.send(&Frame::Open(open)).unwrap();
        self.initiator.side.seen.1 = Some(Endpoint::Sender(sender));
        self.responder.side.seen.1 = Some(Endpoint::Receiver(Receiver::new(1 << 26, 1 << 20)));
    }

    pub(crate) fn is_established(&self) -> bool {
        [&self.initiator, &self.responder].iter().all(|party| party.side.established().is_some())
    }

    pub(crate) fn party(&mut self, who: Who) -> &mut Party {
        match who {
            Who::Embedder => &mut self.initiator,
            Who::Ranker => &mut self.responder,
        }
    }

    /// Puts a datagram of nobody in particular on the wire.
    pub(crate) fn inject(&mut self, to: Who, from: SocketAddr, datagram: Vec<u8>) {
        self.order += 1;
        self.flying.insert((self.now, self.order), (to, from, datagram));
    }

    fn transmit(&mut self, who: Who) {
        let mut space = vec![0; SPACE_BYTES];
        let now = self.now;
        while let Some((_, length)) = self.party(who).transmit(now, &mut space) {
            let mut datagram = space[..length].to_vec();
            let times = (self.bend)(who, now, &mut datagram);
            let (to, from) = match who {
                Who::Embedder => (Who::Ranker, self.source),
                Who::Ranker => (Who::Embedder, address(Who::Ranker)),
            };
            for _ in 0..times {
                self.order += 1;
                let due = now.plus_micros(DELAY_MICROS);
                self.flying.insert((due, self.order), (to, from, datagram.clone()));
            }
        }
    }

    /// Runs until `done`; panics when nothing more would happen, or it takes longer than a minute.
    pub(crate) fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let start = self.now;
        for _ in 0..EVENTS_MAX {
            self.transmit(Who::Embedder);
            self.transmit(Who::Ranker);
            if done(self) {
                return;
            }
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let now = self.now;
            let timeout =
                [&self.initiator, &self.responder].iter().filter_map(|party| party.timeout(now)).min();
            let next = [arrival, timeout].into_iter().flatten().min().expect("nothing more will happen");
            self.now = self.now.max(next);
            assert!(self.now.micros_since(start) < 60_000_000, "it takes a minute: {:?}", self.states());
            while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, from, mut datagram) = entry.remove();
                let now = self.now;
                self.party(to).receive(now, from, &mut datagram);
            }
            let now = self.now;
            for party in [&mut self.initiator, &mut self.responder] {
                if party.timeout(now).is_some_and(|due| due <= now) {
                    party.on_timeout(now);
                }
            }
        }
        panic!("it never ends: {:?}", self.states());
    }

    fn states(&self) -> impl std::fmt::Debug + '_ {
        let of = |party: &Party| (party.side.fail.as_ref().map(ToString::to_string), party.side.closed());
        (of(&self.initiator), of(&self.responder), self.now)
    }

    /// Runs for so long.
    pub(crate) fn run_for(&mut self, micros: u64) {
        let end = self.now.plus_micros(micros);
        self.run_until(|net| {
            let next =
                [&net.initiator, &net.responder].iter().filter_map(|party| party.timeout(net.now)).min();
            let arrival = net.flying.first_key_value().map(|((at, _), _)| *at);
            [next, arrival].into_iter().flatten().min().is_none_or(|next| next > end)
        });
        self.now = self.now.max(end);
    }

    pub(crate) fn push(&mut self, sequence: u64, bytes: Vec<u8>) {
        self.initiator.side.seen.1.as_mut().unwrap().sender().push(Sequence(sequence), bytes);
    }

    /// Takes what is ready and says how many tensors were taken in all.
    pub(crate) fn taken(&mut self) -> usize {
        let receiver = self.responder.side.seen.1.as_mut().unwrap().receiver();
        while receiver.take(0) {}
        receiver.delivered.len()
    }

    pub(crate) fn delivered(&mut self) -> Vec<(u64, Vec<u8>)> {
        let receiver = self.responder.side.seen.1.as_mut().unwrap().receiver();
        receiver.delivered.iter().map(|(sequence, bytes)| (sequence.0, bytes.clone())).collect()
    }
}

/// A sequence of random-looking numbers, the same every time.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.is_multiple_of(chances)
    }
}

pub(crate) fn bytes(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}
