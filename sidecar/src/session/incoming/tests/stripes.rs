//! Bytes that come over a further link.

use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord, Fail};
use sealane_protocol::transfer::Stripe;
use sealane_support::rogue::{BULK, DATA, Opposed, RogueIs, bulk};

use super::*;
use crate::session::incoming::stream::{Brought, Over};

const LENGTH: u64 = 100;

/// A client's memory in which something happens just before bytes are opened into it.
struct Watched {
    arena: Arc<Arena>,
    before: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.arena.fmt(f)
    }
}

impl TakeArena for Watched {
    fn reserve(&self, bytes: u64) -> Result<SlotId, NoSlot> {
        self.arena.reserve(bytes)
    }

    fn with_bytes(
        &self,
        slot: SlotId,
        offset: u64,
        length: usize,
        write: &mut dyn FnMut(VolatileSlice<'_>),
    ) -> io::Result<()> {
        if let Some(before) = self.before.lock().unwrap().take() {
            before();
        }
        self.arena.with_bytes(slot, offset, length, write)
    }

    fn release(&self, slot: SlotId) {
        self.arena.release(slot);
    }

    fn freed(&self) -> Arc<Notify> {
        self.arena.freed()
    }
}

/// The receiving end of a link, for one stream.
struct Link {
    receiving: Arc<Receiving>,
    stream: Arc<Stream>,
    attachment: Attachment,
}

impl Sink for Link {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        Err(Reason::FrameMalformed)
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let (brought, opened) = self.stream.open_stripe(self.attachment, Stripe(1), record)?;
        if brought == Brought::Tensor {
            self.receiving.deliver(&self.stream);
        }
        Ok(opened)
    }
}

/// Announces tensor `sequence` of stream 1, whose bytes come over what it returns.
fn striped(receiving: &Arc<Receiving>, wire: &Wire, sequence: u64) -> Link {
    let (stream, attachment) = wire.attached.stream(StreamId(1)).unwrap();
    let header = TensorHeader::of_bytes(StreamId(1), Sequence(sequence), &LENGTH);
    let waiting = stream.announce(*attachment, &header, Over::FurtherLink, &receiving.announced).unwrap();
    receiving.request(stream, waiting.unwrap());
    Link { receiving: Arc::clone(receiving), stream: Arc::clone(stream), attachment: *attachment }
}

/// Lets `link` bring a whole tensor.
fn bring(link: &mut Link, sequence: u64, content: u8) -> Result<(), Fail> {
    let mut opposed = Opposed::established(RogueIs::Initiator);
    let seal = &mut opposed.rogue.seal;
    let mut records = seal.seal(DATA, &bulk(1, sequence, 0, u32::try_from(LENGTH).unwrap()));
    records.extend(seal.seal(BULK, &[content; LENGTH as usize]));
    opposed.deliver(&records, link)
}

#[tokio::test]
async fn tensors_are_delivered_in_the_order_of_their_announcement() {
    let receiving = receiving();
    let mut client = Client::open(&receiving, 1 << 20).await;
    let mut wire = Wire::connect(&receiving);
    wire.opens(1, 1).unwrap();
    let mut link = striped(&receiving, &wire, 0);
    wire.puts(1, 1, b"small").unwrap();
    let mut other = striped(&receiving, &wire, 2);
    bring(&mut other, 2, 9).unwrap();
    assert_eq!(client.turns(), [""; 0]);
    bring(&mut link, 0, 7).unwrap();
    assert_eq!(client.turns(), ["0", "1", "2"]);
}

#[tokio::test]
async fn a_connection_without_further_links_stripes_nothing() {
    let receiving = receiving();
    let mut wire = Wire::connect(&receiving);
    wire.opens(1, 1).unwrap();
    let header = TensorHeader::of_bytes(StreamId(1), Sequence(0), &LENGTH);
    assert_eq!(wire.says(Frame::Striped(header)), Err(Reason::FrameMalformed));
}

