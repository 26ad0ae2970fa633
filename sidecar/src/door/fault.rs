//! What a client can do wrong. Each ends its connection.

use std::io;

use sealane_protocol::limits::{RUN_BYTES_MAX, RUN_TENSORS_MAX};

/// A broken rule of `DOOR.md`, in words for the developer of a client.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("the message ends before its last field")]
    Short,
    #[error("{0} bytes follow the last field of the message")]
    Trailing(usize),
    #[error("a message may have at most {max} bytes, this one has {actual}")]
    TooLong { actual: usize, max: usize },
    #[error("message kind {0} is unknown")]
    UnknownKind(u8),
    #[error("message kind {kind} has no flags {flags:#04x}")]
    UnknownFlags { kind: u8, flags: u8 },
    #[error("a field that must be zero is not")]
    NotZero,
    #[error("a text is not UTF-8")]
    NotUtf8,
    #[error("the first message must be HELLO")]
    NoHello,
    #[error("HELLO comes once")]
    SecondHello,
    #[error("HELLO does not begin with the door's magic; is this another protocol?")]
    WrongMagic,
    #[error(
        "this sidecar speaks version {ours} of the door, the client {oldest} to {newest}; update the older of the two"
    )]
    VersionUnsupported { ours: u16, oldest: u16, newest: u16 },
    #[error("no HELLO in time")]
    HelloTimeout,
    #[error("a client may have at most {max} {what}")]
    TooMany { what: &'static str, max: usize },
    #[error("lane {0} cannot be opened: its number is 0 or was used before")]
    LaneNumber(u32),
    #[error("`{0}` cannot name a session")]
    SessionName(String),
    #[error("lane {0} is not open for this")]
    WrongLane(u32),
    #[error("segment {0} is not a put segment of this client")]
    UnknownSegment(u32),
    #[error("offset {offset} and length {length} do not lie within segment {segment}")]
    OutOfSegment { segment: u32, offset: u64, length: u64 },
    #[error("dtype {0} is unknown")]
    UnknownDtype(u8),
    #[error("a tensor may have at most {max} dimensions, this one has {actual}")]
    Rank { actual: usize, max: usize },
    #[error("the shape and dtype do not make the length of {0} bytes")]
    LengthMismatch(u64),
    #[error(
        "{tensors} tensors of {length} bytes together are no run: it has 2 to {RUN_TENSORS_MAX} tensors and 1 to {RUN_BYTES_MAX} bytes"
    )]
    Run { tensors: u64, length: u64 },
    #[error("sequence {0} does not grow")]
    Sequence(u64),
    #[error("more tensors are under way than the window of {0}")]
    Window(u32),
    #[error("delivery {0} was not delivered, or is in the wrong state for this")]
    UnknownDelivery(u64),
    #[error("segments have at least one byte")]
    EmptySegment,
    #[error("the socket failed")]
    Socket(#[from] io::Error),
    #[error("the client left")]
    Gone,
}

impl Fault {
    /// As metrics name it.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Short => "Short",
            Self::Trailing(_) => "Trailing",
            Self::TooLong { .. } => "TooLong",
            Self::UnknownKind(_) => "UnknownKind",
            Self::UnknownFlags { .. } => "UnknownFlags",
            Self::NotZero => "NotZero",
            Self::NotUtf8 => "NotUtf8",
            Self::NoHello => "NoHello",
            Self::SecondHello => "SecondHello",
            Self::WrongMagic => "WrongMagic",
            Self::VersionUnsupported { .. } => "VersionUnsupported",
            Self::HelloTimeout => "HelloTimeout",
            Self::TooMany { .. } => "TooMany",
            Self::LaneNumber(_) => "LaneNumber",
            Self::SessionName(_) => "SessionName",
            Self::WrongLane(_) => "WrongLane",
            Self::UnknownSegment(_) => "UnknownSegment",
            Self::OutOfSegment { .. } => "OutOfSegment",
            Self::UnknownDtype(_) => "UnknownDtype",
            Self::Rank { .. } => "Rank",
            Self::LengthMismatch(_) => "LengthMismatch",
            Self::Run { .. } => "Run",
            Self::Sequence(_) => "Sequence",
            Self::Window(_) => "Window",
            Self::UnknownDelivery(_) => "UnknownDelivery",
            Self::EmptySegment => "EmptySegment",
            Self::Socket(_) => "Socket",
            Self::Gone => "Gone",
        }
    }
}
