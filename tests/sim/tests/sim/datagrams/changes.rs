//! Paths that change, fail, disturb and move while they are used.

use sealane_protocol::Moment;
use sealane_protocol::connection::ClosedBy;
use sealane_sim::datagrams::{Crossing, Flow, Link, Steps, address_of_initiator};
use sealane_types::{CongestionChoice, Reason};

use super::bench::{DELAY_MICROS, PIPE_BYTES, RATE, SECOND, goodput, link, tuning};

const BOTH: [CongestionChoice; 2] = [CongestionChoice::Bbr, CongestionChoice::Cubic];
/// UDP payload of Ethernet's frames, and of the smallest that IPv6 allows.
const ETHERNET_BYTES: usize = 1_472;
const NARROW_BYTES: usize = 1_252;

/// One flow over the usual path, flooding since a second.
fn flooding(congestion: CongestionChoice, there: Link) -> (Crossing, Flow) {
    let mut crossing = Crossing::new(13, there, link());
    let flow = crossing.establish(tuning(congestion), |path| path.delay_micros = DELAY_MICROS);
    crossing.flood(flow);
    crossing.network.run(SECOND);
    (crossing, flow)
}

fn assert_unharmed(crossing: &Crossing, flow: Flow) {
    assert_eq!(crossing.closed(flow), [None, None], "{:?}", crossing.fails(flow));
}

#[test]
fn a_rate_that_changes_is_used_within_seconds() {
    for congestion in BOTH {
        let at = |seconds| Moment::from_micros(seconds * SECOND);
        let rates = Steps::always(RATE).then(at(6), RATE / 5).then(at(14), RATE);
        let (mut crossing, flow) = flooding(congestion, Link::new(rates, PIPE_BYTES));
        crossing.network.run_until(at(9));
        let [down] = crossing.rates([flow], 5 * SECOND);
        crossing.network.run_until(at(19));
        let [up] = crossing.rates([flow], 3 * SECOND);
        println!("{congestion:?}: {} ‰ of a fifth, then {} ‰ of all", down * 5_000 / RATE, up * 1_000 / RATE);
        assert!(down >= RATE / 5 * 85 / 100, "{congestion:?}: {down}");
        assert!(up >= RATE * 80 / 100, "{congestion:?}: {up}");
    }
}

/// The queue stays what it was, and so is a tenth of what a path holds that is ten times as long.
#[test]
fn a_path_that_becomes_long_is_used() {
    for (congestion, times, seconds, percent) in [
        (CongestionChoice::Cubic, 4, 20, 80),
        (CongestionChoice::Bbr, 2, 20, 80),
        (CongestionChoice::Bbr, 4, 5, 80),
        (CongestionChoice::Bbr, 10, 5, 60),
    ] {
        let (mut crossing, flow) = flooding(congestion, link());
        crossing.change(flow, |path| path.delay_micros = times * DELAY_MICROS);
        let [meanwhile] = crossing.rates([flow], seconds * SECOND);
        let [rate] = crossing.rates([flow], 5 * SECOND);
        let [meanwhile, then] = [meanwhile, rate].map(|rate| rate * 1_000 / RATE);
        println!(
            "{congestion:?}: {meanwhile} ‰ of a path {times} times as long for {seconds} s, then {then} ‰"
        );
        assert!(rate >= RATE * percent / 100, "{congestion:?}: {rate} on a path {times} times as long");
    }
}

#[test]
fn a_silence_of_ten_seconds_is_survived_and_one_of_thirty_is_not() {
    for congestion in BOTH {
        for (silence, survived) in [(1, true), (10, true), (30, false)] {
            let (mut crossing, flow) = flooding(congestion, link());
            let now = crossing.network.now();
            let until = now.plus_micros(silence * SECOND);
            crossing.change(flow, |path| path.blackholes.push(now..until));
            crossing.network.run_until(until);
            crossing.network.run(5 * SECOND);
            if survived {
                assert_unharmed(&crossing, flow);
                let [rate] = crossing.rates([flow], 2 * SECOND);
                println!("{congestion:?}, {} ‰ of the link after {silence} s", rate * 1_000 / RATE);
                assert!(rate >= RATE * 80 / 100, "{congestion:?}: {rate} after {silence} s");
            } else {
                assert_eq!(crossing.closed(flow), [Some((ClosedBy::Cut, Reason::LinkLost)); 2]);
            }
        }
    }
}

