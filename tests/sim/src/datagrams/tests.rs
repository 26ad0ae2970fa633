use std::net::{Ipv4Addr, SocketAddr};

use sealane_protocol::Moment;

use super::*;

const SECOND: u64 = 1_000_000;
const START: u64 = SECOND;

fn at(micros: u64) -> Moment {
    Moment::from_micros(START + micros)
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Sends datagrams of one size at even intervals, numbered; keeps what comes.
struct Peer {
    to: SocketAddr,
    bytes: usize,
    interval_micros: u64,
    next: Option<Moment>,
    number: u64,
    due: bool,
    echoes: bool,
    owed: Vec<(SocketAddr, Vec<u8>)>,
    received: Vec<(Moment, SocketAddr, Vec<u8>)>,
}

impl Peer {
    fn silent() -> Self {
        Self {
            to: address(9),
            bytes: 0,
            interval_micros: 0,
            next: None,
            number: 0,
            due: false,
            echoes: false,
            owed: Vec::new(),
            received: Vec::new(),
        }
    }

    fn blaster(bytes: usize, interval_micros: u64) -> Self {
        Self { to: address(2), bytes, interval_micros, next: Some(at(0)), ..Self::silent() }
    }

    fn numbers(&self) -> Vec<u64> {
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes[..8].try_into().unwrap());
        self.received.iter().map(|(_, _, bytes)| number(bytes)).collect()
    }
}

impl Node for Peer {
    fn receive(&mut self, now: Moment, from: SocketAddr, datagram: &mut [u8]) {
        if self.echoes {
            self.owed.push((from, datagram.to_vec()));
        }
        self.received.push((now, from, datagram.to_vec()));
    }

    fn transmit(&mut self, _: Moment, space: &mut [u8]) -> Option<(SocketAddr, usize)> {
        if let Some((to, bytes)) = self.owed.pop() {
            space[..bytes.len()].copy_from_slice(&bytes);
            return Some((to, bytes.len()));
        }
        if !std::mem::take(&mut self.due) {
            return None;
        }
        space[..self.bytes].fill(0);
        space[..8].copy_from_slice(&self.number.to_be_bytes());
        self.number += 1;
        Some((self.to, self.bytes))
    }

    fn timeout(&self, _: Moment) -> Option<Moment> {
        self.next
    }

    fn on_timeout(&mut self, now: Moment) {
        self.due = true;
        self.next = Some(now.plus_micros(self.interval_micros));
    }
}

struct World {
    network: Network<Peer>,
    sender: NodeId,
    receiver: NodeId,
    link: LinkId,
}

/// A sender of so many bytes at such intervals, and a receiver, over a link with a path that `change` changes.
fn world(blaster: Peer, link: Link, change: impl FnOnce(&mut Path)) -> World {
    let mut network = Network::new(7);
    let link = network.add_link(link);
    let sender = network.add_node(address(1), blaster);
    let receiver = network.add_node(address(2), Peer::silent());
    let mut path = Path::perfect(link);
    change(&mut path);
    network.add_path(sender, receiver, path);
    network.act(sender, |_, _| ());
    World { network, sender, receiver, link }
}

impl World {
    fn tally(&self) -> Tally {
        self.network.tally(self.sender, self.receiver)
    }

    fn received(&self) -> &Peer {
        self.network.node(self.receiver)
    }
}

#[test]
fn a_delay_is_exact_and_a_rate_adds_what_it_takes() {
    let rate = Steps::always(SECOND);
    let mut world = world(Peer::blaster(1_000, 100_000), Link::new(rate, 10_000), |path| {
        path.delay_micros = 12_345;
    });
    world.network.run(450_000);
    let arrivals: Vec<_> = world.received().received.iter().map(|(now, ..)| *now).collect();
    assert_eq!(arrivals, (0..5).map(|n| at(n * 100_000 + 1_000 + 12_345)).collect::<Vec<_>>()[..5]);
    assert_eq!(world.received().numbers(), [0, 1, 2, 3, 4]);
}

#[test]
fn a_rate_is_obeyed_and_the_queue_is_bounded() {
    let mut world = world(Peer::blaster(1_250, 50), Link::new(Steps::always(12_500_000), 100_000), |_| {});
    world.network.run(2 * SECOND);
    let tally = world.tally();
    let delivered = tally.delivered_bytes;
    assert!((24_990_000..=25_000_000).contains(&delivered), "{delivered}");
    assert_eq!(world.network.queue_bytes_max(world.link), 100_000);
    let queued = tally.sent_datagrams - tally.delivered_datagrams - tally.overflowed;
    assert!(tally.overflowed > 10_000 && queued <= 80);
    world.network.act(world.sender, |peer, _| peer.next = None);
    world.network.run(SECOND);
    world.network.forget_queue_bytes_max(world.link);
    assert_eq!(world.network.queue_bytes_max(world.link), 0);
}

