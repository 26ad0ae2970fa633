//! Connections that are attested again while they live.

use sealane_attestation::binding::Role;
use sealane_protocol::connection::{ApiMisuse, ClosedBy, Event, Fail, RenewError};
use sealane_protocol::frame::Sequence;
use sealane_protocol::handshake::{KeyExchange, Kind, Suite};
use sealane_protocol::limits::{HANDSHAKE_DEADLINE_MICROS, REATTEST_INTERVAL_MICROS_MIN};
use sealane_support::rogue::{Opposed, RogueIs, frame};
use sealane_types::{Cipher, Reason};

use super::forwarding::Pipes;
use super::support::{Held, Pair, Recipe, STREAM, Side, open_frame, taken_frame};

/// Established long enough to be attested again.
fn settled(recipe: Recipe) -> Pair {
    let mut pair = Pair::connected_of(recipe);
    pair.now = pair.now.plus_micros(REATTEST_INTERVAL_MICROS_MIN);
    pair
}

fn begin(pair: &mut Pair) {
    pair.initiator.connection.reattest(pair.now, &mut pair.random).unwrap();
}

fn reattested(side: &Side) -> usize {
    side.events.iter().filter(|event| matches!(event, Event::Reattested)).count()
}

fn send_both_ways(pair: &mut Pair) {
    let before = (pair.initiator.seen.0.len(), pair.responder.seen.0.len());
    let connection = &mut pair.initiator.connection;
    connection.send_bytes(STREAM, Sequence(1), 0, &[0; 10_000][..]).unwrap();
    pair.responder.connection.send(&taken_frame(&[Sequence(1)])).unwrap();
    pair.run();
    let after = (pair.initiator.seen.0.len(), pair.responder.seen.0.len());
    assert_eq!(after, (before.0 + 1, before.1 + 1));
}

#[test]
fn both_sides_prove_themselves_again_and_the_keys_are_new() {
    let mut pair = settled(Recipe::default());
    pair.initiator.connection.send(&open_frame()).unwrap();
    pair.run();
    send_both_ways(&mut pair);
    for round in 1..=3 {
        let quotes = |side: &Side| {
            side.events.iter().filter(|event| matches!(event, Event::EvidenceWanted(_))).count()
        };
        begin(&mut pair);
        pair.run();
        for side in [&pair.initiator, &pair.responder] {
            assert_eq!((reattested(side), quotes(side)), (round, round + 1));
            let updates = u64::try_from(round).unwrap();
            assert_eq!(side.connection.key_updates(), (updates, updates));
            assert!(side.connection.is_established());
        }
        send_both_ways(&mut pair);
        pair.now = pair.now.plus_micros(REATTEST_INTERVAL_MICROS_MIN);
    }
    assert_eq!(pair.initiator.connection.public_id(), pair.responder.connection.public_id());
}

#[test]
fn in_pieces_and_with_classical_keys_too() {
    for classical in [false, true] {
        let exchange = if classical { KeyExchange::Classical } else { KeyExchange::Hybrid };
        let suite = Suite::new(exchange, Cipher::ChaCha20Poly1305);
        let mut pair = settled(Recipe::with_suites(&[suite], classical));
        pair.fragmented = true;
        begin(&mut pair);
        pair.run();
        assert_eq!((reattested(&pair.initiator), reattested(&pair.responder)), (1, 1));
        send_both_ways(&mut pair);
    }
}

#[test]
fn data_flows_while_a_side_thinks() {
    for held in [Held::Quote, Held::Verdict] {
        let mut pair = settled(Recipe::default());
        pair.responder.held = vec![held];
        begin(&mut pair);
        pair.run();
        send_both_ways(&mut pair);
        assert_eq!(reattested(&pair.initiator), 0, "{held:?}");
    }
}

#[test]
fn only_the_side_that_dialled_begins_and_neither_soon_nor_twice() {
    let mut pair = Pair::connected();
    let mut random = sealane_support::world::Counter(5);
    let early = pair.initiator.connection.reattest(pair.now, &mut random);
    assert_eq!(early, Err(RenewError::NotNow));
    pair.now = pair.now.plus_micros(REATTEST_INTERVAL_MICROS_MIN);
    let other = pair.responder.connection.reattest(pair.now, &mut random);
    assert_eq!(other, Err(RenewError::NotNow));
    begin(&mut pair);
    let twice = pair.initiator.connection.reattest(pair.now, &mut random);
    assert_eq!(twice, Err(RenewError::NotNow));
    let unasked = pair.initiator.connection.answer_reattestation(&mut random);
    assert_eq!(unasked, Err(ApiMisuse::NotAwaited));

    let mut audit = settled(Recipe { kind: Kind::Audit, ..Recipe::default() });
    let audit = audit.initiator.connection.reattest(audit.now, &mut random);
    assert_eq!(audit, Err(RenewError::NotNow), "an audit carries nothing that could be renewed");
}

