//! The receiving end of a stream.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::memory::Memory;
use crate::frame::{ByteRange, Chunk, Credit, End, Incarnation, Open, Sequence, StreamId, TensorHeader};
use crate::limits::{TAKEN_SEQUENCES_MAX, WINDOW_TENSORS};

/// The sender broke the order of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InboundError {
    #[error("the peer opened the stream as another incarnation")]
    OtherIncarnation,
    #[error("the peer's sequence numbers do not grow")]
    SequenceReused,
    #[error("the peer sent more than it had credit for")]
    CreditExceeded,
    #[error("the peer sent a chunk that does not continue its tensor")]
    ChunkOutOfPlace,
    #[error("the peer's totals do not match what arrived")]
    TotalsDiffer,
    #[error("the peer sent something after the end of the stream")]
    AfterEnd,
    #[error("the peer sent something before it opened the stream")]
    NotOpen,
}

/// What an announcement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announced {
    /// Reserve a place of its length, then call [`Inbound::reserved`].
    New,
    /// An empty tensor: complete at once.
    Complete,
    /// It arrived before; its bytes are to be dropped.
    Repeat,
}

/// One further link of a connection, by a number that no other one ever had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe(pub u64);

/// Where bytes of a chunk belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Write them at the chunk's offset of its tensor; `complete` after the last ones.
    Write { complete: bool },
    /// A repeat: drop them.
    Drop,
}

/// A frame owed to the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Credit(Credit),
    Taken(Vec<Sequence>),
    Ended(StreamId),
    Placed(StreamId, Sequence),
}

/// The receiving end of one stream. Keep it when a connection is lost: it knows what arrived.
#[derive(Debug)]
pub struct Inbound {
    incarnation: Incarnation,
    staging: u64,
    memory: Memory,
    end_seen: bool,
    attachment: Option<Attachment>,
}

/// What counts from [`Open`] on.
#[derive(Debug)]
struct Attachment {
    stream: StreamId,
    base: Sequence,
    last: Option<Sequence>,
    /// Announced, with bytes still to come. The first one is arriving.
    arriving: VecDeque<Arriving>,
    /// Announced, with bytes that come over further links.
    striped: BTreeMap<Sequence, Striped>,
    /// Of these, those for which a place was found just now.
    placed_due: VecDeque<Sequence>,
    /// All of both that are no repeats.
    incoming: u32,
    /// Bytes that have arrived of the first one.
    offset: u64,
    /// Announced tensors, in order, whose place is not reserved yet or that wait for one that is not.
    unreserved: VecDeque<Unreserved>,
    /// Announced and not yet acknowledged.
    open: BTreeSet<Sequence>,
    tensors: u64,
    bytes: u64,
    /// Over further links, which credit does not count.
    bytes_striped: u64,
    granted_bytes: u64,
    granted_tensors: u64,
    credit_due: bool,
    taken_due: VecDeque<Sequence>,
    ended: bool,
    ended_due: bool,
}

#[derive(Debug)]
struct Arriving {
    sequence: Sequence,
    length: u64,
    repeat: bool,
}

#[derive(Debug)]
struct Striped {
    /// The link that brings it, once one has begun to: no other may, so that nobody writes where somebody else has read.
    carrier: Option<Stripe>,
    length: u64,
    repeat: bool,
    placed: bool,
    /// Bytes that have arrived.
    offset: u64,
}

#[derive(Debug)]
struct Unreserved {
    sequence: Sequence,
    length: u64,
    reserved: bool,
}

impl Inbound {
    /// `staging` bytes are accepted before a place is reserved for them, on every attachment.
    #[must_use]
    pub const fn new(incarnation: Incarnation, staging: u64) -> Self {
        Self { incarnation, staging, memory: Memory::new(), end_seen: false, attachment: None }
    }

    /// Bytes that are accepted without a place from the next [`Self::attach`] on; fewer while some still lie there.
    pub const fn set_staging(&mut self, bytes: u64) {
        self.staging = bytes;
    }

