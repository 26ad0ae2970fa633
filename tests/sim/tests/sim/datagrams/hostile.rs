//! Somebody on the way who sees every datagram and says what he likes under any address.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use sealane_protocol::Moment;
use sealane_protocol::connection::ClosedBy;
use sealane_protocol::datagram::Greeting;
use sealane_sim::datagrams::{
    Crossing, Flow, Inserted, Intruder, Seen, address_of_initiator, address_of_responder,
};
use sealane_support::world::Counter;
use sealane_types::{CongestionChoice, Reason};

use super::bench::{DELAY_MICROS, SECOND, link, tuning};

/// Datagrams that he remembers.
const KEPT: usize = 200;
const RESET: u8 = 0x83;
const FORM: u8 = 1;

/// From where, where to, and what.
type Kept = Vec<(SocketAddr, SocketAddr, Vec<u8>)>;

/// Where he is when he is not somebody else.
fn lair() -> SocketAddr {
    SocketAddr::from(([6, 6, 6, 6], 666))
}

fn is_packet(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first & 0x80 == 0)
}

/// What he did and got.
#[derive(Debug, Default)]
struct Deeds {
    inserted: u64,
    lair_sent_bytes: u64,
    lair_got_bytes: u64,
}

/// Repeats, reorders, changes and makes up datagrams, some from his own address.
struct Meddler {
    random: Counter,
    kept: Kept,
    deeds: Rc<RefCell<Deeds>>,
}

impl Meddler {
    fn new(seed: u64) -> (Self, Rc<RefCell<Deeds>>) {
        let deeds = Rc::default();
        (Self { random: Counter(seed), kept: Vec::new(), deeds: Rc::clone(&deeds) }, deeds)
    }

    fn meddle(&mut self, seen: Seen<'_>) -> Inserted {
        let Seen { from, to, bytes } = seen;
        let (from, to, bytes) = (from, to, bytes.to_vec());
        let after_micros = self.random.below(40_000) as u64;
        let kept = self.kept[self.random.below(self.kept.len())].clone();
        match self.random.below(6) {
            // Again, later than others.
            0 => Inserted { from: kept.0, to: kept.1, bytes: kept.2, after_micros },
            1 => Inserted { from: lair(), to: kept.1, bytes: kept.2, after_micros },
            // Before the true one arrives, from elsewhere.
            2 => Inserted { from: lair(), to, bytes, after_micros: DELAY_MICROS - 100 },
            // Back to who sent it.
            3 => Inserted { from: to, to: from, bytes, after_micros },
            4 => Inserted { from, to, bytes: self.change(bytes), after_micros: 0 },
            _ => Inserted { from, to, bytes: self.make_up(&bytes), after_micros: 0 },
        }
    }

    fn change(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        let place = self.random.below(bytes.len());
        bytes[place] ^= 1 << self.random.below(8);
        bytes
    }

    /// The head of a packet, and anything behind it.
    fn make_up(&mut self, like: &[u8]) -> Vec<u8> {
        let length = self.random.below(1_472);
        let anything = self.random.bytes(length);
        like.iter().take(9).copied().chain(anything).collect()
    }
}

impl Intruder for Meddler {
    fn see(&mut self, _: Moment, seen: Seen<'_>, inserted: &mut Vec<Inserted>) {
        let mut deeds = self.deeds.borrow_mut();
        if seen.to == lair() {
            deeds.lair_got_bytes += seen.bytes.len() as u64;
        }
        drop(deeds);
        if self.kept.len() < KEPT {
            self.kept.push((seen.from, seen.to, seen.bytes.to_vec()));
        } else {
            let place = self.random.below(KEPT);
            self.kept[place] = (seen.from, seen.to, seen.bytes.to_vec());
        }
        // Whoever changes the handshake, which is in clear, ends it, as over TCP.
        if !is_packet(seen.bytes) || self.random.below(3) > 0 {
            return;
        }
        let deed = self.meddle(seen);
        let mut deeds = self.deeds.borrow_mut();
        deeds.inserted += 1;
        if deed.from == lair() {
            deeds.lair_sent_bytes += deed.bytes.len() as u64;
        }
        inserted.push(deed);
    }
}

fn established(seed: u64, intruder: Box<dyn Intruder>) -> (Crossing, Flow) {
    let mut crossing = Crossing::new(seed, link(), link());
    crossing.network.set_intruder(intruder);
    let flow = crossing.establish(tuning(CongestionChoice::Bbr), |path| path.delay_micros = DELAY_MICROS);
    (crossing, flow)
}

fn assert_unmoved(crossing: &Crossing, flow: Flow) {
    assert_eq!(crossing.closed(flow), [None, None], "{:?}", crossing.fails(flow));
    let remote = |node| crossing.network.node(node).party.engine.as_ref().unwrap().remote();
    assert_eq!(remote(flow.initiator), address_of_responder(0));
    assert_eq!(remote(flow.responder), address_of_initiator(0, 0));
}

