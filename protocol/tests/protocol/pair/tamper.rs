//! Interference with the handshake and with what follows it before data flows.

use sealane_protocol::connection::{ClosedBy, Fail};
use sealane_protocol::handshake::HandshakeError;
use sealane_types::Reason;

use super::records::split;
use super::support::{Pair, Recipe};
use super::world::Who;

/// Runs a handshake in which flight number `flight` passes through `bend`.
fn bent(flight: usize, bend: impl Fn(&mut Vec<u8>)) -> Pair {
    let mut pair = Pair::new();
    let mut number = 0;
    pair.run_through(|_, mut bytes| {
        if !bytes.is_empty() {
            if number == flight {
                bend(&mut bytes);
            }
            number += 1;
        }
        bytes
    });
    pair
}

/// Lengths of the flights of an honest handshake.
fn lengths() -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut pair = Pair::new();
    pair.run_through(|_, bytes| {
        if !bytes.is_empty() {
            lengths.push(bytes.len());
        }
        bytes
    });
    assert!(pair.initiator.established().is_some());
    lengths
}

#[test]
fn a_flipped_bit_anywhere_ends_the_handshake() {
    for (flight, length) in lengths().into_iter().enumerate() {
        let step = (length / 60).max(1);
        for at in (0..length).step_by(step) {
            let pair = bent(flight, |bytes| bytes[at] ^= 0x10);
            let both = pair.initiator.established().is_some() && pair.responder.established().is_some();
            assert!(!both, "flight {flight} byte {at}");
            assert_eq!(pair.responder.seen.0, []);
        }
    }
}

#[test]
fn a_truncated_handshake_waits_and_then_times_out() {
    for (flight, length) in lengths().into_iter().enumerate() {
        for keep in [0, 1, length / 2, length - 1] {
            let mut pair = bent(flight, |bytes| bytes.truncate(keep));
            let both = pair.initiator.established().is_some() && pair.responder.established().is_some();
            assert!(!both, "flight {flight} keeping {keep}");
            pair.advance(10_000_000);
            for side in [&pair.initiator, &pair.responder] {
                // A side that was satisfied before the cut sits on an established connection that falls silent.
                let over = side.closed() == Some((ClosedBy::Local, Reason::HandshakeTimeout));
                assert!(over || side.established().is_some(), "{:?}", side.events);
            }
        }
    }
}

#[test]
fn a_replayed_first_flight_yields_no_connection() {
    let mut first = Pair::new();
    let opening = first.flight(Who::Embedder);
    let mut second = Pair::of(Recipe { seed: 2, ..Recipe::default() });
    second.deliver(Who::Ranker, &opening);
    let reply = second.flight(Who::Ranker);
    assert!(!reply.is_empty(), "anyone may send a first flight");
    // Without the ephemeral key of the first flight nobody can answer.
    let mut third = Pair::of(Recipe { seed: 3, ..Recipe::default() });
    third.flight(Who::Embedder);
    third.deliver(Who::Embedder, &reply);
    assert_eq!(third.initiator.fail, Some(Fail::Handshake(HandshakeError::Crypto)));
    second.assert_nobody_established();
}

#[test]
fn a_replayed_reply_is_refused() {
    let mut first = Pair::new();
    let opening = first.flight(Who::Embedder);
    first.deliver(Who::Ranker, &opening);
    let reply = first.flight(Who::Ranker);
    // The same initiator dials again; the network answers with the old reply.
    let key = first.initiator.local.static_key.clone();
    let mut again = Pair::of(Recipe {
        seed: 2,
        initiator: Box::new(move |local| local.static_key = key.clone()),
        ..Recipe::default()
    });
    again.flight(Who::Embedder);
    again.deliver(Who::Embedder, &reply);
    assert_eq!(again.initiator.fail, Some(Fail::Handshake(HandshakeError::Crypto)));
}

#[test]
fn an_initiator_refuses_its_own_reflection() {
    let mut pair = Pair::new();
    let opening = pair.flight(Who::Embedder);
    let hello = 10 + usize::from(opening[8]) * 256 + usize::from(opening[9]);
    for reflected in [opening.clone(), opening[hello..].to_vec()] {
        let mut pair = Pair::new();
        pair.flight(Who::Embedder);
        pair.deliver(Who::Embedder, &reflected);
        assert!(pair.initiator.fail.is_some());
        pair.assert_nobody_established();
    }
}

#[test]
fn a_side_that_uses_our_own_static_key_is_refused() {
    let mut dialler = Pair::new();
    let key = dialler.initiator.local.static_key.clone();
    let mut pair = Pair::of(Recipe {
        responder: Box::new(move |local| local.static_key = key.clone()),
        ..Recipe::default()
    });
    // The same seed gives the initiator the same key as the first pair's.
    assert_eq!(dialler.initiator.local.static_key.public(), pair.responder.local.static_key.public());
    dialler.run();
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.initiator.fail, Some(Fail::Handshake(HandshakeError::Reflected)));
}

#[test]
fn data_in_place_of_a_handshake_message_is_refused() {
    let mut pair = Pair::new();
    let opening = pair.flight(Who::Embedder);
    pair.deliver(Who::Ranker, &opening);
    let reply = pair.flight(Who::Ranker);
    let mut records = split(&reply);
    records[0][0] = 3;
    pair.deliver(Who::Embedder, &records[0]);
    assert!(pair.initiator.fail.is_some());
}

#[test]
fn garbage_is_refused_at_its_first_byte() {
    let mut pair = Pair::new();
    pair.deliver(Who::Ranker, b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(pair.responder.fail, Some(Fail::Handshake(HandshakeError::NotSealane)));
}

#[test]
fn a_forged_refusal_is_only_a_hint() {
    let mut pair = Pair::new();
    pair.flight(Who::Embedder);
    pair.deliver(Who::Embedder, &[2, 0, 0, 2, 0, Reason::PolicyExpired.code() as u8]);
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Unauthenticated, Reason::PolicyExpired)));
}

#[test]
fn a_refusal_after_keys_are_shared_is_refused() {
    let mut pair = Pair::connected();
    pair.deliver(Who::Embedder, &[2, 0, 0, 2, 0, 0]);
    assert!(pair.initiator.fail.is_some());
    assert_eq!(pair.initiator.closed().unwrap().0, ClosedBy::Local);
}

#[test]
fn a_responder_that_has_answered_refuses_no_more() {
    let mut pair = Pair::new();
    let first = pair.flight(Who::Embedder);
    pair.deliver(Who::Ranker, &first);
    pair.responder.connection.close(Reason::Finished);
    let reply = pair.flight(Who::Ranker);
    pair.deliver(Who::Embedder, &reply);
    assert_eq!(pair.initiator.fail, None, "the initiator has keys, and would take it for tampering");
    assert!(pair.flight(Who::Ranker).is_empty());
}