    /// Begins on a connection. Returns the tensors whose arrival was cut off, as [`Self::detach`] does.
    ///
    /// # Errors
    /// [`InboundError::OtherIncarnation`].
    pub fn attach(&mut self, open: &Open) -> Result<Vec<Sequence>, InboundError> {
        if open.incarnation != self.incarnation {
            return Err(InboundError::OtherIncarnation);
        }
        let cut_off = self.detach();
        self.memory.settle_below(open.base_sequence);
        // What the sender no longer counts and the application has not taken still fills the window.
        let left = self.memory.held_below(open.base_sequence);
        self.attachment = Some(Attachment {
            stream: open.stream,
            base: open.base_sequence,
            last: None,
            arriving: VecDeque::new(),
            striped: BTreeMap::new(),
            placed_due: VecDeque::new(),
            incoming: 0,
            offset: 0,
            unreserved: VecDeque::new(),
            open: BTreeSet::new(),
            tensors: 0,
            bytes: 0,
            bytes_striped: 0,
            granted_bytes: self.staging,
            granted_tensors: WINDOW_TENSORS.saturating_sub(left),
            credit_due: true,
            taken_due: VecDeque::new(),
            ended: false,
            ended_due: false,
        });
        Ok(cut_off)
    }

    /// The connection is gone. Returns the tensors whose arrival was cut off: their places are to be released,
    /// and they come again if the sender does.
    pub fn detach(&mut self) -> Vec<Sequence> {
        let Some(Attachment { arriving, striped, .. }) = self.attachment.take() else { return Vec::new() };
        let striped = striped.into_iter().filter(|(_, tensor)| !tensor.repeat).map(|(sequence, _)| sequence);
        let arriving = arriving.into_iter().filter(|tensor| !tensor.repeat).map(|tensor| tensor.sequence);
        let mut cut_off: Vec<_> = arriving.chain(striped).collect();
        cut_off.sort_unstable();
        cut_off
    }

    /// # Errors
    /// [`InboundError`] when it is out of order or beyond the window.
    pub fn on_tensor(&mut self, header: &TensorHeader<'_>) -> Result<Announced, InboundError> {
        self.on_announced(header, false)
    }

    /// As [`Self::on_tensor`] for one whose bytes come over a further link, which is not [`Announced::Complete`].
    ///
    /// # Errors
    /// As [`Self::on_tensor`].
    pub fn on_striped(&mut self, header: &TensorHeader<'_>) -> Result<Announced, InboundError> {
        self.on_announced(header, true)
    }

    fn on_announced(
        &mut self,
        header: &TensorHeader<'_>,
        is_striped: bool,
    ) -> Result<Announced, InboundError> {
        let TensorHeader { sequence, length, .. } = *header;
        let attachment = self.attachment.as_mut().ok_or(InboundError::NotOpen)?;
        if attachment.ended {
            return Err(InboundError::AfterEnd);
        }
        if sequence < attachment.base || attachment.last.is_some_and(|last| sequence <= last) {
            return Err(InboundError::SequenceReused);
        }
        if attachment.tensors >= attachment.granted_tensors {
            return Err(InboundError::CreditExceeded);
        }
        let repeat = self.memory.knows(sequence);
        // The application was told that nothing follows; opening again does not take that back.
        if !repeat && self.end_seen {
            return Err(InboundError::AfterEnd);
        }
        // Opening again gives credit anew, which is meant for repeats: what is new must fit beside what is untaken.
        if !repeat && self.memory.held().saturating_add(attachment.incoming.into()) >= WINDOW_TENSORS {
            return Err(InboundError::CreditExceeded);
        }
        attachment.last = Some(header.last());
        attachment.tensors = attachment.tensors.saturating_add(1);
        attachment.open.insert(sequence);
        if is_striped {
            // Bytes of a repeat are dropped as they come, so they need no place.
            let striped = Striped { carrier: None, length, repeat, placed: repeat, offset: 0 };
            attachment.striped.insert(sequence, striped);
            attachment.bytes_striped = attachment.bytes_striped.saturating_add(length);
            attachment.incoming = attachment.incoming.saturating_add(u32::from(!repeat));
            attachment.placed_due.extend(repeat.then_some(sequence));
        } else if length > 0 {
            attachment.arriving.push_back(Arriving { sequence, length, repeat });
            attachment.incoming = attachment.incoming.saturating_add(u32::from(!repeat));
            // Bytes of a repeat are dropped as they come, so they need no place.
            attachment.unreserved.push_back(Unreserved { sequence, length, reserved: repeat });
            attachment.grant();
        } else if repeat {
            attachment.repeated(sequence, &self.memory);
        } else {
            self.memory.arrived(sequence);
        }
        Ok(match (repeat, length) {
            (true, _) => Announced::Repeat,
            (false, 0) => Announced::Complete,
            (false, _) => Announced::New,
        })
    }

    /// A place for the announced tensor was reserved: its bytes may be sent.
    pub fn reserved(&mut self, sequence: Sequence) {
        let Some(attachment) = &mut self.attachment else { return };
        if let Some(tensor) = attachment.striped.get_mut(&sequence).filter(|tensor| !tensor.placed) {
            tensor.placed = true;
            attachment.placed_due.push_back(sequence);
        } else if let Some(tensor) =
            attachment.unreserved.iter_mut().find(|tensor| tensor.sequence == sequence)
        {
            tensor.reserved = true;
            attachment.grant();
        }
    }