#[test]
fn a_path_that_becomes_narrow_is_used_and_so_is_one_that_becomes_wide() {
    for congestion in BOTH {
        let (mut crossing, flow) = flooding(congestion, link());
        let assert_size = |crossing: &mut Crossing, bytes: usize| {
            let before = crossing.tally(flow);
            let [rate] = crossing.rates([flow], 2 * SECOND);
            let now = crossing.tally(flow);
            let mean =
                (now.sent_bytes - before.sent_bytes) / (now.sent_datagrams - before.sent_datagrams).max(1);
            assert!(rate >= RATE * 80 / 100, "{congestion:?}: {rate} with datagrams of {bytes}");
            assert!((bytes as u64 - 40..=bytes as u64).contains(&mean), "{congestion:?}: {mean} of {bytes}");
        };
        assert_size(&mut crossing, ETHERNET_BYTES);
        crossing.change(flow, |path| path.datagram_bytes_max = Steps::always(NARROW_BYTES));
        crossing.network.run(5 * SECOND);
        assert_size(&mut crossing, NARROW_BYTES);
        crossing.change(flow, |path| path.datagram_bytes_max = Steps::always(ETHERNET_BYTES));
        // A wider path is looked for every ten minutes.
        crossing.network.act(flow.initiator, |speaker, _| speaker.floods = false);
        crossing.network.run(600 * SECOND);
        crossing.flood(flow);
        crossing.network.run(2 * SECOND);
        assert_size(&mut crossing, ETHERNET_BYTES);
        assert_unharmed(&crossing, flow);
    }
}

#[test]
fn who_moves_again_and_again_goes_on() {
    for congestion in BOTH {
        let (mut crossing, flow) = flooding(congestion, link());
        for moves in 1..=5 {
            let now = crossing.network.now();
            crossing.network.rebind(flow.initiator, now, address_of_initiator(0, moves));
            crossing.network.run(2 * SECOND);
            let [rate] = crossing.rates([flow], SECOND);
            assert!(rate >= RATE * 80 / 100, "{congestion:?}, moved {moves} times: {rate}");
            let engine = crossing.network.node(flow.responder).party.engine.as_ref().unwrap();
            assert_eq!(engine.remote(), address_of_initiator(0, moves));
        }
        assert_unharmed(&crossing, flow);
    }
}

#[test]
fn disturbances_cost_less_than_half() {
    for congestion in BOTH {
        let reordered = goodput(congestion, 2, 3, |path| {
            (path.reordered_permille, path.reordered_micros_max) = (200, 5_000);
        });
        let jittered = goodput(congestion, 2, 3, |path| path.jitter_micros = 5_000);
        let doubled = goodput(congestion, 2, 3, |path| path.duplicated_permille = 100);
        println!("{congestion:?}: {reordered} ‰ reordered, {jittered} ‰ jittered, {doubled} ‰ doubled");
        for share in [reordered, jittered, doubled] {
            assert!(share >= 500, "{congestion:?}: {share} ‰");
        }
    }
    let corrupted = goodput(CongestionChoice::Bbr, 2, 3, |path| path.corrupted_permille = 10);
    let bursts = goodput(CongestionChoice::Bbr, 2, 3, |path| {
        (path.burst_permille, path.burst_datagrams_max) = (2, 10);
    });
    println!("BBR: {corrupted} ‰ corrupted, {bursts} ‰ with losses in bursts");
    assert!(corrupted >= 900 && bursts >= 850, "{corrupted} ‰ and {bursts} ‰");
}
