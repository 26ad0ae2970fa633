//! Why a call at the gRPC door fails.

use sealane_types::Reason;
use tonic::{Code, Status};

use crate::door::limits::MORE_MEMORY;
use crate::handoff::{LaneError, LaneFailure};

/// What ends a call: the lane, a limit, or a rule of `door.proto` that the client broke.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Fault {
    #[error("{}", .0.message)]
    Lane(LaneError),
    #[error("the door serves {max} {what} already; close some")]
    TooMany { what: &'static str, max: usize },
    #[error("the door's memory is in use: a lane needs {bytes} bytes; {MORE_MEMORY}")]
    NoMemory { bytes: u64 },
    #[error(
        "a tensor of {bytes} bytes does not fit: this pod's sidecar keeps at most {max} bytes of tensors that are put; put it in parts, or {MORE_MEMORY}"
    )]
    TooLarge { bytes: u64, max: u64 },
    #[error("the shape has more bytes than can be counted")]
    Uncountable,
    #[error("the door's memory cannot be used: {0}")]
    Broken(String),
    #[error("the first message must be `open`")]
    NotOpened,
    #[error("no first message in time")]
    OpenTimeout,
    #[error("`open` comes once")]
    OpenedTwice,
    #[error(
        "a message is empty: set one of its kinds; a newer client may have sent a kind that this sidecar does not know"
    )]
    Empty,
    #[error("`{0}` cannot name a session")]
    SessionName(String),
    #[error("an incarnation has 16 bytes, this one {0}")]
    Incarnation(usize),
    #[error("a replica has 16 bytes, this one {0}")]
    Replica(usize),
    #[error("dtype {0} is unknown")]
    UnknownDtype(i32),
    #[error("acknowledge {0} is unknown")]
    UnknownAcknowledge(i32),
    #[error("a tensor has at most {max} {what}, this one more")]
    Header { what: &'static str, max: usize },
    #[error("sequence {0} does not grow")]
    Sequence(u64),
    #[error("the data goes beyond the {length} bytes that dtype and shape make")]
    Beyond { length: u64 },
    #[error("a chunk begins at {actual}; the next byte of the tensor is {expected}")]
    Gap { expected: u64, actual: u64 },
    #[error("a chunk has no bytes")]
    EmptyChunk,
    #[error("a chunk belongs to no tensor: the one before is complete")]
    Stray,
    #[error("{missing} bytes of the tensor before are missing")]
    Unfinished { missing: u64 },
    #[error("more than {max} flushes wait")]
    Flushes { max: usize },
    #[error("the request stream ended without `close`: receivers are told of an interruption")]
    Unclosed,
    #[error("the request stream ended and {0} tensors were not taken")]
    Untaken(usize),
    #[error("delivery {0} was not delivered, or was taken before")]
    UnknownDelivery(u64),
    #[error("no resumable lane of this incarnation is open")]
    UnknownLane,
    /// Told to nobody.
    #[error("the client left")]
    Gone,
    #[error("the sidecar is shutting down")]
    Draining,
    /// From below: cancelled, or a message that was too long or unreadable.
    #[error("{}", .0.message())]
    Transport(Box<Status>),
}

impl Fault {
    pub(super) const fn reason(&self) -> Reason {
        match self {
            Self::Lane(error) => error.reason,
            Self::TooMany { .. }
            | Self::NoMemory { .. }
            | Self::TooLarge { .. }
            | Self::Uncountable
            | Self::Flushes { .. }
            | Self::Header { .. } => Reason::LimitExceeded,
            Self::Broken(_) => Reason::Internal,
            Self::Unclosed | Self::Untaken(_) | Self::Gone => Reason::LinkLost,
            Self::UnknownLane => Reason::SessionUnknown,
            Self::Draining => Reason::Draining,
            Self::Transport(_) => Reason::FrameMalformed,
            _ => Reason::FrameMalformed,
        }
    }

    /// The rule that the client broke, as metrics name it.
    pub(super) const fn rule(&self) -> Option<&'static str> {
        Some(match self {
            Self::Uncountable => "Uncountable",
            Self::NotOpened => "NotOpened",
            Self::OpenTimeout => "OpenTimeout",
            Self::OpenedTwice => "OpenedTwice",
            Self::Empty => "Empty",
            Self::SessionName(_) => "SessionName",
            Self::Incarnation(_) => "Incarnation",
            Self::Replica(_) => "Replica",
            Self::UnknownDtype(_) => "UnknownDtype",
            Self::UnknownAcknowledge(_) => "UnknownAcknowledge",
            Self::Header { .. } => "Header",
            Self::Sequence(_) => "Sequence",
            Self::Beyond { .. } => "Beyond",
            Self::Gap { .. } => "Gap",
            Self::EmptyChunk => "EmptyChunk",
            Self::Stray => "Stray",
            Self::Unfinished { .. } => "Unfinished",
            Self::Flushes { .. } => "Flushes",
            Self::UnknownDelivery(_) => "UnknownDelivery",
            _ => return None,
        })
    }

    pub(super) const fn code(&self) -> Code {
        match self {
            Self::Lane(error) => lane_code(error),
            Self::TooMany { .. } | Self::NoMemory { .. } | Self::TooLarge { .. } | Self::Flushes { .. } => {
                Code::ResourceExhausted
            }
            Self::Broken(_) => Code::Internal,
            Self::OpenTimeout => Code::DeadlineExceeded,
            Self::Unclosed | Self::Untaken(_) | Self::Gone => Code::Aborted,
            Self::UnknownLane => Code::NotFound,
            Self::Draining => Code::Unavailable,
            _ => Code::InvalidArgument,
        }
    }
}

const fn lane_code(error: &LaneError) -> Code {
    match (error.failure, error.reason) {
        (_, Reason::LimitExceeded) => Code::ResourceExhausted,
        (LaneFailure::NotReady, _) | (LaneFailure::Closed, Reason::Draining) => Code::Unavailable,
        (LaneFailure::Refused, _) => Code::PermissionDenied,
        (LaneFailure::Closed, _) => Code::Aborted,
    }
}

impl From<LaneError> for Fault {
    fn from(error: LaneError) -> Self {
        Self::Lane(error)
    }
}

impl From<Status> for Fault {
    fn from(status: Status) -> Self {
        Self::Transport(Box::new(status))
    }
}
