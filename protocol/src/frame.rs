//! Plaintext units inside records. Decoding borrows from the record and is strict: one encoding per frame,
//! every length exact, every value in range.
//!
//! [`Frame`] is what the two shells exchange. Control frames (confirm, policy, evidence, ready, ping, pad,
//! close) belong to the connection and never reach a shell.

pub(crate) mod control;
mod decode;
mod encode;
mod tensor;

use sealane_types::Reason;

pub use decode::FrameError;
pub use tensor::{InvalidShape, InvalidTensor, Shape, TensorHeader};

pub(crate) use decode::{Decoded, decode};
pub(crate) use encode::{CHUNK_OVERHEAD_BYTES, PIPE_DATA_OVERHEAD_BYTES, encode, put_chunk, put_pipe_data};

/// One sender lane within a connection. The sending side chooses the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// One pipe within a connection. The initiator chooses the number: each is higher than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PipeId(pub u32);

/// Number of a tensor within its lane: grows with every tensor, gaps are normal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The next number; the last one is followed by itself, which a sender refuses to use twice.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Random name of one life of a sending lane. Repeats are recognised by (incarnation, sequence).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub [u8; 16]);

/// A frame of a stream or of a pipe. One connection carries frames of one kind only: its session decides which.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Frame<'a> {
    Open(Open),
    Tensor(TensorHeader<'a>),
    Chunk(Chunk<'a>),
    Credit(Credit),
    Taken(Taken<'a>),
    End(End),
    /// The receiving application has seen the end of the stream.
    Ended(StreamId),
    /// The sending application is gone without ending the stream: nothing follows.
    Abort(StreamId),
    /// The receiving application is gone, and whether it took these tensors cannot be known.
    Lost(Taken<'a>),
    /// As [`Frame::Tensor`] for one tensor whose bytes come over a further link of the connection, once
    /// [`Frame::Placed`] asks for them.
    Striped(TensorHeader<'a>),
    /// The receiver has a place for a striped tensor.
    Placed {
        stream: StreamId,
        sequence: Sequence,
    },
    /// A TCP connection to carry: two byte sequences, one each way. Only the initiator opens pipes.
    PipeOpen(PipeId),
    /// The next bytes of this direction: at least one.
    PipeData {
        pipe: PipeId,
        bytes: &'a [u8],
    },
    /// What the other direction may send, counted from [`Frame::PipeOpen`]. Absolute, and never less than before.
    PipeCredit {
        pipe: PipeId,
        bytes_through: u64,
    },
    /// This direction is over, after so many bytes; the other one goes on.
    PipeEnd {
        pipe: PipeId,
        bytes: u64,
    },
    /// Both directions are over at once; what was on the way is lost.
    PipeReset {
        pipe: PipeId,
        reason: Reason,
    },
}

/// What a frame is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    Stream(StreamId),
    Pipe(PipeId),
}

impl Subject {
    /// The number on the wire.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Stream(StreamId(number)) | Self::Pipe(PipeId(number)) => number,
        }
    }
}

impl Frame<'_> {
    /// The stream or pipe that this frame belongs to.
    #[must_use]
    pub const fn subject(&self) -> Subject {
        match self {
            Self::Open(open) => Subject::Stream(open.stream),
            Self::Tensor(header) | Self::Striped(header) => Subject::Stream(header.stream),
            Self::Placed { stream, .. } => Subject::Stream(*stream),
            Self::Chunk(chunk) => Subject::Stream(chunk.stream),
            Self::Credit(credit) => Subject::Stream(credit.stream),
            Self::Taken(taken) | Self::Lost(taken) => Subject::Stream(taken.stream),
            Self::End(end) => Subject::Stream(end.stream),
            Self::Ended(stream) | Self::Abort(stream) => Subject::Stream(*stream),
            Self::PipeOpen(pipe)
            | Self::PipeData { pipe, .. }
            | Self::PipeCredit { pipe, .. }
            | Self::PipeEnd { pipe, .. }
            | Self::PipeReset { pipe, .. } => Subject::Pipe(*pipe),
        }
    }
}

/// Attaches a sending lane to this connection. Counters of credit and totals start at zero here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    pub stream: StreamId,
    pub incarnation: Incarnation,
    /// Every tensor below it is settled: it will not be sent again.
    pub base_sequence: Sequence,
}

/// Bytes of an announced tensor. Tensors of a stream follow one another in the order they were announced,
/// and chunks of a tensor in the order of their offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk<'a> {
    pub stream: StreamId,
    pub sequence: Sequence,
    pub offset: u64,
    pub bytes: &'a [u8],
}

impl Chunk<'_> {
    /// Which bytes these are.
    #[must_use]
    pub const fn range(&self) -> ByteRange {
        let Self { stream, sequence, offset, bytes } = *self;
        ByteRange { stream, sequence, offset, length: bytes.len() }
    }
}

/// Which bytes of an announced tensor. As a frame of its own it says that they follow, in bulk records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    pub stream: StreamId,
    pub sequence: Sequence,
    pub offset: u64,
    pub length: usize,
}

/// What the sender may send, counted from [`Open`]. Absolute, so a lost or repeated grant harms nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    pub stream: StreamId,
    pub bytes_through: u64,
    pub tensors_through: u64,
}

/// The receiving application has taken these tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken<'a> {
    pub stream: StreamId,
    pub sequences: Sequences<'a>,
}

/// End of a stream with its totals, counted from [`Open`], repeats included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub stream: StreamId,
    pub tensors: u64,
    pub bytes: u64,
}

/// Sequence numbers, borrowed from the caller or from the wire.
#[derive(Debug, Clone, Copy)]
pub struct Sequences<'a>(pub(crate) Source<'a>);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    Caller(&'a [Sequence]),
    /// A whole number of eight-byte big-endian numbers.
    Wire(&'a [u8]),
}

impl<'a> Sequences<'a> {
    #[must_use]
    pub const fn new(sequences: &'a [Sequence]) -> Self {
        Self(Source::Caller(sequences))
    }

    pub fn iter(&self) -> impl Iterator<Item = Sequence> + 'a {
        let (caller, wire): (&[Sequence], &[u8]) = match self.0 {
            Source::Caller(sequences) => (sequences, &[]),
            Source::Wire(bytes) => (&[], bytes),
        };
        let (numbers, _) = wire.as_chunks::<8>();
        caller.iter().copied().chain(numbers.iter().map(|bytes| Sequence(u64::from_be_bytes(*bytes))))
    }
}

impl PartialEq for Sequences<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

#[cfg(test)]
mod tests;
