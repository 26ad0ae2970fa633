//! The sending end of a stream.

use crate::frame::{Credit, End, Incarnation, Open, Sequence, StreamId, Taken};

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
}

/// What to put on the connection next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Send the tensor's header, then call [`Outbound::announced`].
    Announce { sequence: Sequence },
    /// Send up to `length_max` bytes from `offset`, then call [`Outbound::sent`] with how many went.
    Data { sequence: Sequence, offset: u64, length_max: u64 },
    /// Send the end, then call [`Outbound::end_sent`].
    End(End),
}

/// The sending end of one stream towards one receiving process.
#[derive(Debug)]
pub struct Outbound {}

impl Outbound {
    #[must_use]
    pub fn new(stream: StreamId, incarnation: Incarnation) -> Self {
        todo!("{stream:?} {incarnation:?}")
    }

    /// Begins on a fresh connection: send the returned frame first. Tensors that were not taken go out again.
    pub fn attach(&mut self) -> Open {
        todo!()
    }

    /// The connection is gone; nothing is to be sent until [`Self::attach`].
    pub fn detach(&mut self) {
        todo!()
    }

    /// Accepts a tensor of `length` bytes. The caller keeps its header and bytes until it is taken.
    ///
    /// # Errors
    /// [`OutboundError`] when the number does not grow or the stream was finished.
    pub fn push(&mut self, sequence: Sequence, length: u64) -> Result<(), OutboundError> {
        todo!("{sequence:?} {length}")
    }

    /// No tensor follows: the end goes out after the last one.
    pub fn finish(&mut self) {
        todo!()
    }

    /// The next thing to send, or `None` while credit or tensors are lacking.
    #[must_use]
    pub fn next_step(&self) -> Option<Step> {
        todo!()
    }

    /// The header of [`Step::Announce`] was queued.
    pub fn announced(&mut self) {
        todo!()
    }

    /// `bytes` of [`Step::Data`] were queued.
    pub fn sent(&mut self, bytes: u64) {
        todo!("{bytes}")
    }

    /// The frame of [`Step::End`] was queued.
    pub fn end_sent(&mut self) {
        todo!()
    }

    pub fn on_credit(&mut self, credit: Credit) {
        todo!("{credit:?}")
    }

    /// Returns the tensors that are settled now: their bytes may be forgotten.
    ///
    /// # Errors
    /// [`OutboundError::TakenUnsent`].
    pub fn on_taken(&mut self, taken: &Taken<'_>) -> Result<Vec<Sequence>, OutboundError> {
        todo!("{taken:?}")
    }

    /// # Errors
    /// [`OutboundError::EndedEarly`].
    pub fn on_ended(&mut self) -> Result<(), OutboundError> {
        todo!()
    }

    /// Tensors that the receiving application has not taken, oldest first.
    pub fn unacknowledged(&self) -> impl Iterator<Item = Sequence> {
        std::iter::empty()
    }

    /// Whether everything pushed was taken.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        todo!()
    }

    /// Whether the receiving application has seen the end.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        todo!()
    }
}
