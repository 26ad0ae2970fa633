//! The two ends of one stream, as a sidecar drives them: a sender with its tensors, a receiver with an arena of
//! limited size.

use std::collections::{BTreeMap, BTreeSet};

use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord, Connection, SendError};
use sealane_protocol::frame::{Frame, Incarnation, Sequence, Sequences, StreamId, Taken, TensorHeader};
use sealane_protocol::transfer::{Announced, Inbound, Outbound, Place, Reply, Step};
use sealane_types::Reason;

#[derive(Debug)]
pub enum Endpoint {
    Sender(Sender),
    Receiver(Receiver),
}

impl Endpoint {
    pub fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match self {
            Self::Sender(sender) => sender.on_frame(frame),
            Self::Receiver(receiver) => receiver.on_frame(frame),
        }
    }

    pub fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        match self {
            Self::Sender(_) => Err(Reason::FrameMalformed.into()),
            Self::Receiver(receiver) => receiver.on_bulk(record),
        }
    }

    pub fn sender(&mut self) -> &mut Sender {
        match self {
            Self::Sender(sender) => sender,
            Self::Receiver(_) => panic!("a receiver"),
        }
    }

    pub fn receiver(&mut self) -> &mut Receiver {
        match self {
            Self::Receiver(receiver) => receiver,
            Self::Sender(_) => panic!("a sender"),
        }
    }
}

pub const INCARNATION: Incarnation = Incarnation([5; 16]);

#[derive(Debug)]
pub struct Sender {
    pub stream: StreamId,
    pub outbound: Outbound,
    pub tensors: BTreeMap<Sequence, Vec<u8>>,
    pub settled: Vec<Sequence>,
    /// All bytes of these went to a connection: the other side may have them.
    pub sent: BTreeSet<Sequence>,
}

impl Sender {
    pub fn new(stream: StreamId) -> Self {
        let outbound = Outbound::new(stream, INCARNATION);
        Self { stream, outbound, tensors: BTreeMap::new(), settled: Vec::new(), sent: BTreeSet::new() }
    }

    pub fn push(&mut self, sequence: Sequence, bytes: Vec<u8>) {
        self.outbound.push(sequence, 1, bytes.len() as u64).unwrap();
        self.tensors.insert(sequence, bytes);
    }

    pub fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::Credit(credit) => self.outbound.on_credit(credit),
            Frame::Taken(taken) => self.outbound.on_taken(&taken).map_err(|_| Reason::FrameMalformed)?,
            Frame::Ended(_) => self.outbound.on_ended().map_err(|_| Reason::FrameMalformed)?,
            _ => return Err(Reason::FrameMalformed),
        }
        while let Some(sequence) = self.outbound.poll_settled() {
            // From here on the bytes are gone: needing them again would be a fault.
            self.tensors.remove(&sequence).unwrap();
            self.settled.push(sequence);
        }
        Ok(())
    }

    /// Queues what credit and room permit.
    pub fn pump(&mut self, connection: &mut Connection) {
        while let Some(step) = self.outbound.next_step() {
            let sent = match step {
                Step::Announce { sequence } => self.announce(connection, sequence),
                Step::Data { sequence, offset, length_max } => {
                    self.data(connection, sequence, offset, length_max)
                }
                Step::End(end) => {
                    let sent = connection.send(&Frame::End(end));
                    if sent.is_ok() {
                        self.outbound.end_sent();
                    }
                    sent
                }
            };
            match sent {
                Ok(()) => {}
                Err(SendError::NoRoom) => return,
                Err(other) => panic!("{other}"),
            }
        }
    }

    fn announce(&mut self, connection: &mut Connection, sequence: Sequence) -> Result<(), SendError> {
        let length = self.tensors[&sequence].len() as u64;
        let header =
            TensorHeader { name: "layer3", ..TensorHeader::of_bytes(self.stream, sequence, &length) };
        connection.send(&Frame::Tensor(header))?;
        if length == 0 {
            self.sent.insert(sequence);
        }
        self.outbound.announced();
        Ok(())
    }

    fn data(
        &mut self,
        connection: &mut Connection,
        sequence: Sequence,
        offset: u64,
        length_max: u64,
    ) -> Result<(), SendError> {
        let bytes = &self.tensors[&sequence];
        let length = bytes.len() as u64;
        let part = &bytes[offset as usize..(offset + length_max) as usize];
        let sent = connection.send_bytes(self.stream, sequence, offset, part)?;
        if offset + sent as u64 == length {
            self.sent.insert(sequence);
        }
        self.outbound.sent(sent as u64);
        while let Some(sequence) = self.outbound.poll_settled() {
            self.tensors.remove(&sequence).unwrap();
            self.settled.push(sequence);
        }
        Ok(())
    }
}

#[derive(Debug)]
pub struct Receiver {
    pub inbound: Inbound,
    /// Bytes that the arena still has.
    pub free: usize,
    /// Announced and without a place.
    waiting: Vec<(Sequence, usize)>,
    /// Places, with what was staged before they existed.
    slots: BTreeMap<Sequence, Vec<u8>>,
    lengths: BTreeMap<Sequence, usize>,
    staged: BTreeMap<Sequence, Vec<u8>>,
    staging: u64,
    pub staged_max: usize,
    /// Complete, not yet taken by the application.
    pub ready: Vec<Sequence>,
    pub delivered: Vec<(Sequence, Vec<u8>)>,
    pub repeats: usize,
}