    /// # Errors
    /// [`InboundError`] when it is out of order or beyond the credit.
    pub fn on_chunk(&mut self, chunk: &Chunk<'_>) -> Result<Place, InboundError> {
        self.on_bytes(chunk.range())
    }

    /// Where bytes belong that have not been opened yet. Nothing changes: until they are, nobody knows that they are genuine.
    ///
    /// # Errors
    /// As [`Self::on_chunk`].
    pub fn place_of(&self, range: ByteRange) -> Result<Place, InboundError> {
        let attachment = self.attachment.as_ref().ok_or(InboundError::NotOpen)?;
        let length = u64::try_from(range.length).map_err(|_| InboundError::ChunkOutOfPlace)?;
        let tensor = attachment.arriving.front().ok_or(InboundError::ChunkOutOfPlace)?;
        let rest = tensor.length.saturating_sub(attachment.offset);
        if tensor.sequence != range.sequence || attachment.offset != range.offset || length > rest {
            return Err(InboundError::ChunkOutOfPlace);
        }
        if attachment.bytes.saturating_add(length) > attachment.granted_bytes {
            return Err(InboundError::CreditExceeded);
        }
        Ok(if tensor.repeat { Place::Drop } else { Place::Write { complete: length == rest } })
    }

    /// These bytes have arrived, and were opened.
    ///
    /// # Errors
    /// As [`Self::on_chunk`].
    pub fn on_bytes(&mut self, range: ByteRange) -> Result<Place, InboundError> {
        let place = self.place_of(range)?;
        let attachment = self.attachment.as_mut().ok_or(InboundError::NotOpen)?;
        let length = range.length as u64;
        attachment.bytes = attachment.bytes.saturating_add(length);
        attachment.offset = attachment.offset.saturating_add(length);
        let is_over = attachment.arriving.front().is_some_and(|tensor| attachment.offset == tensor.length);
        if is_over {
            attachment.arriving.pop_front();
            attachment.offset = 0;
            if place == Place::Drop {
                attachment.repeated(range.sequence, &self.memory);
            } else {
                attachment.incoming = attachment.incoming.saturating_sub(1);
                self.memory.arrived(range.sequence);
            }
        }
        Ok(place)
    }

    /// As [`Self::place_of`] for bytes that come over a further link. From the first of them on no other one brings bytes of
    /// the same tensor.
    ///
    /// # Errors
    /// As [`Self::place_of`].
    pub fn stripe_place_of(&mut self, by: Stripe, range: ByteRange) -> Result<Place, InboundError> {
        let attachment = self.attachment.as_mut().ok_or(InboundError::NotOpen)?;
        let length = u64::try_from(range.length).map_err(|_| InboundError::ChunkOutOfPlace)?;
        let tensor = attachment.striped.get_mut(&range.sequence).ok_or(InboundError::ChunkOutOfPlace)?;
        let rest = tensor.length.saturating_sub(tensor.offset);
        if *tensor.carrier.get_or_insert(by) != by || tensor.offset != range.offset || length > rest {
            return Err(InboundError::ChunkOutOfPlace);
        }
        if !tensor.placed {
            return Err(InboundError::CreditExceeded);
        }
        Ok(if tensor.repeat { Place::Drop } else { Place::Write { complete: length == rest } })
    }

