use super::super::bottleneck::{Bottleneck, DATAGRAM, Link};
use super::*;

const SECOND: u64 = 1_000_000;

fn at(micros: u64) -> Moment {
    Moment::from_micros(micros)
}

/// 100 Mbit/s, 20 ms, and a queue of so many bytes.
fn link(queue_bytes: u64) -> Link {
    Link {
        bytes_per_second: 12_500_000,
        round_trip_micros: 20_000,
        queue_bytes,
        loss_permille: 0,
        heap_micros: 0,
    }
}

fn path() -> Rtt {
    let mut rtt = Rtt::new();
    rtt.update(20_000, 0);
    rtt
}

fn acknowledged(now: u64, sent: u64, bytes: u64) -> Acknowledged {
    Acknowledged { now: at(now), bytes, newest_sent: at(sent), in_flight: 0, limited: false, delivery: None }
}

fn lost(now: u64, sent: u64, persistent: bool) -> Lost {
    Lost { now: at(now), bytes: DATAGRAM, newest_sent: at(sent), in_flight: 0, persistent }
}

#[test]
fn it_fills_a_link_and_keeps_within_its_queue() {
    for queue in [125_000, 250_000, 1_000_000] {
        let mut world = Bottleneck::new(link(queue));
        world.join(Box::new(Cubic::new(DATAGRAM)), at(0));
        world.run(5 * SECOND);
        let delivered = world.run(20 * SECOND)[0];
        let capacity = world.capacity(20 * SECOND);
        assert!(delivered * 100 >= capacity * 93, "{queue}: {delivered} of {capacity}");
        assert!(world.flows[0].controller.window() <= world.pipe() + queue + 20 * DATAGRAM, "{queue}");
    }
}

#[test]
fn its_start_ends_before_a_deep_queue_is_full() {
    let mut world = Bottleneck::new(link(5_000_000));
    world.join(Box::new(Cubic::new(DATAGRAM)), at(0));
    let delivered = world.run(SECOND)[0];
    assert_eq!(world.flows[0].lost, 0);
    assert!(world.queue_max < 2_500_000, "{}", world.queue_max);
    assert!(delivered * 100 > world.capacity(SECOND) * 85, "{delivered}");
}

#[test]
fn two_of_a_kind_share() {
    let mut world = Bottleneck::new(link(250_000));
    world.join(Box::new(Cubic::new(DATAGRAM)), at(0));
    world.join(Box::new(Cubic::new(DATAGRAM)), at(5 * SECOND));
    world.run(20 * SECOND);
    let delivered = world.run(40 * SECOND);
    let (less, more) = (delivered[0].min(delivered[1]), delivered[0].max(delivered[1]));
    assert!(more < less * 2, "{delivered:?}");
}

#[test]
fn it_comes_back_after_a_link_that_was_gone() {
    let mut world = Bottleneck::new(link(250_000));
    world.join(Box::new(Cubic::new(DATAGRAM)), at(0));
    world.run(5 * SECOND);
    world.link.loss_permille = 1_000;
    world.run(3 * SECOND);
    assert_eq!(world.flows[0].controller.window(), 2 * DATAGRAM);
    world.link.loss_permille = 0;
    world.run(5 * SECOND);
    let delivered = world.run(5 * SECOND)[0];
    assert!(delivered * 10 > world.capacity(5 * SECOND) * 9, "{delivered}");
}

#[test]
fn one_event_reduces_once() {
    let (mut cubic, rtt) = (Cubic::new(DATAGRAM), path());
    cubic.on_lost(&lost(100, 50, false), &rtt);
    assert_eq!(cubic.window(), 8_400);
    cubic.on_lost(&lost(110, 90, false), &rtt);
    cubic.on_lost(&lost(120, 100, false), &rtt);
    assert_eq!(cubic.window(), 8_400, "sent before the reduction");
    cubic.on_acknowledged(&acknowledged(130, 100, 8_400), &rtt);
    assert_eq!(cubic.window(), 8_400, "nor does it grow by what was sent before");
    cubic.on_lost(&lost(200, 101, false), &rtt);
    assert_eq!(cubic.window(), 5_880);
    for now in 1_000..1_010 {
        cubic.on_lost(&lost(now * 2, now * 2 - 1, false), &rtt);
    }
    assert_eq!(cubic.window(), 2 * DATAGRAM);
}

#[test]
fn what_is_called_lost_too_early_costs_nothing() {
    let (mut cubic, rtt) = (Cubic::new(DATAGRAM), path());
    cubic.on_acknowledged(&acknowledged(20_000, 1, 12_000), &rtt);
    cubic.on_lost(&lost(30_000, 10_000, false), &rtt);
    assert_eq!(cubic.window(), 16_800);
    cubic.on_spurious_loss(at(10_000));
    assert_eq!(cubic.window(), 24_000);
    cubic.on_spurious_loss(at(10_000));
    cubic.on_acknowledged(&acknowledged(40_000, 20_001, 12_000), &rtt);
    assert_eq!(cubic.window(), 36_000, "it starts on as if nothing had been");
}

#[test]
fn what_arrives_of_an_older_event_undoes_nothing() {
    let (mut cubic, rtt) = (Cubic::new(DATAGRAM), path());
    cubic.on_lost(&lost(100, 50, false), &rtt);
    cubic.on_lost(&lost(300, 200, false), &rtt);
    cubic.on_spurious_loss(at(50));
    assert_eq!(cubic.window(), 5_880);
    cubic.on_spurious_loss(at(200));
    assert_eq!(cubic.window(), 8_400, "the newer one is still to be undone");
}

#[test]
fn a_limited_sender_does_not_grow() {
    let (mut cubic, rtt) = (Cubic::new(DATAGRAM), path());
    cubic.on_acknowledged(&Acknowledged { limited: true, ..acknowledged(20_000, 1, 12_000) }, &rtt);
    assert_eq!(cubic.window(), 12_000);
}

#[test]
fn persistent_congestion_begins_anew_up_to_where_it_was() {
    let (mut cubic, rtt) = (Cubic::new(DATAGRAM), path());
    for round in 1..5 {
        cubic.on_acknowledged(&acknowledged(round * 20_000, round * 20_000 - 1, 12_000), &rtt);
    }
    cubic.on_lost(&lost(SECOND, 900_000, true), &rtt);
    assert_eq!(cubic.window(), 2 * DATAGRAM);
    cubic.on_acknowledged(&acknowledged(SECOND + 20_000, SECOND + 1, 2_400), &rtt);
    assert_eq!(cubic.window(), 4 * DATAGRAM, "it starts slowly, not by growing slowly");
}

#[test]
fn the_first_window_is_one_of_the_datagrams_that_the_path_carries() {
    let mut cubic = Cubic::new(DATAGRAM);
    cubic.on_datagram_bytes(8_972);
    assert_eq!((cubic.window(), cubic.rate()), (89_720, None));
}
