//! Tensor bytes in records of their own: sealed from and opened to memory of applications, in no other order than announced.

use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord, Fail, SendError, Sink};
use sealane_protocol::frame::{ByteRange, Frame, Sequence};
use sealane_protocol::limits::{BULK_BYTES_MAX, BULK_BYTES_MIN, RECORD_PLAINTEXT_BYTES_MAX};
use sealane_protocol::record::RecordError;
use sealane_support::rogue::{BULK, DATA, Opposed, Posted, RogueIs, bulk};
use sealane_types::Reason;

use super::records::split;
use super::support::{Collected, Pair, STREAM, Seen};
use super::world::Who;

const RENEWED: u8 = 5;
const SEQUENCE: Sequence = Sequence(4);

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| ((at * 31) ^ (at >> 8)) as u8).collect()
}

/// An application's memory, all of one tensor.
struct Memory {
    bytes: Vec<u8>,
    /// What was opened into it.
    ranges: Vec<ByteRange>,
    frames: usize,
}

impl Memory {
    fn new(length: usize) -> Self {
        Self { bytes: vec![0xee; length], ranges: Vec::new(), frames: 0 }
    }
}

impl Sink for Memory {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        self.frames += 1;
        Ok(())
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let range = record.range();
        let place = self.bytes.get_mut(range.offset as usize..).and_then(|rest| rest.get_mut(..range.length));
        let opened = record.open_into(place.ok_or(Reason::LimitExceeded)?.into())?;
        self.ranges.push(range);
        Ok(opened)
    }
}

/// Hands everything that the initiator has to say to `memory`.
fn carry(pair: &mut Pair, memory: &mut Memory) {
    let mut flight = pair.flight(Who::Embedder);
    let used = pair.responder.connection.handle_input(pair.now, &mut flight, memory).unwrap();
    assert_eq!(used, flight.len());
}

#[test]
fn a_tensor_goes_from_memory_to_memory() {
    for length in [
        BULK_BYTES_MIN,
        RECORD_PLAINTEXT_BYTES_MAX,
        RECORD_PLAINTEXT_BYTES_MAX + 1,
        BULK_BYTES_MAX,
        1_000_001,
    ] {
        let mut pair = Pair::connected();
        let (source, mut memory) = (content(length), Memory::new(length));
        let mut offset = 0;
        while offset < length {
            match pair.initiator.connection.send_bytes(STREAM, SEQUENCE, offset as u64, &source[offset..]) {
                Ok(sent) => offset += sent,
                Err(SendError::NoRoom) => carry(&mut pair, &mut memory),
                Err(error) => panic!("{error}"),
            }
        }
        carry(&mut pair, &mut memory);
        assert!(memory.bytes == content(length), "{length}");
        // The end of a tensor that is worth no record of its own comes as a chunk.
        let full = memory.ranges.iter().filter(|range| range.length == RECORD_PLAINTEXT_BYTES_MAX).count();
        assert_eq!(full, length / RECORD_PLAINTEXT_BYTES_MAX, "{length}");
        assert!(memory.ranges.iter().all(|range| (range.stream, range.sequence) == (STREAM, SEQUENCE)));
    }
}

#[test]
fn few_bytes_share_a_record_with_other_frames() {
    let mut pair = Pair::connected();
    let source = content(BULK_BYTES_MIN - 1);
    for sequence in 0..3 {
        let sent = pair.initiator.connection.send_bytes(STREAM, Sequence(sequence), 0, &source[..]);
        assert_eq!(sent, Ok(BULK_BYTES_MIN - 1));
    }
    let flight = pair.flight(Who::Embedder);
    assert_eq!(split(&flight).iter().map(|record| record[0]).collect::<Vec<_>>(), [DATA]);
    pair.deliver(Who::Ranker, &flight);
    let expected = |sequence| Seen::Chunk { sequence: Sequence(sequence), offset: 0, bytes: source.clone() };
    assert_eq!(pair.responder.seen.0, [expected(0), expected(1), expected(2)]);
}

