//! Why a call on a connection did not do what it was asked.

use sealane_types::Reason;

/// The shell called something at the wrong time or with values that cannot be used. The connection is
/// unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ApiMisuse {
    #[error("no answer of this kind is awaited now")]
    NotAwaited,
    #[error("the connection is not established, carries no data, or is closed")]
    NotEstablished,
    #[error("the frame exceeds a limit or contradicts itself")]
    InvalidFrame,
    #[error("the evidence or policy exceeds its limit")]
    TooLarge,
    #[error("the verdict is about another Peer than the one at the other end")]
    OtherPeer,
}

/// A frame or chunk was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Drain the output, then try again.
    #[error("the output is full")]
    NoRoom,
    #[error(transparent)]
    Misuse(#[from] ApiMisuse),
}

/// No ticket was given out; the connection is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    #[error(
        "only the responder of an established connection issues tickets, some for every attestation, to remotes that take them"
    )]
    NotNow,
    #[error("it would be over at once")]
    TooShort,
    #[error(transparent)]
    Random(#[from] crate::keys::RandomFailed),
}

/// Payload that a closure was to put into its record was not queued.
#[derive(Debug, thiserror::Error)]
pub enum FillError<E> {
    #[error(transparent)]
    Send(#[from] SendError),
    /// The caller's source could not give the bytes; nothing was queued.
    #[error("the source of the payload could not be read")]
    Source(E),
}

/// The connection could not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("the policy's floor permits none of the suites that this side speaks")]
    NoSuite,
    #[error("the ticket is not good for this connection")]
    Ticket,
    #[error(transparent)]
    Random(#[from] crate::keys::RandomFailed),
    #[error(transparent)]
    Kem(#[from] crate::keys::KemFailed),
    #[error("the cryptography library refused to start a handshake")]
    Crypto,
}

/// The remote, or someone between, broke the protocol; the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fail {
    #[error("the handshake failed: {0}")]
    Handshake(#[from] crate::handshake::HandshakeError),
    #[error("a record was refused: {0}")]
    Record(#[from] crate::record::RecordError),
    #[error("a frame was refused: {0}")]
    Frame(#[from] crate::frame::FrameError),
    #[error("the peer broke the order of the protocol: {0}")]
    Order(&'static str),
    #[error("the peer is not who it should be: {0}")]
    Identity(&'static str),
    #[error("the peer sent more than its limit of {0}")]
    Limit(&'static str),
    #[error("both sides hold different policies of one epoch")]
    PolicyConflict,
    #[error("other unverified peers hand over their policies already; this one may try again")]
    Busy,
    #[error("neither side holds a policy")]
    PolicyMissing,
    #[error("the peer's evidence message is malformed")]
    Evidence,
    #[error("the frame was refused above the protocol: {0}")]
    Sink(Reason),
    #[error("the connection is already closed")]
    Closed,
}

impl Fail {
    /// The word that status, metrics and the remote see.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Handshake(error) => error.reason(),
            Self::Record(_) => Reason::RecordRejected,
            Self::Frame(_) | Self::Order(_) => Reason::FrameMalformed,
            Self::Identity(_) => Reason::PeerUnknown,
            Self::Limit(_) | Self::Busy => Reason::LimitExceeded,
            Self::PolicyConflict => Reason::PolicyConflict,
            Self::PolicyMissing => Reason::PolicyMissing,
            Self::Evidence => Reason::EvidenceMalformed,
            Self::Sink(reason) => *reason,
            Self::Closed => Reason::Finished,
        }
    }
}
