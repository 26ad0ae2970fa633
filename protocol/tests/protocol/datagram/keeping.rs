//! What an established connection survives, and what it does not.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

use sealane_protocol::connection::ClosedBy;
use sealane_protocol::record::Rekey;
use sealane_support::datagrams::TUNING;
use sealane_support::pair::Recipe;
use sealane_support::world::{Counter, Who};
use sealane_types::Reason;

use super::net::{DELAY_MICROS, Dice, Net, address, bytes};

/// Establishes a connection that replaces its keys every `packets`, and opens a stream.
fn rekeying(packets: u64) -> Net {
    let mut net = Net::of(
        Recipe {
            initiator: Box::new(move |local| local.rekey = Rekey::new(0, packets, 0)),
            responder: Box::new(move |local| local.rekey = Rekey::new(0, packets, 0)),
            ..Recipe::default()
        },
        TUNING,
    );
    net.stream();
    net
}

#[test]
fn keys_are_replaced_while_packets_are_lost_and_overtake_each_other() {
    for seed in 1..10 {
        let mut net = rekeying(50);
        let mut dice = Dice(seed * 104_729);
        net.bend = Box::new(move |_, _, _| if dice.one_in(8) { 0 } else { 1 });
        for sequence in 0..10 {
            net.push(sequence, bytes(sequence as u8, 100_000));
        }
        net.run_until(|net| net.taken() == 10);
        let (sent, _) = net.initiator.side.connection.key_updates();
        let (_, opened) = net.responder.side.connection.key_updates();
        assert!(sent > 5 && opened + 1 >= sent && opened <= sent, "seed {seed}: {sent} {opened}");
    }
}

#[test]
fn a_connection_is_attested_again_while_its_data_flows() {
    for seed in 1..6 {
        let mut net = rekeying(200);
        let mut dice = Dice(seed * 15_485_863);
        net.bend = Box::new(move |_, _, _| if dice.one_in(20) { 0 } else { 1 });
        net.run_for(6_000_000);
        let before = net.initiator.side.connection.public_id();
        net.initiator.side.connection.reattest(net.now, &mut Counter(77)).unwrap();
        for sequence in 0..10 {
            net.push(sequence, bytes(sequence as u8, 200_000));
        }
        net.run_until(|net| {
            let renewed = |id: Option<[u8; 32]>| id.is_some() && id != before;
            net.taken() == 10
                && renewed(net.initiator.side.connection.public_id())
                && renewed(net.responder.side.connection.public_id())
        });
        assert_eq!(net.initiator.side.connection.public_id(), net.responder.side.connection.public_id());
        for (sequence, tensor) in net.delivered() {
            assert_eq!(tensor, bytes(sequence as u8, 200_000));
        }
        net.push(10, bytes(1, 50_000));
        net.run_until(|net| net.taken() == 11);
    }
}

#[test]
fn who_moves_is_found_again_and_whoever_pretends_is_not() {
    let mut net = Net::streaming();
    net.push(0, bytes(1, 100_000));
    net.run_until(|net| net.taken() == 1);
    net.source = SocketAddr::from(([10, 0, 0, 9], 4_242));
    let moved = net.source;
    net.push(1, bytes(2, 400_000));
    net.run_until(|net| net.taken() == 2);
    assert_eq!(net.responder.engine.as_ref().unwrap().remote(), moved);
    // Somebody repeats what was said from an address of his own.
    let seen = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&seen);
    net.bend = Box::new(move |who, _, datagram| {
        if who == Who::Embedder {
            keep.borrow_mut().push(datagram.clone());
        }
        1
    });
    net.push(2, bytes(3, 100_000));
    net.run_until(|net| net.taken() == 3);
    for datagram in seen.borrow().iter() {
        net.inject(Who::Ranker, SocketAddr::from(([6, 6, 6, 6], 66)), datagram.clone());
    }
    net.run_for(50 * DELAY_MICROS);
    assert_eq!(net.responder.engine.as_ref().unwrap().remote(), moved);
}

/// Somebody on the way sends a new packet first, from his own address: little goes there, and the remote stays where it is.
#[test]
fn whoever_overtakes_with_anothers_packet_does_not_get_what_follows() {
    let mut net = Net::streaming();
    let thief = SocketAddr::from(([6, 6, 6, 6], 66));
    let stolen = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&stolen);
    net.bend = Box::new(move |who, _, datagram| {
        let first = who == Who::Embedder && keep.borrow().is_none();
        if first {
            *keep.borrow_mut() = Some(datagram.clone());
        }
        usize::from(!first)
    });
    net.push(0, bytes(1, 1_000));
    net.run_until(|_| stolen.borrow().is_some());
    let packet = stolen.borrow_mut().replace(Vec::new()).unwrap();
    net.inject(Who::Ranker, thief, packet);
    net.run_until(|net| net.taken() == 1);
    net.run_for(1_000_000);
    assert_eq!(net.responder.engine.as_ref().unwrap().remote(), address(Who::Embedder));
}

