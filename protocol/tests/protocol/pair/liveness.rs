//! Deadlines, silence and the end of connections.

use sealane_protocol::connection::{ClosedBy, Fail};
use sealane_protocol::limits::{HANDSHAKE_DEADLINE_MICROS, KEEPALIVE_DEADLINE_MICROS};
use sealane_types::Reason;

use super::support::{Held, Pair, open_frame};
use super::world::Who;

#[test]
fn a_handshake_that_gets_no_answer_ends() {
    let mut pair = Pair::new();
    pair.flight(Who::Embedder);
    let due = pair.initiator.connection.poll_timeout().unwrap();
    assert_eq!(due.micros_since(pair.now), HANDSHAKE_DEADLINE_MICROS);
    pair.advance(HANDSHAKE_DEADLINE_MICROS - 1);
    assert_eq!(pair.initiator.closed(), None);
    pair.advance(1);
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Local, Reason::HandshakeTimeout)));
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::HandshakeTimeout)));
    assert_eq!(pair.initiator.connection.poll_timeout(), None);
}

#[test]
fn a_quote_that_never_comes_ends_it_too() {
    let mut pair = Pair::new();
    pair.initiator.held = vec![Held::Quote];
    pair.run();
    pair.advance(HANDSHAKE_DEADLINE_MICROS);
    pair.run();
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Local, Reason::HandshakeTimeout)));
    pair.assert_nobody_established();
}

#[test]
fn an_idle_link_stays() {
    let mut pair = Pair::connected();
    for _ in 0..100 {
        pair.advance(5_000_000);
        pair.run();
    }
    assert!(pair.initiator.connection.is_established());
    assert!(pair.responder.connection.is_established());
}

#[test]
fn a_silent_link_is_lost() {
    let mut pair = Pair::connected();
    for _ in 0..=(KEEPALIVE_DEADLINE_MICROS / 1_000_000) {
        pair.advance(1_000_000);
        // The network swallows everything.
        pair.flight(Who::Embedder);
        pair.flight(Who::Ranker);
    }
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Cut, Reason::LinkLost)));
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Cut, Reason::LinkLost)));
}

#[test]
fn a_close_is_authenticated_and_comes_behind_what_was_sent() {
    let mut pair = Pair::connected();
    pair.initiator.connection.send(&open_frame()).unwrap();
    pair.initiator.connection.close(Reason::Draining);
    assert!(pair.initiator.connection.is_closed());
    pair.run();
    assert_eq!(pair.responder.seen.0.len(), 1);
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Local, Reason::Draining)));
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Remote, Reason::Draining)));
    // Later news changes nothing.
    pair.initiator.connection.handle_cut();
    pair.responder.connection.close(Reason::Stalled);
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Remote, Reason::Draining)));
    assert_eq!(
        pair.responder.events.iter().filter(|event| format!("{event:?}").contains("Closed")).count(),
        1
    );
}

#[test]
fn a_close_fits_behind_a_full_output() {
    let mut pair = Pair::connected();
    while pair
        .initiator
        .connection
        .send(&super::support::taken_frame(&[sealane_protocol::frame::Sequence(1); 900]))
        .is_ok()
    {}
    pair.initiator.connection.close(Reason::Draining);
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Remote, Reason::Draining)));
}

#[test]
fn a_cut_is_no_close() {
    let mut pair = Pair::connected();
    pair.responder.connection.handle_cut();
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Cut, Reason::LinkLost)));
}

#[test]
fn a_closed_connection_takes_nothing() {
    let mut pair = Pair::connected();
    pair.initiator.connection.close(Reason::Finished);
    let mut input = [0; 8];
    let refused = pair.initiator.connection.handle_input(pair.now, &mut input, &mut pair.initiator.seen);
    assert_eq!(refused, Err(Fail::Closed));
}

#[test]
fn closing_before_keys_are_shared_tells_the_other_side() {
    let mut pair = Pair::new();
    let opening = pair.flight(Who::Embedder);
    pair.deliver(Who::Ranker, &opening[..5]);
    pair.responder.connection.close(Reason::Draining);
    pair.run();
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Unauthenticated, Reason::Draining)));
}
