//! A network that loses, repeats, moves, changes and invents datagrams between two honest sides, from the first one to
//! the last, and lets time pass.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use sealane_protocol::Moment;
use sealane_protocol::connection::{ClosedBy, Sink};
use sealane_protocol::datagram::{Engine, Greeter, Greeting, Route, Tuning, route};
use sealane_protocol::frame::{Frame, Sequence, StreamId};
use sealane_support::ends::End;
use sealane_support::rehearsal::rehearsed_local;
use sealane_support::world::{Counter, Who};
use sealane_types::{CongestionChoice, Reason};

use crate::edit::edit;
use crate::script::Script;

const TUNING: Tuning = Tuning { congestion: CongestionChoice::Cubic, datagram_bytes_max: 1_472 };
const BEGIN: Moment = Moment::from_micros(1_000_000);
const CHUNKS: u8 = 3;
const CHUNK_BYTES: usize = 2_000;
/// Datagrams on their way in one direction; the network loses what is more.
const FLYING_MAX: usize = 64;
/// Operations of one input.
const OPERATIONS_MAX: usize = 200;
/// What passes with each datagram.
const DELAY_MICROS: u64 = 50;
/// Longest that an input may let time stand between the sides without one of them giving up.
const PATIENCE_MICROS: u64 = 2_000_000;
/// Rounds in which a network that has become good carries everything.
const ROUNDS_MAX: usize = 2_000;

/// Bytes of chunks, one after the other.
#[derive(Default)]
struct Heard(Vec<u8>);

impl Sink for Heard {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::Chunk(chunk) => self.0.extend_from_slice(chunk.bytes),
            other => panic!("{other:?} was never sent"),
        }
        Ok(())
    }
}

/// One process: its connection, if it has one, and its greeter.
struct Node {
    end: End,
    engine: Option<Engine>,
    greeter: Greeter,
    random: Counter,
    heard: Heard,
    said: u8,
    /// What waits in the network for it, with where it came from.
    flying: VecDeque<(SocketAddr, Vec<u8>)>,
    /// To strangers.
    answers: VecDeque<(SocketAddr, Vec<u8>)>,
}

fn address(of: usize) -> SocketAddr {
    let last = if of == 0 { 1 } else { 2 };
    (Ipv4Addr::new(10, 0, 0, last), 14_710).into()
}

/// Where nobody lives.
fn elsewhere() -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, 9), 14_710).into()
}

fn is_clear(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|kind| kind & 0xfc == 0x80)
}

impl Node {
    fn new(end: End, seed: u64) -> Self {
        let end = End { connection: end.connection.over_datagrams(), ..end };
        Self {
            end,
            engine: None,
            greeter: Greeter::new(&mut Counter(seed)).unwrap(),
            random: Counter(seed + 2),
            heard: Heard::default(),
            said: 0,
            flying: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }

    fn receive(&mut self, now: Moment, from: SocketAddr, datagram: &mut [u8]) {
        let ours = match (route(datagram), &self.engine) {
            (Some(Route::To(id)), Some(engine)) => engine.id() == id,
            (Some(Route::Opening(_)), Some(_)) => true,
            _ => false,
        };
        if !ours {
            let mut space = [0; 64];
            match self.greeter.greet(now, from, datagram, &mut space) {
                Greeting::Answer(length) => {
                    assert!(length < datagram.len(), "strangers are answered with less than came");
                    self.answers.push_back((from, space[..length].to_vec()));
                    return;
                }
                Greeting::Begin(beginning) if self.engine.is_none() => {
                    assert_eq!(beginning.source(), from);
                    let engine = Engine::accept(&beginning, TUNING, &mut self.random).unwrap();
                    self.engine = Some(engine.ended_by(&self.greeter));
                }
                Greeting::Begin(_) | Greeting::Ignore => return,
            }
        }
        self.hand_on(now, from, datagram);
    }

    fn hand_on(&mut self, now: Moment, from: SocketAddr, datagram: &mut [u8]) {
        let Some(engine) = &mut self.engine else { return };
        let connection = &mut self.end.connection;
        let was_open = !connection.is_closed();
        if let Err(fail) = engine.handle_datagram(connection, now, from, datagram, &mut self.heard)
            && was_open
        {
            assert!(connection.is_closed(), "{fail} and still open");
            self.end.fail = Some(fail);
        }
        self.end.answer();
        assert!(self.heard.0.is_empty() || self.end.was_established(), "data before the verdict");
    }

    fn pass_time(&mut self, now: Moment) {
        let connection = &mut self.end.connection;
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
        }
        if let Some(engine) = &mut self.engine
            && engine.poll_timeout(now).is_some_and(|due| due <= now)
        {
            engine.handle_timeout(connection, now);
        }
        self.end.answer();
    }

    fn timeout(&self, now: Moment) -> Option<Moment> {
        let engine = self.engine.as_ref().and_then(|engine| engine.poll_timeout(now));
        [engine, self.end.connection.poll_timeout()].into_iter().flatten().min()
    }

    /// Once it may, a side sends some chunks.
    fn speak(&mut self) {
        while self.said < CHUNKS && self.end.connection.is_established() {
            let bytes = [self.said; CHUNK_BYTES];
            let sent = self.end.connection.send_bytes(StreamId(1), Sequence(0), 0, &bytes[..]).unwrap();
            assert_eq!(sent, CHUNK_BYTES);
            self.said += 1;
        }
    }

