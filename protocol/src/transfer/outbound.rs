//! The sending end of a stream.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::frame::{Credit, End, Incarnation, Open, Sequence, StreamId, Taken};
use crate::limits::{ANNOUNCE_AHEAD_BYTES, ANNOUNCE_AHEAD_TENSORS};

/// The receiver, or the caller, said something impossible about this stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutboundError {
    #[error("sequence numbers of a lane must grow")]
    SequenceReused,
    #[error("the stream has already been finished")]
    Finished,
    #[error("the peer acknowledged a tensor that was not sent")]
    TakenUnsent,
    #[error("the peer ended a stream that had not ended")]
    EndedEarly,
    #[error("the peer has a place for a tensor that waits for none")]
    PlacedOutOfTurn,
}

/// What to put on the connection next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send the tensor's header, then call [`Outbound::announced`], or [`Outbound::striped`] if its bytes go over a further
    /// link.
    Announce { sequence: Sequence },
    /// Send up to `length_max` bytes from `offset`, then call [`Outbound::sent`] with how many went.
    Data { sequence: Sequence, offset: u64, length_max: u64 },
    /// Send the end, then call [`Outbound::end_sent`].
    End(End),
}

/// The sending end of one stream towards one receiving process.
///
/// ```text
/// push → waiting → announced → sent → taken → settled
/// ```
///
/// It keeps numbers and lengths only; headers and bytes stay with the caller until
/// [`poll_settled`](Self::poll_settled) names them.
#[derive(Debug)]
pub struct Outbound {
    stream: StreamId,
    incarnation: Incarnation,
    /// Everything pushed that is not settled, in order.
    unsettled: BTreeMap<Sequence, Unsettled>,
    /// Taken and no longer needed for sending.
    settled: VecDeque<Sequence>,
    last: Option<Sequence>,
    finished: bool,
    ended: bool,
    attachment: Option<Attachment>,
}

#[derive(Debug, Clone, Copy)]
struct Unsettled {
    length: u64,
    /// All its bytes went out on some connection: it may be acknowledged.
    sent: bool,
    taken: bool,
}

/// What counts from [`Open`] on.
#[derive(Debug, Default)]
struct Attachment {
    waiting: VecDeque<Sequence>,
    /// Announced, with bytes still to send. The first one is being sent.
    announced: VecDeque<(Sequence, u64)>,
    /// Announced, with bytes that go over further links once the receiver has a place; until all of them were sealed.
    striped: BTreeMap<Sequence, u64>,
    /// Of these, those that have a place and were not given to a link.
    placed: VecDeque<Sequence>,
    /// Of these, those that were.
    given: BTreeSet<Sequence>,
    /// Striped and not taken: the end waits for them, so that it overtakes no byte.
    stripes: BTreeSet<Sequence>,
    /// Bytes of the announced tensors that have not been sent.
    ahead_bytes: u64,
    /// Bytes sent of the first announced tensor.
    offset: u64,
    tensors: u64,
    bytes: u64,
    /// Over further links, which credit does not count.
    bytes_striped: u64,
    bytes_through: u64,
    tensors_through: u64,
    end_sent: bool,
}

impl Outbound {
    #[must_use]
    pub const fn new(stream: StreamId, incarnation: Incarnation) -> Self {
        Self {
            stream,
            incarnation,
            unsettled: BTreeMap::new(),
            settled: VecDeque::new(),
            last: None,
            finished: false,
            ended: false,
            attachment: None,
        }
    }

    /// Begins on a fresh connection: send the returned frame first. Tensors that were not taken go out again.
    pub fn attach(&mut self) -> Open {
        self.detach();
        let waiting = self.unsettled.keys().copied().collect();
        self.attachment = Some(Attachment { waiting, ..Attachment::default() });
        let next = self.last.map_or(Sequence(0), Sequence::next);
        let base_sequence = self.unsettled.keys().next().copied().unwrap_or(next);
        Open { stream: self.stream, incarnation: self.incarnation, base_sequence }
    }

    /// The connection is gone; nothing is to be sent until [`Self::attach`].
    pub fn detach(&mut self) {
        self.attachment = None;
        // What was taken while its repeat was on the way needs no further sending.
        let Self { unsettled, settled, .. } = self;
        unsettled.retain(|sequence, tensor| {
            if tensor.taken {
                settled.push_back(*sequence);
            }
            !tensor.taken
        });
    }