#[test]
fn what_strangers_say_changes_nothing() {
    let mut net = Net::streaming();
    let mut random = Counter(5);
    let id = net.responder.engine.as_ref().unwrap().id();
    net.push(0, bytes(1, 300_000));
    for round in 0..2_000 {
        let mut datagram = vec![0; 1 + random.below(1_400)];
        for byte in &mut datagram {
            *byte = random.below(256) as u8;
        }
        if round % 2 == 0 && datagram.len() > 20 {
            datagram[0] = 0x40 | (datagram[0] & 0x1f);
            datagram[1..9].copy_from_slice(&id.bytes());
        }
        let from = if round % 3 == 0 { address(Who::Embedder) } else { SocketAddr::from(([6, 6, 6, 6], 66)) };
        net.inject(Who::Ranker, from, datagram);
    }
    net.run_until(|net| net.taken() == 1);
    assert_eq!(net.delivered(), [(0, bytes(1, 300_000))]);
}

#[test]
fn larger_datagrams_are_found_and_a_path_that_becomes_narrow_is_noticed() {
    let mut net = Net::streaming();
    let largest = Rc::new(RefCell::new((0_usize, usize::MAX)));
    let seen = Rc::clone(&largest);
    net.bend = Box::new(move |_, _, datagram| {
        let mut seen = seen.borrow_mut();
        if datagram.len() > seen.1 {
            return 0;
        }
        seen.0 = seen.0.max(datagram.len());
        1
    });
    for sequence in 0..4 {
        net.push(sequence, bytes(sequence as u8, 1 << 20));
    }
    net.run_until(|net| net.taken() == 4);
    assert_eq!(largest.borrow().0, 1_472);
    *largest.borrow_mut() = (0, 1_300);
    for sequence in 4..24 {
        net.push(sequence, bytes(sequence as u8, 1 << 20));
    }
    net.run_until(|net| net.taken() == 24);
    // What fits is found although there is always something else to send.
    assert!((1_284..=1_300).contains(&largest.borrow().0), "{:?}", largest.borrow());
}

#[test]
fn a_blackhole_ends_the_connection_after_its_silence_and_a_short_one_does_not() {
    for (silence, survives) in [(10_000_000, true), (30_000_000, false)] {
        let mut net = Net::streaming();
        let until = net.now.plus_micros(silence);
        net.bend = Box::new(move |_, now, _| usize::from(now >= until));
        net.push(0, bytes(1, 2_000_000));
        net.run_until(|net| net.taken() == 1 || net.initiator.side.closed().is_some());
        assert_eq!(net.taken() == 1, survives);
        if !survives {
            assert_eq!(net.initiator.side.closed(), Some((ClosedBy::Cut, Reason::LinkLost)));
        }
    }
}

#[test]
fn a_close_is_heard_however_much_is_lost() {
    for seed in 1..30 {
        let mut net = Net::streaming();
        let mut dice = Dice(seed * 32_452_843);
        net.push(0, bytes(1, 100_000));
        net.run_until(|net| net.taken() == 1);
        net.bend = Box::new(move |_, _, _| usize::from(!dice.one_in(2)));
        net.initiator.side.connection.close(Reason::Draining);
        net.run_until(|net| {
            net.responder.side.closed().is_some() && net.initiator.engine.as_ref().unwrap().is_settled()
        });
        assert_eq!(net.responder.side.closed(), Some((ClosedBy::Remote, Reason::Draining)));
    }
}

#[test]
fn an_idle_connection_says_little_and_stays() {
    let mut net = Net::streaming();
    net.push(0, bytes(1, 1_000_000));
    net.run_until(|net| net.taken() == 1);
    net.run_for(2_000_000);
    let count = Rc::new(RefCell::new(0));
    let seen = Rc::clone(&count);
    net.bend = Box::new(move |_, _, _| {
        *seen.borrow_mut() += 1;
        1
    });
    net.run_for(50_000_000);
    assert!(net.initiator.side.closed().is_none() && net.responder.side.closed().is_none());
    assert!(*count.borrow() < 100, "{} datagrams in fifty seconds", count.borrow());
}