    /// Everything that it sends now, with where it goes.
    fn transmit(&mut self, now: Moment) -> Vec<(SocketAddr, Vec<u8>)> {
        self.end.answer();
        self.speak();
        let mut sent: Vec<_> = self.answers.drain(..).collect();
        let mut space = [0; 2_048];
        while sent.len() < FLYING_MAX
            && let Some(engine) = &mut self.engine
            && let Some(transmit) = engine.poll_transmit(&mut self.end.connection, now, &mut space, 1)
        {
            assert!(transmit.bytes == transmit.segment && transmit.bytes <= TUNING.datagram_bytes_max.into());
            sent.push((transmit.to, space[..transmit.bytes].to_vec()));
        }
        sent
    }
}

/// The two, and what lies between them.
struct Net {
    nodes: [Node; 2],
    now: Moment,
    /// Nothing has come that an honest side must obey though nobody vouches for it.
    calm: bool,
    stood_micros: u64,
}

impl Net {
    fn new() -> Self {
        let mut random = Counter(2);
        let mut nodes = [
            Node::new(End::dial(rehearsed_local(Who::Embedder), &mut random, BEGIN), 11),
            Node::new(End::accept(rehearsed_local(Who::Ranker), &mut random, BEGIN), 21),
        ];
        let dialler = &mut nodes[0];
        let connection = &mut dialler.end.connection;
        let engine = Engine::initiate(connection, address(1), TUNING, &mut dialler.random, BEGIN).unwrap();
        dialler.engine = Some(engine);
        Self { nodes, now: BEGIN, calm: true, stood_micros: 0 }
    }

    fn transmit(&mut self) {
        for from in [0, 1] {
            for (to, datagram) in self.nodes[from].transmit(self.now) {
                let flying = &mut self.nodes[1 - from].flying;
                if to == address(1 - from) && flying.len() < FLYING_MAX {
                    flying.push_back((address(from), datagram));
                }
            }
        }
    }

    fn deliver(&mut self, to: usize, from: SocketAddr, datagram: &[u8]) {
        self.now = self.now.plus_micros(DELAY_MICROS);
        self.nodes[to].receive(self.now, from, &mut datagram.to_vec());
        self.check();
    }

    /// Operation: bit 0, to whom; the rest, what.
    fn operate(&mut self, operation: u8, script: &mut Script<'_>) {
        let to = usize::from(operation & 1);
        let next = match operation >> 1 & 7 {
            6 => {
                let invented = script.part().unwrap_or_default().to_vec();
                self.calm &= !is_clear(&invented);
                return self.deliver(to, address(1 - to), &invented);
            }
            7 => {
                let micros = u64::from(script.word().unwrap_or_default()) * 16;
                self.stood_micros += micros;
                self.now = self.now.plus_micros(micros);
                return self.nodes.iter_mut().for_each(|node| node.pass_time(self.now));
            }
            _ => self.nodes[to].flying.pop_front(),
        };
        let Some((from, datagram)) = next else { return };
        match operation >> 1 & 7 {
            0 => self.deliver(to, from, &datagram),
            1 => {
                let mut changed = datagram.clone();
                if let Some(edit) = edit(script) {
                    edit.apply(&mut changed);
                }
                self.calm &= changed == datagram || !is_clear(&datagram) && !is_clear(&changed);
                self.deliver(to, from, &changed);
            }
            2 => {}
            3 => {
                self.deliver(to, from, &datagram);
                self.nodes[to].flying.push_front((from, datagram));
            }
            4 => self.nodes[to].flying.push_back((from, datagram)),
            // From an address that answers to nothing.
            _ => self.deliver(to, elsewhere(), &datagram),
        }
    }

    fn check(&self) {
        for (to, node) in self.nodes.iter().enumerate() {
            if let Some((ClosedBy::Remote, reason)) = node.end.closed() {
                let remote = self.nodes[1 - to].end.closed();
                assert_eq!(remote, Some((ClosedBy::Local, reason)), "closed in the name of the remote");
            }
            let said = (0..self.nodes[1 - to].said).flat_map(|chunk| [chunk; CHUNK_BYTES]);
            assert!(node.heard.0.len() <= CHUNK_BYTES * usize::from(CHUNKS));
            assert!(
                said.zip(&node.heard.0).all(|(said, heard)| said == *heard),
                "other bytes than were sent"
            );
            assert!(node.heard.0.len() <= CHUNK_BYTES * usize::from(self.nodes[1 - to].said), "never sent");
        }
    }

    fn is_done(&self) -> bool {
        let all = CHUNK_BYTES * usize::from(CHUNKS);
        self.nodes.iter().all(|node| node.end.connection.is_established() && node.heard.0.len() == all)
    }

    /// The network carries everything from here on: what was lost is made up for.
    fn settle(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.transmit();
            if self.is_done() || self.nodes.iter().any(|node| node.end.connection.is_closed()) {
                return;
            }
            let mut moved = false;
            for to in [0, 1] {
                while let Some((from, datagram)) = self.nodes[to].flying.pop_front() {
                    self.deliver(to, from, &datagram);
                    moved = true;
                }
            }
            if !moved {
                let now = self.now;
                let next = self.nodes.iter().filter_map(|node| node.timeout(now)).min();
                self.now = now.max(next.expect("it waits for ever"));
            }
            self.nodes.iter_mut().for_each(|node| node.pass_time(self.now));
        }
    }
}

/// Operations, one byte each and what belongs to it.
pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut net = Net::new();
    for _ in 0..OPERATIONS_MAX {
        net.transmit();
        let Some(operation) = script.byte() else { break };
        net.operate(operation, &mut script);
    }
    net.settle();
    net.check();
    if net.calm && net.stood_micros <= PATIENCE_MICROS {
        let ends = net.nodes.iter().map(|node| (node.end.closed(), &node.end.fail, node.heard.0.len()));
        assert!(net.is_done(), "loss alone ended it: {:?}", ends.collect::<Vec<_>>());
    }
}