impl Receiver {
    pub fn new(arena: usize, staging: u64) -> Self {
        Self {
            inbound: Inbound::new(INCARNATION, staging),
            free: arena,
            waiting: Vec::new(),
            slots: BTreeMap::new(),
            lengths: BTreeMap::new(),
            staged: BTreeMap::new(),
            staging,
            staged_max: 0,
            ready: Vec::new(),
            delivered: Vec::new(),
            repeats: 0,
        }
    }

    pub fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::Open(open) => {
                self.cut();
                // What still lies there from before uses up what may lie there.
                let lying: usize = self.staged.values().map(Vec::len).sum();
                self.inbound.set_staging(self.staging.saturating_sub(lying as u64));
                let cut_off = self.inbound.attach(&open).map_err(|_| Reason::FrameMalformed)?;
                self.forget(&cut_off);
            }
            Frame::Tensor(header) => match self.inbound.on_tensor(&header) {
                Ok(Announced::New) => {
                    self.waiting.push((header.sequence, header.length as usize));
                    self.staged.insert(header.sequence, Vec::new());
                    self.reserve();
                }
                Ok(Announced::Complete) => {
                    self.slots.insert(header.sequence, Vec::new());
                    self.ready.push(header.sequence);
                }
                Ok(Announced::Repeat) => self.repeats += 1,
                Err(_) => return Err(Reason::FrameMalformed),
            },
            Frame::Chunk(chunk) => match self.inbound.on_chunk(&chunk) {
                Ok(Place::Write { complete }) => {
                    let place = self.slots.get_mut(&chunk.sequence);
                    place.or(self.staged.get_mut(&chunk.sequence)).unwrap().extend_from_slice(chunk.bytes);
                    let staged: usize = self.staged.values().map(Vec::len).sum();
                    self.staged_max = self.staged_max.max(staged);
                    if complete {
                        self.ready.push(chunk.sequence);
                    }
                }
                Ok(Place::Drop) => {}
                Err(_) => return Err(Reason::FrameMalformed),
            },
            Frame::End(end) => self.inbound.on_end(&end).map_err(|_| Reason::FrameMalformed)?,
            _ => return Err(Reason::FrameMalformed),
        }
        Ok(())
    }

    /// Opens a record into the tensor's place, if it has one.
    pub fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let range = record.range();
        let place = self.inbound.place_of(range).map_err(|_| Reason::FrameMalformed)?;
        let slot = self.slots.get_mut(&range.sequence).filter(|_| place != Place::Drop);
        let Some(slot) = slot else {
            let (chunk, opened) = record.open()?;
            self.on_frame(Frame::Chunk(chunk))?;
            return Ok(opened);
        };
        let start = slot.len();
        slot.resize(start + range.length, 0);
        let opened = record.open_into((&mut slot[start..]).into())?;
        let arrived = self.inbound.on_bytes(range).map_err(|_| Reason::FrameMalformed)?;
        assert_eq!(arrived, place, "what was asked before is so afterwards");
        if arrived == (Place::Write { complete: true }) {
            self.ready.push(range.sequence);
        }
        Ok(opened)
    }

    /// The connection is gone.
    pub fn cut(&mut self) {
        let cut_off = self.inbound.detach();
        self.forget(&cut_off);
    }

    fn forget(&mut self, cut_off: &[Sequence]) {
        for sequence in cut_off {
            assert!(!self.ready.contains(sequence));
            self.staged.remove(sequence);
            if self.slots.remove(sequence).is_some() {
                self.free += self.lengths.remove(sequence).unwrap();
            }
        }
        self.waiting.retain(|(sequence, _)| !cut_off.contains(sequence));
    }

    /// Gives places to announced tensors, in order, as far as the arena reaches.
    fn reserve(&mut self) {
        while let Some((sequence, length)) = self.waiting.first().copied() {
            if length > self.free {
                return;
            }
            self.waiting.remove(0);
            self.free -= length;
            self.lengths.insert(sequence, length);
            self.slots.insert(sequence, self.staged.remove(&sequence).unwrap());
            self.inbound.reserved(sequence);
        }
    }

    /// The application takes the tensor at `index` of those that are ready and have a place.
    pub fn take(&mut self, index: usize) -> bool {
        let available: Vec<_> =
            self.ready.iter().copied().filter(|sequence| self.slots.contains_key(sequence)).collect();
        let Some(sequence) = available.get(index).copied() else { return false };
        self.ready.retain(|ready| *ready != sequence);
        let bytes = self.slots.remove(&sequence).unwrap();
        self.free += self.lengths.remove(&sequence).unwrap_or_default();
        self.delivered.push((sequence, bytes));
        self.inbound.taken(sequence);
        self.reserve();
        true
    }

    pub fn pump(&mut self, connection: &mut Connection, stream: StreamId) {
        while let Some(reply) = self.inbound.poll_reply() {
            match reply {
                Reply::Credit(credit) => connection.send(&Frame::Credit(credit)).unwrap(),
                Reply::Taken(sequences) => {
                    let sequences = Sequences::new(&sequences);
                    connection.send(&Frame::Taken(Taken { stream, sequences })).unwrap();
                }
                Reply::Ended(stream) => connection.send(&Frame::Ended(stream)).unwrap(),
                Reply::Placed(stream, sequence) => {
                    connection.send(&Frame::Placed { stream, sequence }).unwrap();
                }
            }
        }
    }
}