    /// Accepts a tensor of `length` bytes, or a run of `tensors` under its first number. The caller keeps its header and
    /// bytes until it is settled.
    ///
    /// # Errors
    /// [`OutboundError`] when the number does not grow or the stream was finished.
    pub fn push(&mut self, sequence: Sequence, tensors: u64, length: u64) -> Result<(), OutboundError> {
        if self.finished {
            return Err(OutboundError::Finished);
        }
        if self.last.is_some_and(|last| sequence <= last) {
            return Err(OutboundError::SequenceReused);
        }
        self.last = Some(Sequence(sequence.0.saturating_add(tensors.saturating_sub(1))));
        self.unsettled.insert(sequence, Unsettled { length, sent: false, taken: false });
        if let Some(attachment) = &mut self.attachment {
            attachment.waiting.push_back(sequence);
        }
        Ok(())
    }

    /// No tensor follows: the end goes out after the last one.
    pub const fn finish(&mut self) {
        self.finished = true;
    }

    /// The next thing to send, or `None` while credit or tensors are lacking.
    ///
    /// Headers run ahead of bytes, so that the receiver reserves places while earlier tensors still travel.
    #[must_use]
    pub fn next_step(&self) -> Option<Step> {
        let attachment = self.attachment.as_ref()?;
        if let Some(sequence) = self.announceable(attachment) {
            return Some(Step::Announce { sequence });
        }
        if let Some((sequence, length)) = attachment.announced.front() {
            let credit = attachment.bytes_through.saturating_sub(attachment.bytes);
            let length_max = length.saturating_sub(attachment.offset).min(credit);
            let step = Step::Data { sequence: *sequence, offset: attachment.offset, length_max };
            return (length_max > 0).then_some(step);
        }
        let Attachment { waiting, striped, stripes, .. } = attachment;
        let is_sent = waiting.is_empty() && striped.is_empty() && stripes.is_empty();
        let over = self.finished && is_sent && !attachment.end_sent;
        over.then_some(Step::End(End {
            stream: self.stream,
            tensors: attachment.tensors,
            bytes: attachment.bytes.saturating_add(attachment.bytes_striped),
        }))
    }

    fn announceable(&self, attachment: &Attachment) -> Option<Sequence> {
        let sequence = *attachment.waiting.front()?;
        let length = self.unsettled.get(&sequence)?.length;
        let ahead = attachment.ahead_bytes.saturating_add(length);
        let tensors = attachment.announced.len().saturating_add(attachment.striped.len());
        let wanted = tensors == 0 || (ahead <= ANNOUNCE_AHEAD_BYTES && tensors < ANNOUNCE_AHEAD_TENSORS);
        (wanted && attachment.tensors < attachment.tensors_through).then_some(sequence)
    }

    /// The header of [`Step::Announce`] was queued.
    pub fn announced(&mut self) {
        let Some(attachment) = &mut self.attachment else { return };
        let Some(sequence) = attachment.waiting.pop_front() else { return };
        let Some(tensor) = self.unsettled.get_mut(&sequence) else { return };
        attachment.tensors = attachment.tensors.saturating_add(1);
        if tensor.length == 0 {
            tensor.sent = true;
            return;
        }
        attachment.ahead_bytes = attachment.ahead_bytes.saturating_add(tensor.length);
        attachment.announced.push_back((sequence, tensor.length));
    }

    /// As [`Self::announced`] for a tensor whose bytes go over a further link.
    pub fn striped(&mut self) {
        let Some(attachment) = &mut self.attachment else { return };
        let Some(sequence) = attachment.waiting.pop_front() else { return };
        let Some(tensor) = self.unsettled.get(&sequence) else { return };
        attachment.tensors = attachment.tensors.saturating_add(1);
        attachment.ahead_bytes = attachment.ahead_bytes.saturating_add(tensor.length);
        attachment.bytes_striped = attachment.bytes_striped.saturating_add(tensor.length);
        attachment.striped.insert(sequence, tensor.length);
        attachment.stripes.insert(sequence);
    }

    /// The receiver has a place for a striped tensor.
    ///
    /// # Errors
    /// [`OutboundError::PlacedOutOfTurn`] when it waits for none.
    pub fn on_placed(&mut self, sequence: Sequence) -> Result<(), OutboundError> {
        let attachment = self.attachment.as_mut().ok_or(OutboundError::PlacedOutOfTurn)?;
        let Attachment { striped, placed, given, .. } = &*attachment;
        if !striped.contains_key(&sequence) || placed.contains(&sequence) || given.contains(&sequence) {
            return Err(OutboundError::PlacedOutOfTurn);
        }
        attachment.placed.push_back(sequence);
        Ok(())
    }

    /// The next striped tensor whose bytes may go: give all of them to a link, then call [`Self::stripe_given`], and
    /// [`Self::stripe_sent`] once nothing reads them any more.
    #[must_use]
    pub fn next_stripe(&self) -> Option<Sequence> {
        self.attachment.as_ref()?.placed.front().copied()
    }

