//! Keys are replaced by bytes, records and time, and never held too long.

use sealane_protocol::connection::{ClosedBy, Fail};
use sealane_protocol::frame::Sequence;
use sealane_protocol::limits::{BULK_BYTES_MIN, PHASE_MICROS_MAX};
use sealane_protocol::record::{RecordError, Rekey};
use sealane_types::Reason;

use super::records::split;
use super::support::{Pair, Recipe, STREAM, taken_frame};
use super::world::Who;

fn with(rekey: Rekey) -> Pair {
    Pair::connected_of(Recipe { initiator: Box::new(move |local| local.rekey = rekey), ..Recipe::default() })
}

fn send_bytes(pair: &mut Pair, length: usize) {
    pair.initiator.connection.send_bytes(STREAM, Sequence(1), 0, &vec![0; length][..]).unwrap();
    pair.run();
}

#[test]
fn by_bytes() {
    let mut pair = with(Rekey::new(100_000, 0, 0));
    let before = pair.initiator.connection.key_updates().0;
    for _ in 0..20 {
        send_bytes(&mut pair, 60_000);
    }
    let (sent, _) = pair.initiator.connection.key_updates();
    assert_eq!(sent - before, 9, "two chunks a phase, the last one is still open");
    assert_eq!(pair.responder.connection.key_updates(), (0, sent));
    assert_eq!(pair.responder.seen.0.len(), 20);
}

#[test]
fn by_records() {
    let mut pair = with(Rekey::new(0, 1, 0));
    let before = pair.initiator.connection.key_updates().0;
    for _ in 0..20 {
        send_bytes(&mut pair, 10);
    }
    assert_eq!(pair.initiator.connection.key_updates().0 - before, 20);
    assert_eq!(pair.responder.seen.0.len(), 20);
}

#[test]
fn by_time() {
    let mut pair = with(Rekey::new(0, 0, 1_000_000));
    for _ in 0..4 {
        send_bytes(&mut pair, 10);
        pair.advance(1_000_000);
        // Time reaches a connection with what its shell does anyway.
        pair.run();
    }
    assert_eq!(pair.initiator.connection.key_updates().0, 3);
    assert_eq!(pair.responder.seen.0.len(), 4);
}

/// The side that was dialled knows its session only now.
fn rotate(pair: &mut Pair, seconds: u64) {
    pair.initiator.connection.rotate(None);
    pair.responder.connection.rotate(Some(Rekey::new(0, 0, seconds * 1_000_000)));
}

#[test]
fn by_the_time_of_the_session_on_both_sides() {
    let mut pair = with(Rekey::new(0, 0, 60_000_000));
    rotate(&mut pair, 60);
    for _ in 0..40 {
        pair.advance(5_000_000);
        pair.run();
    }
    assert_eq!(pair.initiator.connection.key_updates(), (3, 3));
    assert_eq!(pair.responder.connection.key_updates(), (3, 3));
}

#[test]
fn keys_older_than_twice_the_interval_of_the_session_are_refused() {
    let mut pair = Pair::connected();
    rotate(&mut pair, 60);
    for (seconds, refused) in [(120, None), (1, Some(Fail::Record(RecordError::KeyOverdue)))] {
        // The remote keeps its key for an hour.
        pair.now = pair.now.plus_micros(seconds * 1_000_000);
        pair.initiator.connection.send(&taken_frame(&[Sequence(1)])).unwrap();
        let flight = pair.flight(Who::Embedder);
        pair.deliver(Who::Ranker, &flight);
        assert_eq!(pair.responder.fail, refused);
    }
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::RecordRejected)));
}

#[test]
fn within_one_batch() {
    let mut pair = with(Rekey::new(0, 2, 0));
    let connection = &mut pair.initiator.connection;
    while connection.has_room() {
        connection.send_bytes(STREAM, Sequence(1), 0, &[0; BULK_BYTES_MIN - 1][..]).unwrap();
    }
    let flight = pair.flight(Who::Embedder);
    let updates = split(&flight).iter().filter(|record| record[0] == 4).count();
    assert!(updates >= 2);
    pair.deliver(Who::Ranker, &flight);
    assert_eq!(pair.responder.fail, None);
}

#[test]
fn a_deleted_key_update_is_noticed() {
    let mut pair = with(Rekey::new(0, 1, 0));
    for sequence in 0..3 {
        pair.initiator.connection.send(&taken_frame(&[Sequence(sequence)])).unwrap();
        let flight = pair.flight(Who::Embedder);
        let records = split(&flight);
        for record in records.iter().filter(|record| record[0] == 3) {
            pair.deliver(Who::Ranker, record);
        }
    }
    assert_eq!(pair.responder.seen.0, []);
    assert_eq!(pair.responder.fail, Some(Fail::Record(RecordError::Tag)));
}

#[test]
fn a_key_that_is_never_replaced_is_refused() {
    let mut pair = Pair::connected();
    pair.initiator.connection.send(&taken_frame(&[Sequence(1)])).unwrap();
    let flight = pair.flight(Who::Embedder);
    // A remote whose clock stands still would seal under one key for ever.
    pair.now = pair.now.plus_micros(2 * PHASE_MICROS_MAX + 1);
    pair.deliver(Who::Ranker, &flight);
    assert_eq!(pair.responder.fail, Some(Fail::Record(RecordError::KeyOverdue)));
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::RecordRejected)));
}

#[test]
fn an_idle_link_keeps_its_keys_fresh() {
    let mut pair = Pair::connected();
    for _ in 0..(3 * PHASE_MICROS_MAX / 5_000_000) {
        pair.advance(5_000_000);
        pair.run();
    }
    assert!(pair.initiator.connection.is_established());
    assert!(pair.responder.connection.is_established());
    assert!(pair.initiator.connection.key_updates().0 >= 2);
}

#[test]
fn requested_triggers_never_exceed_the_bounds() {
    assert_eq!(Rekey::new(u64::MAX, u64::MAX, u64::MAX), Rekey::default());
}