#[test]
fn whoever_meddles_changes_nothing_that_is_delivered() {
    for seed in 0..4 {
        let (meddler, deeds) = Meddler::new(seed);
        let (mut crossing, flow) = established(seed, Box::new(meddler));
        crossing.push(flow, &[500_000; 40]);
        let until = crossing.network.now().plus_micros(60 * SECOND);
        // Each tensor is compared as it is taken.
        assert!(crossing.is_all_taken(flow, until), "seed {seed}: {:?}", crossing.fails(flow));
        crossing.network.run(3 * SECOND);
        assert_unmoved(&crossing, flow);
        let deeds = deeds.borrow();
        println!("{deeds:?}");
        assert!(deeds.inserted > 1_000, "{deeds:?}");
        let most = 3 * deeds.lair_sent_bytes;
        assert!(deeds.lair_got_bytes <= most, "an address that never answered got too much: {deeds:?}");
    }
}

/// Keeps the first datagrams of a connection, which are its handshake.
struct Witness(Rc<RefCell<Kept>>);

impl Intruder for Witness {
    fn see(&mut self, _: Moment, seen: Seen<'_>, _: &mut Vec<Inserted>) {
        if !is_packet(seen.bytes) {
            self.0.borrow_mut().push((seen.from, seen.to, seen.bytes.to_vec()));
        }
    }
}

#[test]
fn a_handshake_that_is_said_again_behind_its_end_means_nothing() {
    let clear = Rc::default();
    let (mut crossing, flow) = established(1, Box::new(Witness(Rc::clone(&clear))));
    let clear = clear.take();
    assert!(clear.len() > 4, "{}", clear.len());
    for (from, to, bytes) in &clear {
        for from in [*from, lair()] {
            let node = if *to == address_of_responder(0) { flow.responder } else { flow.initiator };
            crossing.network.act(node, |speaker, now| speaker.party.receive(now, from, &mut bytes.clone()));
        }
    }
    crossing.push(flow, &[500_000; 4]);
    let until = crossing.network.now().plus_micros(5 * SECOND);
    assert!(crossing.is_all_taken(flow, until));
    assert_unmoved(&crossing, flow);
    assert_eq!(crossing.network.node(flow.responder).party.begun, 1);
}

/// An end in clear needs a token that was told under the connection's keys: who sees the wire, and writes to it, has the ids
/// and the addresses, and not that. Who lost the connection makes it again.
#[test]
fn only_whoever_lost_a_connection_may_end_it_in_clear() {
    let reset = |id: [u8; 8], token: [u8; 16]| [&[RESET, FORM][..], &id, &token].concat();
    let engine_id =
        |crossing: &Crossing, node| crossing.network.node(node).party.engine.as_ref().unwrap().id().bytes();
    let (mut crossing, flow) = established(2, Box::new(Witness(Rc::default())));
    let (own, remote) = (engine_id(&crossing, flow.initiator), engine_id(&crossing, flow.responder));
    let mut random = Counter(3);
    for _ in 0..1_000 {
        let token = [random.draw().to_be_bytes(), random.draw().to_be_bytes()].concat();
        for id in [own, remote] {
            let mut datagram = reset(id, token[..].try_into().unwrap());
            for from in [address_of_responder(0), lair()] {
                crossing.network.act(flow.initiator, |speaker, now| {
                    speaker.party.receive(now, from, &mut datagram.clone());
                });
            }
            // Of the form that has no token.
            datagram.truncate(10);
            crossing.network.act(flow.initiator, |speaker, now| {
                speaker.party.receive(now, address_of_responder(0), &mut datagram);
            });
        }
    }
    assert_unmoved(&crossing, flow);
    // The initiator told none: what another port of its process would answer ends nothing.
    let mut answer = [0; 64];
    let packet = [&[0x40][..], &own, &[0; 40]].concat();
    let (now, attacked) = (crossing.network.now(), crossing.network.node(flow.initiator));
    let Greeting::Answer(length) = attacked.party.greeter.greet(now, lair(), &packet, &mut answer) else {
        panic!("it is told how that connection would be ended")
    };
    assert_eq!((&answer[..2], &answer[2..10]), (&[RESET, FORM][..], &own[..]));
    crossing.network.act(flow.responder, |speaker, now| {
        speaker.party.receive(now, address_of_initiator(0, 0), &mut answer[..length]);
    });
    assert_unmoved(&crossing, flow);
    crossing.network.act(flow.responder, |speaker, _| speaker.party.engine = None);
    crossing.push(flow, &[500]);
    let until = crossing.network.now().plus_micros(5 * SECOND);
    let closed = crossing
        .network
        .run_until_done(until, |network| network.node(flow.initiator).party.side.connection.is_closed());
    assert!(closed, "it heard what ends it");
    assert_eq!(crossing.closed(flow)[0], Some((ClosedBy::Cut, Reason::LinkLost)));
}