#[test]
fn a_rate_that_changes_is_obeyed_from_its_moment_on() {
    let rate = Steps::always(2_000_000).then(at(SECOND), 500_000);
    let mut world = world(Peer::blaster(1_000, 400), Link::new(rate, 50_000), |_| {});
    world.network.run(SECOND);
    let first = world.tally().delivered_bytes;
    assert!((1_990_000..=2_000_000).contains(&first), "{first}");
    world.network.run(SECOND);
    let second = world.tally().delivered_bytes - first;
    assert!((495_000..=505_000).contains(&second), "{second}");
}

#[test]
fn two_senders_share_a_link_and_its_queue() {
    let mut world = world(Peer::blaster(1_000, 600), Link::new(Steps::always(1_000_000), 20_000), |_| {});
    let other = Peer { next: Some(at(3)), ..Peer::blaster(1_000, 797) };
    let other = world.network.add_node(address(3), other);
    world.network.add_path(other, world.receiver, Path::perfect(world.link));
    world.network.act(other, |_, _| ());
    world.network.run(5 * SECOND);
    let (one, two) = (world.tally(), world.network.tally(other, world.receiver));
    let sum = one.delivered_bytes + two.delivered_bytes;
    assert!((4_990_000..=5_000_000).contains(&sum));
    assert!(one.delivered_bytes > 500_000 && two.delivered_bytes > 500_000, "{one:?} {two:?}");
    assert!(one.overflowed > 0 && two.overflowed > 0);
}

#[test]
fn losses_are_as_frequent_as_they_are_said_to_be() {
    let mut even = world(Peer::blaster(100, 100), Link::unlimited(), |path| path.lost_permille = 50);
    even.network.run(2 * SECOND);
    let tally = even.tally();
    assert!(
        (19_990..20_002).contains(&tally.sent_datagrams) && (900..1_100).contains(&tally.lost),
        "{tally:?}"
    );
    assert_eq!(tally.lost + tally.delivered_datagrams, tally.sent_datagrams);

    let mut bursts = world(Peer::blaster(100, 100), Link::unlimited(), |path| {
        (path.burst_permille, path.burst_datagrams_max) = (5, 19);
    });
    bursts.network.run(2 * SECOND);
    assert!((700..1_300).contains(&bursts.tally().lost), "{:?}", bursts.tally());
    let numbers = bursts.received().numbers();
    let longest = numbers.windows(2).map(|pair| pair[1] - pair[0] - 1).max().unwrap();
    assert!((10..=60).contains(&longest), "{longest} in a row");
}

#[test]
fn what_is_too_large_vanishes() {
    let limit = Steps::always(1_472).then(at(SECOND), 1_471);
    let mut world =
        world(Peer::blaster(1_472, 1_000), Link::unlimited(), |path| path.datagram_bytes_max = limit);
    world.network.run(SECOND - 1);
    let before = world.tally();
    assert!(before.too_large == 0 && before.delivered_datagrams == 1_000, "{before:?}");
    world.network.run(SECOND);
    assert_eq!((world.tally().delivered_datagrams, world.tally().too_large), (1_000, 1_000));
}

#[test]
fn nothing_passes_a_black_hole() {
    let hole = at(100_000)..at(200_000);
    let mut world =
        world(Peer::blaster(100, 1_000), Link::unlimited(), |path| path.blackholes = vec![hole.clone()]);
    world.network.run(300_500);
    assert_eq!((world.tally().blackholed, world.tally().delivered_datagrams), (100, 201));
    assert!(world.received().received.iter().all(|(now, ..)| !hole.contains(now)));
}

#[test]
fn jitter_keeps_the_order_and_reordering_does_not() {
    let mut world = world(Peer::blaster(100, 100), Link::unlimited(), |path| {
        (path.delay_micros, path.jitter_micros) = (1_000, 900)
    });
    world.network.run(SECOND);
    assert!(world.received().numbers().is_sorted());
    let path = world.network.path_mut(world.sender, world.receiver);
    (path.reordered_permille, path.reordered_micros_max) = (100, 5_000);
    world.network.run(SECOND);
    let numbers = world.received().numbers();
    let overtaken = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(overtaken > 300 && (900..1_100).contains(&world.tally().reordered), "{overtaken}");
}