#[tokio::test]
async fn a_place_goes_to_nobody_else_while_a_link_opens_bytes_into_it() {
    let receiving = receiving();
    let arena = Arena::new(LENGTH);
    let watched = Arc::new(Watched { arena: Arc::clone(&arena), before: Mutex::default() });
    let (_client, mut deliveries, outlet) = receiver::lane();
    receiving.lock().hub.join(outlet.turns(), Arc::clone(&watched) as Arc<_>);
    let mut wire = Wire::connect(&receiving);
    wire.opens(1, 1).unwrap();
    let mut link = striped(&receiving, &wire, 0);
    let (taken, newer) = (Arc::clone(&arena), Arc::clone(&receiving));
    let (told, heard) = std::sync::mpsc::channel();
    *watched.before.lock().unwrap() = Some(Box::new(move || {
        // The connection is cut, and the tensor comes again over another one.
        let mut wire = Wire::connect(&newer);
        wire.opens(1, 1).unwrap();
        wire.announces(1, 0, LENGTH).unwrap();
        told.send((wire, taken.slots.lock().unwrap().len())).unwrap();
    }));
    assert_eq!(bring(&mut link, 0, 7), Err(Fail::Sink(Reason::LinkLost)));
    let (mut wire, slots) = heard.recv().unwrap();
    assert_eq!(slots, 1, "there is room for one, which the link had");
    // It was given back as the link let go of it.
    wire.brings(1, 0, &[8; LENGTH as usize]).unwrap();
    receiving.grant();
    assert!(matches!(deliveries.next_now(), Some(Turn::Tensor(_))));
    assert_eq!(arena.slots.lock().unwrap().values().next().unwrap(), &[8; LENGTH as usize]);
}

#[tokio::test]
async fn a_stream_has_not_ended_while_its_last_tensor_is_on_its_way() {
    let receiving = receiving();
    let mut client = Client::open(&receiving, 1 << 20).await;
    let mut wire = Wire::connect(&receiving);
    wire.opens(1, 1).unwrap();
    wire.announces(1, 0, 5).unwrap();
    let stream = Arc::clone(&wire.attached.stream(StreamId(1)).unwrap().0);
    // Whole, and in the hands of another task, when its stream ends.
    let (attached, attachment) = wire.attached.stream(StreamId(1)).unwrap();
    attached
        .write(*attachment, &Chunk { stream: StreamId(1), sequence: Sequence(0), offset: 0, bytes: b"whole" })
        .unwrap();
    let arrived = stream.next_whole().unwrap();
    wire.says(Frame::End(End { stream: StreamId(1), tensors: 1, bytes: 5 })).unwrap();
    assert_eq!(client.turns(), [""; 0], "its end would come before it");
    assert!(receiving.lock().hub.deliver(&stream, arrived));
    receiving.deliver(&stream);
    assert_eq!(client.turns(), ["0", "end"]);
}

/// A lane that its sender drops ends like any other: after the tensors that were whole by then.
#[tokio::test]
async fn a_stream_that_was_dropped_is_over_once_its_last_whole_tensor_was_delivered() {
    let receiving = receiving();
    let mut client = Client::open(&receiving, 1 << 20).await;
    let mut wire = Wire::connect(&receiving);
    wire.opens(1, 1).unwrap();
    wire.opens(2, 2).unwrap();
    wire.says(Frame::End(End { stream: StreamId(2), tensors: 0, bytes: 0 })).unwrap();
    wire.announces(1, 0, 5).unwrap();
    let (stream, attachment) = wire.attached.stream(StreamId(1)).unwrap();
    let (stream, attachment) = (Arc::clone(stream), *attachment);
    let chunk = Chunk { stream: StreamId(1), sequence: Sequence(0), offset: 0, bytes: b"whole" };
    stream.write(attachment, &chunk).unwrap();
    let arrived = stream.next_whole().unwrap();
    wire.says(Frame::Abort(StreamId(1))).unwrap();
    assert!(!client.turns().contains(&"end".to_owned()), "a tensor is still on its way");
    assert!(receiving.lock().hub.deliver(&stream, arrived));
    receiving.deliver(&stream);
    assert_eq!(client.turns(), ["0", "end"]);
}