    /// Whether bytes of a striped tensor are still to come.
    #[must_use]
    pub fn awaits_stripe(&self, sequence: Sequence) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.striped.contains_key(&sequence))
    }

    /// As [`Self::on_bytes`] for bytes that came over a further link.
    ///
    /// # Errors
    /// As [`Self::on_chunk`].
    pub fn on_stripe(&mut self, by: Stripe, range: ByteRange) -> Result<Place, InboundError> {
        let place = self.stripe_place_of(by, range)?;
        let attachment = self.attachment.as_mut().ok_or(InboundError::NotOpen)?;
        let length = range.length as u64;
        let Some(tensor) = attachment.striped.get_mut(&range.sequence) else { return Ok(place) };
        tensor.offset = tensor.offset.saturating_add(length);
        if tensor.offset == tensor.length {
            attachment.striped.remove(&range.sequence);
            if place == Place::Drop {
                attachment.repeated(range.sequence, &self.memory);
            } else {
                attachment.incoming = attachment.incoming.saturating_sub(1);
                self.memory.arrived(range.sequence);
            }
        }
        Ok(place)
    }

    /// The tensor arrived and was dropped before anyone had it: it comes again if the sender does.
    pub fn forget(&mut self, sequence: Sequence) {
        self.memory.forget(sequence);
    }

    /// The application has taken the tensor. Once is enough; what is not here is ignored.
    pub fn taken(&mut self, sequence: Sequence) {
        if !self.memory.taken(sequence) {
            return;
        }
        let Some(attachment) = &mut self.attachment else { return };
        if sequence < attachment.base {
            // Settled for the sender, which may not even know the number any more.
            attachment.granted_tensors = attachment.granted_tensors.saturating_add(1);
            attachment.credit_due = true;
        } else {
            attachment.acknowledge(sequence);
        }
    }

    /// # Errors
    /// [`InboundError::TotalsDiffer`].
    pub fn on_end(&mut self, end: &End) -> Result<(), InboundError> {
        let attachment = self.attachment.as_mut().ok_or(InboundError::NotOpen)?;
        if attachment.ended {
            return Err(InboundError::AfterEnd);
        }
        let complete = attachment.arriving.is_empty()
            // Bytes of repeats, which are dropped, may come late.
            && attachment.striped.values().all(|tensor| tensor.repeat)
            && attachment.tensors == end.tensors
            && attachment.bytes.saturating_add(attachment.bytes_striped) == end.bytes;
        if !complete {
            return Err(InboundError::TotalsDiffer);
        }
        attachment.ended = true;
        attachment.ended_due = self.end_seen;
        Ok(())
    }

    /// The application has taken everything and seen the end of the stream.
    pub fn end_seen(&mut self) {
        if !self.is_ended() || self.memory.holds_any() {
            return;
        }
        self.end_seen = true;
        if let Some(attachment) = &mut self.attachment {
            attachment.ended_due = true;
        }
    }

    /// The next frame owed to the sender.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        let staging_ended = self.end_seen;
        let attachment = self.attachment.as_mut()?;
        if !attachment.taken_due.is_empty() {
            let count = attachment.taken_due.len().min(TAKEN_SEQUENCES_MAX);
            return Some(Reply::Taken(attachment.taken_due.drain(..count).collect()));
        }
        if let Some(sequence) = attachment.placed_due.pop_front() {
            return Some(Reply::Placed(attachment.stream, sequence));
        }
        if std::mem::take(&mut attachment.credit_due) {
            return Some(Reply::Credit(Credit {
                stream: attachment.stream,
                bytes_through: attachment.granted_bytes,
                tensors_through: attachment.granted_tensors,
            }));
        }
        let due = std::mem::take(&mut attachment.ended_due) && staging_ended;
        due.then_some(Reply::Ended(attachment.stream))
    }

    /// Whether the sender was told of all that was taken, and of the end if the application has seen it. Without a
    /// connection there is nobody to tell.
    #[must_use]
    pub fn is_acknowledged(&self) -> bool {
        self.attachment.as_ref().is_none_or(|attachment| {
            attachment.taken_due.is_empty() && !(attachment.ended_due && self.end_seen)
        })
    }

    /// Whether it arrived before and a repeat of it would be dropped.
    #[must_use]
    pub fn knows(&self, sequence: Sequence) -> bool {
        self.memory.knows(sequence)
    }

    /// The stream's number on the connection it is attached to.
    #[must_use]
    pub fn stream(&self) -> Option<StreamId> {
        self.attachment.as_ref().map(|attachment| attachment.stream)
    }

    /// Whether the end has arrived. Tensors may still wait to be taken.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.ended)
    }
}

impl Attachment {
    /// Turns reservations into credit, in the order of announcement: bytes arrive in that order, so a place
    /// further back is of no use before those in front of it exist.
    fn grant(&mut self) {
        while self.unreserved.front().is_some_and(|tensor| tensor.reserved) {
            if let Some(tensor) = self.unreserved.pop_front() {
                self.granted_bytes = self.granted_bytes.saturating_add(tensor.length);
                self.credit_due = true;
            }
        }
    }

    /// A repeat has been dropped. If the application took the first copy, the sender does not know it yet.
    fn repeated(&mut self, sequence: Sequence, memory: &Memory) {
        if !memory.holds(sequence) && self.open.contains(&sequence) {
            self.acknowledge(sequence);
        }
    }

    fn acknowledge(&mut self, sequence: Sequence) {
        self.taken_due.push_back(sequence);
        if self.open.remove(&sequence) {
            self.granted_tensors = self.granted_tensors.saturating_add(1);
            self.credit_due = true;
        }
    }
}