#[test]
fn some_come_twice_and_some_are_changed_by_one_bit() {
    let mut world = world(Peer::blaster(100, 100), Link::unlimited(), |path| {
        (path.duplicated_permille, path.corrupted_permille) = (100, 100);
    });
    world.network.run(SECOND);
    let tally = world.tally();
    assert!((900..1_100).contains(&tally.duplicated) && (900..1_100).contains(&tally.corrupted), "{tally:?}");
    assert_eq!(tally.delivered_datagrams, tally.sent_datagrams + tally.duplicated);
    let ones = |bytes: &[u8]| bytes[8..].iter().map(|byte| byte.count_ones()).sum::<u32>();
    let changed = world.received().received.iter().filter(|(_, _, bytes)| ones(bytes) == 1).count() as u64;
    assert!(changed > tally.corrupted * 8 / 10);
    assert!(world.received().received.iter().all(|(_, _, bytes)| ones(bytes) <= 1));
}

#[test]
fn a_rebinding_changes_the_source_and_the_way_back() {
    let mut world = world(Peer::blaster(100, 10_000), Link::unlimited(), |path| path.delay_micros = 4_000);
    let World { sender, receiver, link, .. } = world;
    world.network.add_path(receiver, sender, Path { delay_micros: 4_000, ..Path::perfect(link) });
    world.network.act(receiver, |peer, _| peer.echoes = true);
    world.network.rebind(sender, at(105_000), address(11));
    world.network.run(200_000 - 1);
    let sources =
        |port| world.received().received.iter().filter(|(_, from, _)| *from == address(port)).count();
    assert_eq!((sources(1), sources(11)), (11, 9));
    let back = world.network.tally(receiver, sender);
    assert_eq!(back.misaddressed, 1, "what was on its way to the old address");
    assert_eq!(world.network.node(sender).received.len(), 19);
}

struct Parrot;

impl Intruder for Parrot {
    fn see(&mut self, _: Moment, seen: Seen<'_>, inserted: &mut Vec<Inserted>) {
        let bytes = seen.bytes.to_vec();
        inserted.push(Inserted { from: address(66), to: seen.to, bytes, after_micros: 500 });
    }
}

#[test]
fn an_intruder_sees_everything_and_says_what_it_likes() {
    let mut world = world(Peer::blaster(100, 1_000), Link::unlimited(), |path| path.lost_permille = 1_000);
    world.network.set_intruder(Box::new(Parrot));
    world.network.run(10_900);
    let received = &world.received().received;
    assert!(received.len() == 11 && received.iter().all(|(_, from, _)| *from == address(66)));
    assert_eq!(world.tally().delivered_datagrams, 0, "its own do not count");
}

#[test]
fn it_runs_until_something_is_so() {
    let mut world = world(Peer::blaster(100, 1_000), Link::unlimited(), |_| {});
    let receiver = world.receiver;
    let five = |network: &Network<Peer>| network.node(receiver).received.len() == 5;
    assert!(world.network.run_until_done(at(SECOND), five));
    assert_eq!(world.network.now(), at(4_000));
    let four = |network: &Network<Peer>| network.node(receiver).received.len() == 4;
    assert!(!world.network.run_until_done(at(SECOND), four), "no more");
    assert_eq!(world.network.now(), at(SECOND));
}

#[test]
fn one_seed_is_one_course_of_events() {
    let course = |seed| {
        let mut network = Network::new(seed);
        let link = network.add_link(Link::new(Steps::always(1_000_000), 5_000));
        let sender = network.add_node(address(1), Peer::blaster(300, 290));
        let receiver = network.add_node(address(2), Peer::silent());
        let path = Path {
            delay_micros: 3_000,
            jitter_micros: 700,
            lost_permille: 30,
            burst_permille: 3,
            burst_datagrams_max: 9,
            duplicated_permille: 20,
            corrupted_permille: 20,
            reordered_permille: 20,
            reordered_micros_max: 4_000,
            ..Path::perfect(link)
        };
        network.add_path(sender, receiver, path);
        network.act(sender, |_, _| ());
        network.run(SECOND);
        network.node(receiver).received.clone()
    };
    assert!(course(1) == course(1) && course(1) != course(2));
}