    /// [`Self::next_stripe`] was given to a link.
    pub fn stripe_given(&mut self) {
        let Some(attachment) = &mut self.attachment else { return };
        attachment.given.extend(attachment.placed.pop_front());
    }

    /// A link has sealed all bytes of a tensor that it was given: from now on it may be acknowledged.
    pub fn stripe_sent(&mut self, sequence: Sequence) {
        let Some(attachment) = &mut self.attachment else { return };
        if !attachment.given.remove(&sequence) {
            return;
        }
        let Some(length) = attachment.striped.remove(&sequence) else { return };
        attachment.ahead_bytes = attachment.ahead_bytes.saturating_sub(length);
        if let Some(tensor) = self.unsettled.get_mut(&sequence) {
            tensor.sent = true;
            if tensor.taken {
                self.unsettled.remove(&sequence);
                self.settled.push_back(sequence);
            }
        }
    }

    /// `bytes` of [`Step::Data`] were queued.
    pub fn sent(&mut self, bytes: u64) {
        let Some(attachment) = &mut self.attachment else { return };
        let Some((sequence, length)) = attachment.announced.front().copied() else { return };
        attachment.bytes = attachment.bytes.saturating_add(bytes);
        attachment.ahead_bytes = attachment.ahead_bytes.saturating_sub(bytes);
        attachment.offset = attachment.offset.saturating_add(bytes);
        debug_assert!(attachment.offset <= length);
        if attachment.offset < length {
            return;
        }
        attachment.announced.pop_front();
        attachment.offset = 0;
        if let Some(tensor) = self.unsettled.get_mut(&sequence) {
            tensor.sent = true;
            if tensor.taken {
                self.unsettled.remove(&sequence);
                self.settled.push_back(sequence);
            }
        }
    }

    /// The frame of [`Step::End`] was queued.
    pub const fn end_sent(&mut self) {
        if let Some(attachment) = &mut self.attachment {
            attachment.end_sent = true;
        }
    }

    /// Grants are absolute, so an old one changes nothing.
    pub fn on_credit(&mut self, credit: Credit) {
        if let Some(attachment) = &mut self.attachment {
            attachment.bytes_through = attachment.bytes_through.max(credit.bytes_through);
            attachment.tensors_through = attachment.tensors_through.max(credit.tensors_through);
        }
    }

    /// # Errors
    /// [`OutboundError::TakenUnsent`] for a tensor whose bytes never went out.
    pub fn on_taken(&mut self, taken: &Taken<'_>) -> Result<(), OutboundError> {
        for sequence in taken.sequences.iter() {
            self.take(sequence)?;
        }
        Ok(())
    }

    fn take(&mut self, sequence: Sequence) -> Result<(), OutboundError> {
        let Some(tensor) = self.unsettled.get_mut(&sequence) else {
            // Acknowledged again after a repeat: known and settled.
            let pushed = self.last.is_some_and(|last| sequence <= last);
            return if pushed { Ok(()) } else { Err(OutboundError::TakenUnsent) };
        };
        if !tensor.sent {
            return Err(OutboundError::TakenUnsent);
        }
        tensor.taken = true;
        if let Some(attachment) = &mut self.attachment {
            attachment.stripes.remove(&sequence);
            let is_announced = attachment.announced.iter().any(|(announced, _)| *announced == sequence);
            if is_announced || attachment.striped.contains_key(&sequence) {
                // A repeat whose announcement cannot be taken back: its bytes are needed once more.
                return Ok(());
            }
            // A repeat that has not been announced yet need not be. Numbers wait in ascending order.
            if let Ok(index) = attachment.waiting.binary_search(&sequence) {
                attachment.waiting.remove(index);
            }
        }
        self.unsettled.remove(&sequence);
        self.settled.push_back(sequence);
        Ok(())
    }

    /// # Errors
    /// [`OutboundError::EndedEarly`] when the end was not sent or tensors were not taken.
    pub fn on_ended(&mut self) -> Result<(), OutboundError> {
        let end_sent = self.attachment.as_ref().is_some_and(|attachment| attachment.end_sent);
        if !end_sent || !self.is_settled() {
            return Err(OutboundError::EndedEarly);
        }
        self.ended = true;
        Ok(())
    }

    /// The next tensor that the receiving application has taken: its header and bytes may be forgotten.
    pub fn poll_settled(&mut self) -> Option<Sequence> {
        self.settled.pop_front()
    }

    /// Tensors that are not settled, oldest first.
    pub fn unacknowledged(&self) -> impl Iterator<Item = Sequence> {
        self.unsettled.keys().copied()
    }

    /// Whether everything pushed was taken.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// Whether the receiving application has seen the end.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended
    }
}
