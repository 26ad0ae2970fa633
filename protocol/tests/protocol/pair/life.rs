//! How long a connection lives, with all that renews or resumes it.

use sealane_policy::{Floors, VerifiedPolicy};
use sealane_protocol::connection::{ClosedBy, StartError};
use sealane_protocol::handshake::Kind;
use sealane_protocol::limits::REATTEST_INTERVAL_MICROS_MIN;
use sealane_types::Reason;

use super::support::{Pair, Recipe};
use super::world::{Counter, Who, chain_with, session, verified, view};

const SECOND: u64 = 1_000_000;

/// A policy under which connections live so long.
fn limited(epoch: u64, seconds: u64) -> VerifiedPolicy {
    let limit = |document: &mut sealane_policy::Document| document.limits.session_seconds = seconds;
    verified(&chain_with(epoch, &Floors::default(), 3600, limit)).unwrap()
}

fn connected(seconds: u64) -> Pair {
    let policy = limited(1, seconds);
    Pair::connected_of(Recipe {
        initiator_policy: policy.clone(),
        responder_policy: policy,
        ..Recipe::default()
    })
}

/// Lets so much time pass, with pings in between.
fn live(pair: &mut Pair, seconds: u64) {
    for _ in 0..seconds {
        pair.advance(SECOND);
        pair.run();
    }
}

#[track_caller]
fn assert_over(pair: &Pair) {
    let over = Some(Reason::SessionLifeOver);
    for side in [&pair.initiator, &pair.responder] {
        assert_eq!(side.closed().map(|(_, reason)| reason), over);
    }
}

#[test]
fn a_connection_ends_when_its_life_is_over_on_both_sides() {
    let mut pair = connected(60);
    live(&mut pair, 59);
    assert_eq!((pair.initiator.closed(), pair.responder.closed()), (None, None));
    live(&mut pair, 1);
    assert_over(&pair);
    // Each side sees to it by itself.
    for who in [Who::Embedder, Who::Ranker] {
        let mut pair = connected(10);
        let due = pair.now.plus_micros(10 * SECOND);
        let side = pair.side(who);
        side.connection.handle_timeout(due);
        side.drain(due);
        assert!(side.connection.is_closed());
    }
}

#[test]
fn a_shell_is_woken_for_it() {
    let mut pair = connected(10);
    live(&mut pair, 9);
    let due = pair.initiator.connection.poll_timeout().unwrap();
    assert!(due <= pair.now.plus_micros(SECOND));
}

#[test]
fn renewals_do_not_prolong_it() {
    let mut pair = connected(60);
    const { assert!(10 * SECOND >= REATTEST_INTERVAL_MICROS_MIN) };
    for _ in 0..5 {
        live(&mut pair, 10);
        pair.initiator.connection.reattest(pair.now, &mut pair.random).unwrap();
        pair.run();
    }
    live(&mut pair, 9);
    assert_eq!(pair.initiator.closed(), None);
    live(&mut pair, 1);
    assert_over(&pair);
}

#[test]
fn tickets_do_not_prolong_it() {
    let mut pair = connected(60);
    for _ in 0..5 {
        live(&mut pair, 10);
        pair.give_ticket(600);
        let ticket = pair.take_ticket();
        assert!(ticket.deadline() <= pair.now.plus_micros(60 * SECOND), "none is good for longer");
        pair = pair.resuming(ticket);
        pair.run();
    }
    live(&mut pair, 9);
    assert_eq!(pair.initiator.closed(), None);
    pair.give_ticket(600);
    let ticket = pair.take_ticket();
    assert_eq!(ticket.deadline().micros_since(pair.now), SECOND);
    live(&mut pair, 1);
    assert_over(&pair);
}

#[test]
fn a_newer_policy_may_end_it_sooner() {
    let mut pair = connected(3600);
    live(&mut pair, 30);
    pair.give_ticket(600);
    let ticket = pair.take_ticket();
    let shorter = limited(2, 20);
    // What is there ends, and what was given out is worth nothing.
    pair.responder.connection.policy_adopted(view(&shorter));
    pair.advance(0);
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::SessionLifeOver)));
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Remote, Reason::SessionLifeOver)));
    let local =
        sealane_protocol::connection::Local { policy: view(&shorter), ..pair.initiator.local.clone() };
    let setup = sealane_protocol::connection::Setup {
        local,
        kind: Kind::Full,
        expected: Who::Ranker.peer(),
        session: session(),
    };
    let begun = sealane_protocol::connection::Connection::resume(setup, ticket, &mut Counter(1), pair.now);
    assert_eq!(begun.err(), Some(StartError::Ticket));
}