#[test]
fn who_has_no_place_gets_chunks() {
    let mut pair = Pair::connected();
    let source = content(200_000);
    pair.initiator.connection.send_bytes(STREAM, SEQUENCE, 7, &source[..]).unwrap();
    let flight = pair.flight(Who::Embedder);
    assert_eq!(
        split(&flight).iter().map(|record| record[0]).collect::<Vec<_>>(),
        [DATA, BULK, BULK, BULK, BULK]
    );
    pair.deliver(Who::Ranker, &flight);
    let mut arrived = Vec::new();
    for seen in &pair.responder.seen.0 {
        let Seen::Chunk { sequence: SEQUENCE, offset, bytes } = seen else { panic!("{seen:?}") };
        assert_eq!(*offset, 7 + arrived.len() as u64);
        arrived.extend_from_slice(bytes);
    }
    assert!(arrived == source);
}

/// Each way to change the second of three bulk records ends the connection, and what was to be opened there is zero.
#[test]
fn a_record_that_does_not_verify_leaves_zeros_and_ends_the_connection() {
    for at in [4, 5, 30_000, 4 + RECORD_PLAINTEXT_BYTES_MAX, 3 + RECORD_PLAINTEXT_BYTES_MAX + 16] {
        let mut pair = Pair::connected();
        let source = content(3 * RECORD_PLAINTEXT_BYTES_MAX);
        pair.initiator.connection.send_bytes(STREAM, SEQUENCE, 0, &source[..]).unwrap();
        let mut records = split(&pair.flight(Who::Embedder));
        records[2][at] ^= 1;
        let mut memory = Memory::new(source.len());
        let mut input = records.concat();
        let refused = pair.responder.connection.handle_input(pair.now, &mut input, &mut memory);
        assert_eq!(refused, Err(Fail::Record(RecordError::Tag)));
        assert!(pair.responder.connection.is_closed());
        let (first, rest) = memory.bytes.split_at(RECORD_PLAINTEXT_BYTES_MAX);
        let (second, third) = rest.split_at(RECORD_PLAINTEXT_BYTES_MAX);
        assert!(first == &source[..first.len()] && memory.ranges.len() == 1, "what came before is genuine");
        assert!(second.iter().all(|byte| *byte == 0) && third.iter().all(|byte| *byte == 0xee));
    }
}

#[test]
fn records_that_are_left_out_or_change_places_are_refused() {
    for order in [&[0, 2][..], &[0, 2, 1, 3], &[1], &[0, 1, 1], &[0, 1, 2, 4], &[2, 0]] {
        let mut pair = Pair::connected();
        let source = content(3 * RECORD_PLAINTEXT_BYTES_MAX);
        let connection = &mut pair.initiator.connection;
        connection.send_bytes(STREAM, SEQUENCE, 0, &source[..]).unwrap();
        connection.send(&super::support::open_frame()).unwrap();
        let records = split(&pair.flight(Who::Embedder));
        assert_eq!(records.len(), 5);
        let mut input: Vec<u8> = order.iter().flat_map(|at| records[*at].clone()).collect();
        let mut memory = Memory::new(source.len());
        let refused = pair.responder.connection.handle_input(pair.now, &mut input, &mut memory);
        assert!(matches!(refused, Err(Fail::Record(_))), "{order:?}: {refused:?}");
        assert_eq!(memory.frames, 0, "{order:?}");
    }
}

/// A verified rogue, and the memory that it may write to.
fn told(records: impl FnOnce(&mut Opposed) -> Vec<u8>) -> (Result<(), Fail>, Memory) {
    let mut opposed = Opposed::established(RogueIs::Initiator);
    let mut memory = Memory::new(100_000);
    let bytes = records(&mut opposed);
    (opposed.deliver(&bytes, &mut memory), memory)
}

const OUT_OF_PLACE: Result<(), Fail> = Err(Fail::Record(RecordError::Kind));

