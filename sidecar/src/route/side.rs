//! One side of one session, whatever it carries.

use std::sync::Arc;

use sealane_types::Reason;
use tokio::sync::watch;

use crate::context::Context;
use crate::desired::{Direction, Kind, Session};
use crate::handoff::LaneError;
use crate::session::forward::listening::Listening;
use crate::session::forward::serving::Serving;
use crate::session::inbound::Accepting;
use crate::session::incoming::Receiving;
use crate::session::outgoing::Sending;
use crate::session::readiness::{Observed, Readiness};

/// One side of one session.
#[derive(Debug, Clone)]
pub(super) enum Side {
    Sending(Arc<Sending>),
    Receiving(Arc<Receiving>),
    Listening(Arc<Listening>),
    Serving(Arc<Serving>),
}

/// A side that has lanes.
#[derive(Debug, Clone)]
pub(super) enum Stream {
    Sending(Arc<Sending>),
    Receiving(Arc<Receiving>),
}

impl Side {
    pub(super) fn start(context: &Arc<Context>, session: Session) -> Self {
        let context = Arc::clone(context);
        match (session.kind, session.direction) {
            (Kind::Stream { .. }, Direction::Sending) => Self::Sending(Sending::start(context, session)),
            (Kind::Stream { .. }, Direction::Receiving) => {
                Self::Receiving(Receiving::start(context, session))
            }
            (Kind::Forward(forward), Direction::Sending) => {
                Self::Listening(Listening::start(context, session, forward))
            }
            (Kind::Forward(forward), Direction::Receiving) => {
                Self::Serving(Serving::start(context, session, forward))
            }
        }
    }

    /// Follows a changed configuration.
    pub(super) fn update(&self, session: Session) {
        match self {
            Self::Sending(sending) => sending.update(session),
            Self::Receiving(receiving) => receiving.update(session),
            Self::Listening(listening) => listening.update(session),
            Self::Serving(serving) => serving.update(session),
        }
    }

    /// Ends it.
    pub(super) fn close(&self, reason: Reason, message: &str) {
        match self {
            Self::Sending(sending) => sending.close(reason, message),
            Self::Receiving(receiving) => receiving.close(reason, message),
            Self::Listening(listening) => listening.close(reason),
            Self::Serving(serving) => serving.close(reason),
        }
    }

    /// Takes nothing new on while what there is finishes.
    pub(super) fn drain(&self) {
        match self {
            // Lanes end when their clients do, which the door has told to go.
            Self::Sending(_) | Self::Receiving(_) => {}
            Self::Listening(listening) => listening.drain(),
            Self::Serving(serving) => serving.drain(),
        }
    }

    /// Whether it has nothing left to finish.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Sending(sending) => sending.is_idle(),
            Self::Receiving(_) => true,
            Self::Listening(listening) => listening.is_idle(),
            Self::Serving(serving) => serving.is_idle(),
        }
    }

    /// Ends receiving lanes, whose clients may still take what they were given. Connections stay to tell senders of it.
    pub(super) fn stop_receiving(&self, error: &LaneError) {
        if let Self::Receiving(receiving) = self {
            receiving.refuse(error);
        }
    }

    /// Whether no remote waits to hear what became of a tensor that arrived here.
    pub(super) fn is_acknowledged(&self) -> bool {
        match self {
            Self::Receiving(receiving) => receiving.is_acknowledged(),
            Self::Sending(_) | Self::Listening(_) | Self::Serving(_) => true,
        }
    }

    pub(super) fn observe(&self) -> Observed {
        match self {
            Self::Sending(sending) => sending.observe(),
            Self::Receiving(receiving) => receiving.observe(),
            Self::Listening(listening) => listening.observe(),
            Self::Serving(serving) => serving.observe(),
        }
    }

    /// The policy changed: lanes fail at once if it stops permitting their session. Connections see to themselves.
    pub(super) fn reconsider(&self) {
        let forbidden = match self {
            Self::Sending(sending) => sending.forbidden(),
            Self::Receiving(receiving) => receiving.forbidden(),
            Self::Listening(_) | Self::Serving(_) => None,
        };
        let Some(Readiness::Refused { reason, message }) = forbidden else {
            if let Self::Receiving(receiving) = self {
                receiving.judge_again();
            }
            return;
        };
        let error = LaneError::refused(reason, message);
        match self {
            Self::Sending(sending) => sending.refuse(&error),
            Self::Receiving(receiving) => receiving.refuse(&error),
            Self::Listening(_) | Self::Serving(_) => {}
        }
    }

    /// The side that connections of other sidecars join, if this one accepts any.
    pub(super) fn accepting(&self) -> Option<Arc<dyn Accepting>> {
        match self {
            Self::Receiving(receiving) => Some(Arc::clone(receiving) as Arc<_>),
            Self::Serving(serving) => Some(Arc::clone(serving) as Arc<_>),
            Self::Sending(_) | Self::Listening(_) => None,
        }
    }

    /// What lanes can be opened on.
    pub(super) fn stream(&self) -> Result<Stream, Readiness> {
        let message = match self {
            Self::Sending(sending) => return Ok(Stream::Sending(Arc::clone(sending))),
            Self::Receiving(receiving) => return Ok(Stream::Receiving(Arc::clone(receiving))),
            Self::Listening(listening) => format!(
                "the TransferSession forwards TCP connections and has no lanes; connect to {}",
                listening.address()
            ),
            Self::Serving(_) => {
                "the TransferSession forwards TCP connections to this pod's server and has no lanes"
                    .to_owned()
            }
        };
        Err(Readiness::refused(Reason::SessionNotInPolicy, message))
    }
}

impl Stream {
    pub(super) fn readiness(&self) -> Readiness {
        match self {
            Self::Sending(sending) => sending.readiness(),
            Self::Receiving(receiving) => receiving.readiness(),
        }
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        match self {
            Self::Sending(sending) => sending.changes(),
            Self::Receiving(receiving) => receiving.changes(),
        }
    }
}
