//! Why a pipe is refused.

use sealane_types::Reason;

use crate::limits::{PIPE_WINDOW_BYTES_MAX, PIPES_MAX};

/// The peer said something impossible about a pipe: the connection ends with [`Self::reason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PipeError {
    #[error("the peer spoke of a pipe that was never opened")]
    NeverOpened,
    #[error("the responder opened a pipe")]
    OpenedByResponder,
    #[error("the peer's pipe numbers do not grow")]
    NumberReused,
    #[error("the peer sent more of a pipe than it had credit for")]
    CreditExceeded,
    #[error("the peer took back credit that it had given")]
    CreditShrunk,
    #[error("the peer gave credit for more than {PIPE_WINDOW_BYTES_MAX} bytes ahead")]
    CreditTooLarge,
    #[error("the peer sent something after the end of a pipe")]
    AfterEnd,
    #[error("the peer's total of a pipe is not what arrived")]
    TotalDiffers,
}

impl PipeError {
    /// The word that status, metrics and the peer see.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::CreditExceeded | Self::CreditTooLarge => Reason::LimitExceeded,
            Self::NeverOpened
            | Self::OpenedByResponder
            | Self::NumberReused
            | Self::CreditShrunk
            | Self::AfterEnd
            | Self::TotalDiffers => Reason::FrameMalformed,
        }
    }
}

/// No pipe can be opened on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the connection carries {PIPES_MAX} pipes already")]
    Full,
    #[error("the connection's numbers for pipes are used up")]
    NumbersUsedUp,
    #[error("only the side that dialled opens pipes")]
    Responder,
}
