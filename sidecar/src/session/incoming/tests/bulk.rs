//! Bytes of tensors that come in records of their own, from a rogue that seals whatever it likes.

use sealane_protocol::connection::Fail;
use sealane_protocol::limits::BULK_BYTES_MAX;
use sealane_protocol::record::RecordError;
use sealane_support::rogue::{BULK, DATA, Opposed, RogueIs, bulk};

use super::*;

const LENGTH: usize = 70_000;
const FULL: usize = 65_536;

/// A verified connection, and what is behind it here.
struct Sealed {
    opposed: Opposed,
    wire: Wire,
}

impl Sealed {
    /// With lane 1 as stream 1.
    fn connect(receiving: &Arc<Receiving>) -> Self {
        let mut wire = Wire::connect(receiving);
        wire.opens(1, 1).unwrap();
        Self { opposed: Opposed::established(RogueIs::Initiator), wire }
    }

    /// A tensor of these bytes in bulk records.
    fn records(&mut self, sequence: u64, bytes: &[u8]) -> Vec<u8> {
        self.records_at(sequence, 0, bytes)
    }

    fn records_at(&mut self, sequence: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
        let seal = &mut self.opposed.rogue.seal;
        let frame = seal.seal(DATA, &bulk(1, sequence, offset, u32::try_from(bytes.len()).unwrap()));
        let records = bytes.chunks(FULL).map(|part| seal.seal(BULK, part));
        frame.into_iter().chain(records.flatten()).collect()
    }

    fn deliver(&mut self, records: &[u8]) -> Result<(), Fail> {
        self.opposed.deliver(records, &mut self.wire.attached)
    }

    fn puts(&mut self, sequence: u64, bytes: &[u8]) -> Result<(), Fail> {
        self.wire.announces(1, sequence, bytes.len() as u64).unwrap();
        let records = self.records(sequence, bytes);
        self.deliver(&records)
    }
}

/// Spoils the tag of the last record: who opens it says so, and who refuses it before that gives another reason.
fn spoil(records: &mut [u8]) {
    *records.last_mut().unwrap() ^= 1;
}

/// The bytes of the tensors that lie in the client's memory.
fn held(client: &Client) -> Vec<Vec<u8>> {
    client.arena.slots.lock().unwrap().values().cloned().collect()
}

#[tokio::test]
async fn a_tensor_is_opened_into_its_place() {
    let receiving = receiving();
    let mut client = Client::open(&receiving, 1 << 20).await;
    let mut sealed = Sealed::connect(&receiving);
    let bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    sealed.puts(4, &bytes).unwrap();
    assert_eq!(client.turns(), ["4"]);
    assert_eq!(held(&client), [bytes]);
}

#[tokio::test]
async fn what_has_no_place_yet_is_put_aside() {
    let receiving = receiving();
    let mut sealed = Sealed::connect(&receiving);
    sealed.puts(4, &[7; LENGTH]).unwrap();
    let mut client = Client::open(&receiving, 1 << 20).await;
    assert_eq!(client.turns(), ["4"]);
    assert_eq!(held(&client), [vec![7; LENGTH]]);
}

#[tokio::test]
async fn a_tensor_whose_last_record_does_not_verify_comes_again() {
    let receiving = receiving();
    let mut client = Client::open(&receiving, 1 << 20).await;
    let mut sealed = Sealed::connect(&receiving);
    sealed.wire.announces(1, 4, LENGTH as u64).unwrap();
    let mut records = sealed.records(4, &[6; LENGTH]);
    spoil(&mut records);
    assert_eq!(sealed.deliver(&records), Err(Fail::Record(RecordError::Tag)));
    assert_eq!(client.turns(), [""; 0]);
    drop(sealed);
    let mut sealed = Sealed::connect(&receiving);
    sealed.puts(4, &[7; LENGTH]).unwrap();
    assert_eq!(client.turns(), ["4"]);
    assert_eq!(held(&client), [vec![7; LENGTH]]);
}

#[tokio::test]
async fn a_tensor_that_is_known_is_opened_and_dropped() {
    let receiving = receiving();
    let mut client = Client::open(&receiving, 1 << 20).await;
    Sealed::connect(&receiving).puts(4, &[7; LENGTH]).unwrap();
    let mut sealed = Sealed::connect(&receiving);
    sealed.puts(4, &[8; LENGTH]).unwrap();
    sealed.puts(5, &[9; LENGTH]).unwrap();
    assert_eq!(client.turns(), ["4", "5"]);
    assert_eq!(held(&client), [vec![7; LENGTH], vec![9; LENGTH]]);
}

/// A client's memory that fails ends its lane, and not the connection, on which other lanes go on.
#[tokio::test]
async fn memory_that_fails_costs_the_lane_its_tensor_and_nobody_a_record() {
    let receiving = receiving();
    let mut client = Client::open(&receiving, 1 << 20).await;
    let mut sealed = Sealed::connect(&receiving);
    client.arena.broken.store(true, Ordering::Relaxed);
    sealed.puts(4, &[7; LENGTH]).unwrap();
    assert_eq!(client.turns(), ["failed"]);
    let mut healthy = Client::open(&receiving, 1 << 20).await;
    sealed.puts(5, &[9; LENGTH]).unwrap();
    assert_eq!(healthy.turns(), ["5"]);
    assert_eq!(held(&healthy), [vec![9; LENGTH]]);
}

#[tokio::test]
async fn bytes_beyond_the_tensor_or_of_another_are_refused_before_they_are_opened() {
    let receiving = receiving();
    let client = Client::open(&receiving, 1 << 20).await;
    let malformed = Err(Fail::Sink(Reason::FrameMalformed));
    let mut sealed = Sealed::connect(&receiving);
    sealed.wire.announces(1, 4, 100).unwrap();
    let mut records = sealed.records(4, &[7; 101]);
    spoil(&mut records);
    assert_eq!(sealed.deliver(&records), malformed);
    let mut sealed = Sealed::connect(&receiving);
    sealed.wire.announces(1, 4, 100).unwrap();
    sealed.wire.announces(1, 5, 100).unwrap();
    let mut records = sealed.records(5, &[7; 100]);
    spoil(&mut records);
    assert_eq!(sealed.deliver(&records), malformed, "it is not the one that arrives");
    assert!(held(&client).concat().iter().all(|byte| *byte == 0));
}

#[tokio::test]
async fn without_a_place_bytes_beyond_the_allowance_are_refused_before_they_are_opened() {
    let mut sealed = Sealed::connect(&receiving());
    sealed.wire.announces(1, 4, 2 * STAGING_BYTES).unwrap();
    let mut offset = 0;
    while offset < STAGING_BYTES {
        let records = sealed.records_at(4, offset, &vec![7; BULK_BYTES_MAX]);
        sealed.deliver(&records).unwrap();
        offset += BULK_BYTES_MAX as u64;
    }
    let mut records = sealed.records_at(4, offset, &[7]);
    spoil(&mut records);
    assert_eq!(sealed.deliver(&records), Err(Fail::Sink(Reason::LimitExceeded)));
}
