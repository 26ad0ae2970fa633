//! Keys that are replaced by the clock, on connections that say little.

use sealane_protocol::record::Rekey;
use sealane_support::world::Counter;

use super::net::Net;

const SECOND: u64 = 1_000_000;

/// An established connection whose keys are replaced every `seconds`.
fn rekeying(seconds: u64) -> Net {
    let mut net = Net::streaming();
    for party in [&mut net.initiator, &mut net.responder] {
        party.side.connection.rotate(Some(Rekey::new(0, 0, seconds * SECOND)));
    }
    net
}

#[track_caller]
fn assert_lives(net: &Net, seconds: u64) {
    for party in [&net.initiator, &net.responder] {
        assert_eq!(party.side.closed(), None, "every {seconds} s: {:?}", party.side.fail);
    }
}

/// Nothing is said but that both sides live, every five seconds.
#[test]
fn an_idle_connection_lives_however_short_the_life_of_its_keys() {
    for seconds in 1..10 {
        let mut net = rekeying(seconds);
        for _ in 0..10 {
            net.run_for(6 * SECOND);
            assert_lives(&net, seconds);
        }
        for party in [&net.initiator, &net.responder] {
            let (sent, opened) = party.side.connection.key_updates();
            assert!(sent >= 5 && opened >= 5, "every {seconds} s: {sent} and {opened} in a minute");
        }
    }
}

/// Nobody takes what arrives, so that nothing but acknowledgements goes back, and each begins a phase.
#[test]
fn who_only_acknowledges_replaces_its_keys_in_time() {
    for seconds in 1..4 {
        let mut net = rekeying(seconds);
        let before = net.responder.side.connection.key_updates().0;
        for sequence in 0..20 {
            net.push(sequence, vec![1; 10]);
            net.run_for(seconds * SECOND * 6 / 5);
            assert_lives(&net, seconds);
        }
        let updates = net.responder.side.connection.key_updates().0 - before;
        assert!(updates >= 19, "{updates} in twenty times {seconds} s");
    }
}

#[test]
fn a_silence_that_a_connection_survives_its_keys_survive() {
    for seconds in 1..10 {
        // A key is replaced with the last packet that arrives; its acknowledgement does not.
        for late in 0..5 {
            let mut net = rekeying(seconds);
            net.run_for(6 * SECOND + late * SECOND);
            let silent = net.now.plus_micros(100)..net.now.plus_micros(14 * SECOND);
            net.push(0, vec![1; 10]);
            net.bend = Box::new(move |_, now, _| usize::from(!silent.contains(&now)));
            net.run_for(20 * SECOND);
            assert_lives(&net, seconds);
        }
    }
}

#[test]
fn a_renewal_that_takes_long_does_not_make_keys_too_old() {
    let mut net = rekeying(1);
    net.run_for(6 * SECOND);
    net.initiator.side.connection.reattest(net.now, &mut Counter(7)).unwrap();
    let silent = net.now.plus_micros(200)..net.now.plus_micros(7 * SECOND);
    net.bend = Box::new(move |_, now, _| usize::from(!silent.contains(&now)));
    net.run_for(20 * SECOND);
    assert_lives(&net, 1);
}