#[test]
fn a_key_may_change_between_bulk_records_and_nothing_else_comes() {
    const FULL: usize = RECORD_PLAINTEXT_BYTES_MAX;
    let (outcome, memory) = told(|opposed| {
        let seal = &mut opposed.rogue.seal;
        let frame = seal.seal(DATA, &bulk(1, 4, 0, FULL as u32 + 5));
        [frame, seal.update(), seal.seal(BULK, &[7; FULL]), seal.update(), seal.seal(BULK, &[8; 5])].concat()
    });
    assert_eq!((outcome, memory.ranges.len()), (Ok(()), 2));
    assert!(memory.bytes[..FULL] == [7; FULL] && memory.bytes[FULL..FULL + 6] == [8, 8, 8, 8, 8, 0xee]);
    for (kind, plaintext) in [(DATA, &[0x10, 0, 0, 0][..]), (RENEWED, &[])] {
        let (outcome, memory) = told(|opposed| {
            let seal = &mut opposed.rogue.seal;
            [seal.seal(DATA, &bulk(1, 4, 0, 5)), seal.seal(kind, plaintext), seal.seal(BULK, &[8; 5])]
                .concat()
        });
        assert_eq!((outcome, memory.ranges.len(), memory.frames), (OUT_OF_PLACE, 0, 0));
    }
}

#[test]
fn bulk_records_that_no_frame_told_of_are_refused() {
    let (outcome, _) = told(|opposed| opposed.rogue.seal.seal(BULK, &[8; 5]));
    assert_eq!(outcome, OUT_OF_PLACE);
    let (outcome, memory) = told(|opposed| {
        let seal = &mut opposed.rogue.seal;
        [seal.seal(DATA, &bulk(1, 4, 0, 5)), seal.seal(BULK, &[8; 5]), seal.seal(BULK, &[9; 5])].concat()
    });
    assert_eq!((outcome, memory.ranges.len()), (OUT_OF_PLACE, 1));
}

#[test]
fn a_bulk_record_has_the_length_that_follows_from_its_frame() {
    let full = RECORD_PLAINTEXT_BYTES_MAX;
    for (said, length) in [(5, 4), (5, 6), (full + 5, full - 1), (full + 5, 5)] {
        let (outcome, memory) = told(|opposed| {
            let seal = &mut opposed.rogue.seal;
            [seal.seal(DATA, &bulk(1, 4, 0, said as u32)), seal.seal(BULK, &vec![8; length])].concat()
        });
        assert_eq!(outcome, Err(Fail::Record(RecordError::Length)), "{said} {length}");
        assert!(memory.bytes.iter().all(|byte| *byte == 0xee));
        // Who has no place has nothing that a length could differ from.
        let (mut opposed, mut chunks) = (Opposed::established(RogueIs::Initiator), Collected::default());
        let seal = &mut opposed.rogue.seal;
        let records = [seal.seal(DATA, &bulk(1, 4, 0, said as u32)), seal.seal(BULK, &vec![8; length])];
        let outcome = opposed.deliver(&records.concat(), &mut chunks);
        assert_eq!(outcome, Err(Fail::Record(RecordError::Length)), "{said} {length}");
        assert!(chunks.0.is_empty(), "{:?}", chunks.0);
    }
}

#[test]
fn nothing_stands_between_the_frame_and_its_records() {
    let (outcome, _) = told(|opposed| {
        let frames = [bulk(1, 4, 0, 5), bulk(1, 4, 5, 5)].concat();
        opposed.rogue.seal.seal(DATA, &frames)
    });
    assert!(matches!(outcome, Err(Fail::Order(_))), "{outcome:?}");
}

#[test]
fn bulks_before_the_verdict_and_in_packets_are_refused() {
    for rogue_is in [RogueIs::Initiator, RogueIs::Responder] {
        let mut memory = Memory::new(10);
        let early = Opposed::keyed(rogue_is).say(&bulk(1, 4, 0, 5), &mut memory);
        assert!(matches!(early, Err(Fail::Order(_))), "{early:?}");
        let mut posted = Posted::established(rogue_is);
        let packed = posted.say(&bulk(1, 4, 0, 5), &mut memory);
        assert!(matches!(packed, Err(Fail::Order(_))), "{packed:?}");
    }
}
