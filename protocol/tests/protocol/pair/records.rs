//! What happens to records on the way: whatever is done to them, the link ends and nothing wrong is delivered.

use proptest::prelude::*;
use sealane_protocol::connection::{ClosedBy, Fail};
use sealane_protocol::frame::Sequence;
use sealane_protocol::record::RecordError;
use sealane_types::Reason;

use super::support::{Pair, STREAM, open_frame, taken_frame};
use super::world::Who;

/// Cuts a flight into its records.
pub(crate) fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = 4 + usize::from(bytes[1]) * 65536 + usize::from(bytes[2]) * 256 + usize::from(bytes[3]);
        let (record, rest) = bytes.split_at(length);
        records.push(record.to_vec());
        bytes = rest;
    }
    records
}

/// An established pair, and five records of the initiator with one chunk each.
fn five_records() -> (Pair, Vec<Vec<u8>>) {
    let mut pair = Pair::connected();
    let mut records = Vec::new();
    for index in 0..5 {
        let connection = &mut pair.initiator.connection;
        connection.send_bytes(STREAM, Sequence(u64::from(index)), 0, &[index; 100][..]).unwrap();
        records.extend(split(&pair.flight(Who::Embedder)));
    }
    assert_eq!(records.len(), 5);
    (pair, records)
}

/// The responder's view after these records.
fn after(pair: &mut Pair, records: &[&Vec<u8>]) -> (usize, Option<Fail>) {
    for record in records {
        pair.deliver(Who::Ranker, record);
    }
    (pair.responder.seen.0.len(), pair.responder.fail)
}

const REFUSED: Option<Fail> = Some(Fail::Record(RecordError::Tag));

#[test]
fn in_order_everything_arrives() {
    let (mut pair, records) = five_records();
    assert_eq!(after(&mut pair, &records.iter().collect::<Vec<_>>()), (5, None));
}

#[test]
fn a_deleted_record_is_noticed_at_the_next_one() {
    let (mut pair, records) = five_records();
    assert_eq!(after(&mut pair, &[&records[0], &records[2]]), (1, REFUSED));
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::RecordRejected)));
    // The remote learns it, authenticated.
    pair.run();
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Remote, Reason::RecordRejected)));
}

#[test]
fn a_deleted_tail_is_no_end() {
    // The carrier's end says nothing: only a close frame ends a connection cleanly.
    let (mut pair, records) = five_records();
    after(&mut pair, &[&records[0]]);
    pair.responder.connection.handle_cut();
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Cut, Reason::LinkLost)));
}

#[test]
fn a_repeated_record_is_refused() {
    let (mut pair, records) = five_records();
    assert_eq!(after(&mut pair, &[&records[0], &records[1], &records[1]]), (2, REFUSED));
}

#[test]
fn reordered_records_are_refused() {
    let (mut pair, records) = five_records();
    assert_eq!(after(&mut pair, &[&records[1], &records[0]]), (0, REFUSED));
}

#[test]
fn a_reflected_record_is_refused() {
    // Whichever number it has, its sender awaits that very number from the other side in one of these rounds.
    for heard in 0..8 {
        let (mut pair, records) = five_records();
        for _ in 0..heard {
            pair.responder.connection.send(&taken_frame(&[Sequence(0)])).unwrap();
            let record = pair.flight(Who::Ranker);
            pair.deliver(Who::Embedder, &record);
        }
        pair.deliver(Who::Embedder, &records[0]);
        assert_eq!(pair.initiator.fail, REFUSED);
        assert_eq!(pair.initiator.seen.0.len(), heard);
    }
}

#[test]
fn a_record_of_another_connection_is_refused() {
    let (_, records) = five_records();
    let mut other = Pair::connected_of(super::support::Recipe { seed: 77, ..Default::default() });
    other.deliver(Who::Ranker, &records[0]);
    assert_eq!(other.responder.fail, REFUSED);
}

#[test]
fn a_changed_type_is_refused() {
    let (mut pair, mut records) = five_records();
    records[0][0] = 9;
    assert_eq!(after(&mut pair, &[&records[0]]), (0, Some(Fail::Record(RecordError::Kind))));
}

#[test]
fn a_truncated_record_never_opens() {
    let (mut pair, records) = five_records();
    let cut = records[0][..records[0].len() - 1].to_vec();
    assert_eq!(after(&mut pair, &[&cut]), (0, None));
    pair.responder.connection.handle_cut();
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Cut, Reason::LinkLost)));
}

#[test]
fn nothing_is_heard_after_a_failure() {
    let (mut pair, records) = five_records();
    after(&mut pair, &[&records[1], &records[0], &records[1], &records[2]]);
    assert_eq!(pair.responder.seen.0, []);
    assert!(pair.responder.connection.is_closed());
    assert_eq!(
        pair.responder.connection.send(&open_frame()).unwrap_err().to_string(),
        "the connection is not established, carries no data, or is closed"
    );
}

#[test]
fn every_bit_counts() {
    let (_, records) = five_records();
    let bits = records[0].len() * 8;
    for bit in (0..bits).step_by(7) {
        let (mut pair, mut records) = five_records();
        records[0][bit / 8] ^= 1 << (bit % 8);
        let (seen, _) = after(&mut pair, &[&records[0], &records[1]]);
        assert_eq!(seen, 0, "bit {bit}");
    }
}

#[test]
fn small_frames_share_a_record_and_wait_for_the_carrier() {
    let mut pair = Pair::connected();
    let connection = &mut pair.initiator.connection;
    for sequence in 0..100 {
        connection.send(&taken_frame(&[Sequence(sequence)])).unwrap();
    }
    let flight = pair.flight(Who::Embedder);
    assert_eq!(split(&flight).len(), 1);
    // While the carrier has not taken everything, what comes later gathers in one record behind it.
    let connection = &mut pair.initiator.connection;
    connection.send(&open_frame()).unwrap();
    let first = connection.poll_output(pair.now).to_vec();
    connection.output_written(3);
    for sequence in 0..100 {
        connection.send(&taken_frame(&[Sequence(sequence)])).unwrap();
        assert_eq!(connection.poll_output(pair.now), &first[3..]);
    }
    connection.output_written(first.len() - 3);
    let second = connection.poll_output(pair.now).to_vec();
    connection.output_written(second.len());
    assert_eq!(split(&second).len(), 1);
    assert!(connection.poll_output(pair.now).is_empty());
    pair.deliver(Who::Ranker, &flight);
    pair.deliver(Who::Ranker, &first);
    pair.deliver(Who::Ranker, &second);
    assert_eq!(pair.responder.seen.0.len(), 201);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Any prefix arrives exactly; behind any tampering nothing does.
    #[test]
    fn what_arrives_is_a_prefix(order in prop::collection::vec(0..5_usize, 0..8)) {
        let (mut pair, records) = five_records();
        for index in &order {
            pair.deliver(Who::Ranker, &records[*index]);
        }
        let prefix = order.iter().enumerate().take_while(|(at, index)| at == *index).count();
        prop_assert_eq!(pair.responder.seen.0.len(), prefix);
        prop_assert_eq!(pair.responder.fail.is_some(), prefix < order.len());
    }
}