/// The two sides are over with the handshake at different moments, and the side that was dialled may be so much later.
#[test]
fn a_side_that_is_asked_a_little_too_early_answers_and_one_that_is_asked_much_too_early_does_not() {
    for (micros, refused) in
        [(REATTEST_INTERVAL_MICROS_MIN / 2 - 1, true), (REATTEST_INTERVAL_MICROS_MIN / 2, false)]
    {
        let mut opposed = Opposed::established(RogueIs::Initiator);
        opposed.now = opposed.now.plus_micros(micros);
        let renew = frame(0x09, &[&[1][..], &[7; 64]].concat());
        let heard = opposed.say(&renew, &mut Pipes::new(Role::Initiator));
        assert_eq!(matches!(heard, Err(Fail::Limit(_))), refused, "{micros}: {heard:?}");
    }
}

/// Nor is its shell asked.
#[test]
fn a_side_that_was_dialled_and_begins_is_refused() {
    for step in 1..=3 {
        let mut opposed = Opposed::established(RogueIs::Responder);
        opposed.now = opposed.now.plus_micros(REATTEST_INTERVAL_MICROS_MIN);
        let renew = frame(0x09, &[&[step][..], &[7; 64]].concat());
        let refused = opposed.say(&renew, &mut Pipes::new(Role::Responder));
        assert!(matches!(refused, Err(Fail::Order(_))), "{step}: {refused:?}");
        assert!(opposed.honest.is_closed());
        assert!(!opposed.events.iter().any(|event| matches!(event, Event::ReattestationAsked)));
    }
}

#[test]
fn evidence_of_the_first_handshake_does_not_renew_it() {
    let mut pair = settled(Recipe::default());
    let first = pair.initiator.events.iter().find_map(|event| match event {
        Event::EvidenceWanted(wanted) => Some(wanted.leaf),
        _ => None,
    });
    pair.initiator.held = vec![Held::Quote];
    begin(&mut pair);
    pair.run();
    let Side { guest, local, policy, .. } = &pair.initiator;
    let replayed = guest.prove(first.unwrap(), local, policy);
    pair.initiator.connection.supply_evidence(&replayed).unwrap();
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::EvidenceNotBound)));
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Remote, Reason::EvidenceNotBound)));
}

#[test]
fn a_side_answers_what_it_is_asked_and_nothing_else() {
    let mut pair = settled(Recipe::default());
    let first = pair.initiator.events.iter().find_map(|event| match event {
        Event::EvidenceWanted(wanted) => Some(wanted.leaf),
        _ => None,
    });
    pair.initiator.held = vec![Held::Quote];
    begin(&mut pair);
    pair.run();
    // The one is to prove itself, the other waits for that.
    let stored = pair.initiator.connection.peer().unwrap().clone();
    assert_eq!(pair.initiator.connection.judged(Ok(stored)), Err(ApiMisuse::NotAwaited));
    let Side { guest, local, policy, .. } = &pair.responder;
    let early = guest.prove(first.unwrap(), local, policy);
    assert_eq!(pair.responder.connection.supply_evidence(&early), Err(ApiMisuse::NotAwaited));
}

#[test]
fn a_side_that_is_refused_loses_the_connection() {
    let mut pair = settled(Recipe::default());
    pair.responder.held = vec![Held::Verdict];
    begin(&mut pair);
    pair.run();
    assert!(pair.responder.received.is_some());
    // A verdict about stored claims, given meanwhile, is not the one that is waited for.
    let stored = pair.responder.connection.peer().unwrap().clone();
    pair.responder.connection.reconsidered(Ok(stored)).unwrap();
    pair.run();
    assert_eq!(reattested(&pair.responder), 0);
    pair.responder.connection.judged(Err(Reason::TcbTooLow)).unwrap();
    pair.run();
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Remote, Reason::TcbTooLow)));
}

#[test]
fn a_side_that_proves_nothing_in_time_loses_the_connection() {
    for silent in [true, false] {
        let mut pair = settled(Recipe::default());
        let side = if silent { &mut pair.initiator } else { &mut pair.responder };
        side.held = vec![Held::Quote];
        begin(&mut pair);
        pair.run();
        let due = pair.initiator.connection.poll_timeout().unwrap();
        assert!(due <= pair.now.plus_micros(HANDSHAKE_DEADLINE_MICROS));
        pair.advance(HANDSHAKE_DEADLINE_MICROS);
        let closed = [&pair.initiator, &pair.responder].map(|side| side.closed());
        assert!(closed.contains(&Some((ClosedBy::Local, Reason::HandshakeTimeout))), "{closed:?}");
    }
}
