//! Lets time pass between participants.

use std::net::SocketAddr;

use sealane_protocol::Moment;
use sealane_support::world::Counter;

use super::event::{Agenda, Event};
use super::intruder::{Inserted, Intruder, Seen};
use super::link::{Flying, Link, LinkId};
use super::node::{Node, NodeId};
use super::path::{Path, Refusal, Way};
use super::tally::Tally;

/// The largest datagram of all.
const SPACE_BYTES: usize = 65_535;
/// A node that sends more at one moment never stops.
const BURST_DATAGRAMS_MAX: usize = 100_000;
/// A node whose timer rings more often at one moment does so for ever.
const WAKES_MAX: usize = 10_000;

/// See the module's documentation. It begins a second after the beginning of time.
pub struct Network<N> {
    now: Moment,
    agenda: Agenda,
    random: Counter,
    nodes: Vec<Place<N>>,
    links: Vec<Link>,
    ways: Vec<Route>,
    intruder: Option<Box<dyn Intruder>>,
    space: Vec<u8>,
}

struct Place<N> {
    node: N,
    /// As which others see it.
    address: SocketAddr,
    /// For when a wake is on the agenda.
    armed: Option<Moment>,
    /// The moment of its last wake, and how many there were at it.
    woken: (Moment, usize),
}

struct Route {
    from: NodeId,
    to: NodeId,
    way: Way,
    tally: Tally,
}

