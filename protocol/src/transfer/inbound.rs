//! The receiving end of a stream.

use crate::frame::{Chunk, Credit, End, Incarnation, Open, Sequence, StreamId, TensorHeader};

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
}

/// The receiving end of one stream. Keep it when a connection is lost: it knows what arrived.
#[derive(Debug)]
pub struct Inbound {}

impl Inbound {
    /// `staging` bytes are accepted before a place is reserved for them.
    #[must_use]
    pub fn new(incarnation: Incarnation, staging: u64) -> Self {
        todo!("{incarnation:?} {staging}")
    }

    /// Begins on a connection. Returns the tensors whose arrival was cut off: their places are to be released,
    /// they come again.
    ///
    /// # Errors
    /// [`InboundError::OtherIncarnation`].
    pub fn attach(&mut self, open: &Open) -> Result<Vec<Sequence>, InboundError> {
        todo!("{open:?}")
    }

    /// # Errors
    /// [`InboundError`] when it is out of order or beyond the window.
    pub fn on_tensor(&mut self, header: &TensorHeader<'_>) -> Result<Announced, InboundError> {
        todo!("{header:?}")
    }

    /// A place for the announced tensor was reserved: its bytes may be sent.
    pub fn reserved(&mut self, sequence: Sequence) {
        todo!("{sequence:?}")
    }

    /// # Errors
    /// [`InboundError`] when it is out of order or beyond the credit.
    pub fn on_chunk(&mut self, chunk: &Chunk<'_>) -> Result<Place, InboundError> {
        todo!("{chunk:?}")
    }

    /// The application has taken the tensor.
    pub fn taken(&mut self, sequence: Sequence) {
        todo!("{sequence:?}")
    }

    /// # Errors
    /// [`InboundError::TotalsDiffer`].
    pub fn on_end(&mut self, end: &End) -> Result<(), InboundError> {
        todo!("{end:?}")
    }

    /// The application has seen the end of the stream.
    pub fn end_seen(&mut self) {
        todo!()
    }

    /// The next frame owed to the sender.
    pub fn poll_reply(&mut self) -> Option<Reply> {
        todo!()
    }

    /// Whether the end has arrived.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        todo!()
    }
}