impl<N: Node> Network<N> {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            now: Moment::from_micros(1_000_000),
            agenda: Agenda::default(),
            random: Counter(seed),
            nodes: Vec::new(),
            links: Vec::new(),
            ways: Vec::new(),
            intruder: None,
            space: vec![0; SPACE_BYTES],
        }
    }

    pub fn add_link(&mut self, link: Link) -> LinkId {
        self.links.push(link);
        LinkId(self.links.len() - 1)
    }

    /// It is asked for nothing until something arrives, or until [`Self::act`].
    pub fn add_node(&mut self, address: SocketAddr, node: N) -> NodeId {
        let place = Place { node, address, armed: None, woken: (Moment::default(), 0) };
        self.nodes.push(place);
        NodeId(self.nodes.len() - 1)
    }

    /// The way from one participant to another.
    pub fn add_path(&mut self, from: NodeId, to: NodeId, path: Path) {
        self.ways.push(Route { from, to, way: Way::new(path), tally: Tally::default() });
    }

    pub fn set_intruder(&mut self, intruder: Box<dyn Intruder>) {
        self.intruder = Some(intruder);
    }

    /// From `at` on, others see the node under another address, and what goes to the old one is lost: a translator of
    /// addresses has forgotten it.
    pub fn rebind(&mut self, node: NodeId, at: Moment, address: SocketAddr) {
        self.agenda.put(at, Event::Rebinding { node: node.0, address });
    }

    #[must_use]
    pub const fn now(&self) -> Moment {
        self.now
    }

    #[must_use]
    pub fn node(&self, node: NodeId) -> &N {
        &self.nodes[node.0].node
    }

    /// Does something with a node, and then sends what it has to send.
    pub fn act<R>(&mut self, node: NodeId, act: impl FnOnce(&mut N, Moment) -> R) -> R {
        let done = act(&mut self.nodes[node.0].node, self.now);
        self.drain(node.0);
        done
    }

    /// What a path does from here on.
    ///
    /// # Panics
    /// When there is none.
    pub fn path_mut(&mut self, from: NodeId, to: NodeId) -> &mut Path {
        let index = self.index(from, to).expect("there is a path");
        &mut self.ways[index].way.path
    }

    /// What became of what was sent on a path.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn tally(&self, from: NodeId, to: NodeId) -> Tally {
        self.ways[self.index(from, to).expect("there is a path")].tally
    }

    /// The longest that the queue of a link was.
    #[must_use]
    pub fn queue_bytes_max(&self, link: LinkId) -> u64 {
        self.links[link.0].queue_bytes_max()
    }

    /// [`Self::queue_bytes_max`] counts from here on.
    pub fn forget_queue_bytes_max(&mut self, link: LinkId) {
        self.links[link.0].forget_queue_bytes_max();
    }

    /// Everything up to `until` happens.
    pub fn run_until(&mut self, until: Moment) {
        while let Some((at, event)) = self.agenda.take(until) {
            self.now = self.now.max(at);
            self.happen(event);
        }
        self.now = self.now.max(until);
    }

    /// So many microseconds pass.
    pub fn run(&mut self, micros: u64) {
        self.run_until(self.now.plus_micros(micros));
    }

    /// Time passes until `done` holds of the network, or nothing happens before `until`; whether it holds.
    pub fn run_until_done(&mut self, until: Moment, mut done: impl FnMut(&Self) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            let Some((at, event)) = self.agenda.take(until) else {
                self.now = self.now.max(until);
                return false;
            };
            self.now = self.now.max(at);
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Sent { link } => self.sent(link),
            Event::Arrival { way, from, to, bytes } => self.arrive(way, from, to, bytes),
            Event::Wake { node } => self.wake(node),
            Event::Rebinding { node, address } => self.nodes[node].address = address,
        }
    }

    /// Sends all that a node has to send, and sets its timer.
    fn drain(&mut self, index: usize) {
        for _ in 0..BURST_DATAGRAMS_MAX {
            let place = &mut self.nodes[index];
            let Some((to, length)) = place.node.transmit(self.now, &mut self.space) else {
                return self.arm(index);
            };
            let from = place.address;
            let bytes = self.space[..length].to_vec();
            self.depart(index, from, to, bytes);
        }
        panic!("a node never stops sending");
    }

    fn arm(&mut self, index: usize) {
        let place = &mut self.nodes[index];
        let Some(timeout) = place.node.timeout(self.now) else { return };
        let at = timeout.max(self.now);
        // A timer that was moved to a later moment rings in between, for nothing.
        if place.armed.is_none_or(|armed| at < armed) {
            place.armed = Some(at);
            self.agenda.put(at, Event::Wake { node: index });
        }
    }

    fn wake(&mut self, index: usize) {
        let place = &mut self.nodes[index];
        if place.armed.is_some_and(|armed| armed <= self.now) {
            place.armed = None;
        }
        if place.node.timeout(self.now).is_some_and(|timeout| timeout <= self.now) {
            let (at, count) = place.woken;
            place.woken = (self.now, if at == self.now { count + 1 } else { 1 });
            assert!(place.woken.1 <= WAKES_MAX, "a node's timer rings for ever");
            place.node.on_timeout(self.now);
            self.drain(index);
        } else {
            self.arm(index);
        }
    }

    fn depart(&mut self, index: usize, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        self.show(from, to, &bytes);
        let target = self.nodes.iter().position(|place| place.address == to);
        let route = target.and_then(|target| self.index(NodeId(index), NodeId(target)));
        let Some(way) = route.or_else(|| self.first_way(index)) else { return };
        let Route { way: path, tally, .. } = &mut self.ways[way];
        tally.sent_datagrams += 1;
        tally.sent_bytes += bytes.len() as u64;
        if route.is_none() {
            tally.misaddressed += 1;
            return;
        }
        match path.refuses(self.now, bytes.len()) {
            Some(Refusal::TooLarge) => tally.too_large += 1,
            Some(Refusal::Blackhole) => tally.blackholed += 1,
            None => {
                let link = path.path.link.0;
                match self.links[link].put(self.now, Flying { way, from, bytes }) {
                    None => tally.overflowed += 1,
                    Some(None) => {}
                    Some(Some(at)) => self.agenda.put(at, Event::Sent { link }),
                }
            }
        }
    }

    fn show(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let Some(intruder) = &mut self.intruder else { return };
        let mut inserted = Vec::new();
        intruder.see(self.now, Seen { from, to, bytes }, &mut inserted);
        for Inserted { from, to, bytes, after_micros } in inserted {
            let at = self.now.plus_micros(after_micros);
            self.agenda.put(at, Event::Arrival { way: None, from, to, bytes });
        }
    }

    fn sent(&mut self, link: usize) {
        let (flying, next) = self.links[link].take(self.now);
        if let Some(at) = next {
            self.agenda.put(at, Event::Sent { link });
        }
        let Some(Flying { way, from, mut bytes }) = flying else { return };
        let Route { way: path, tally, to, .. } = &mut self.ways[way];
        let to = self.nodes[to.0].address;
        let fate = path.decide(self.now, &mut self.random);
        let Some(arrives) = fate.arrives else {
            tally.lost += 1;
            return;
        };
        tally.reordered += u64::from(fate.reordered);
        if fate.corrupted && !bytes.is_empty() {
            tally.corrupted += 1;
            let place = self.random.below(bytes.len());
            bytes[place] ^= 1 << self.random.below(8);
        }
        if let Some(again) = fate.again {
            tally.duplicated += 1;
            self.agenda.put(again, Event::Arrival { way: Some(way), from, to, bytes: bytes.clone() });
        }
        self.agenda.put(arrives, Event::Arrival { way: Some(way), from, to, bytes });
    }

    fn arrive(&mut self, way: Option<usize>, from: SocketAddr, to: SocketAddr, mut bytes: Vec<u8>) {
        let target = self.nodes.iter().position(|place| place.address == to);
        if let Some(way) = way {
            let tally = &mut self.ways[way].tally;
            if target.is_none() {
                tally.misaddressed += 1;
                return;
            }
            tally.delivered_datagrams += 1;
            tally.delivered_bytes += bytes.len() as u64;
        }
        let Some(index) = target else { return };
        self.nodes[index].node.receive(self.now, from, &mut bytes);
        self.drain(index);
    }

    fn index(&self, from: NodeId, to: NodeId) -> Option<usize> {
        self.ways.iter().position(|route| route.from == from && route.to == to)
    }

    /// Where to count what goes to nobody.
    fn first_way(&self, from: usize) -> Option<usize> {
        self.ways.iter().position(|route| route.from.0 == from)
    }
}
