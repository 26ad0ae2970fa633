//! What associations and the session tell a lane.

use super::backlog::{Dropped, Remains};
use crate::handoff::{LaneError, Sequence};

/// Names an association within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Serial(pub(super) u64);

/// News for one lane.
#[derive(Debug)]
pub(super) enum LaneNews {
    Taken {
        association: Serial,
        sequences: Vec<Sequence>,
    },
    /// The receiver's application is gone with these.
    Lost {
        association: Serial,
        sequences: Vec<Sequence>,
    },
    /// The receiver recorded the end of a stream.
    Ended,
    /// The receiving process is gone.
    Gone {
        association: Serial,
        remains: Remains,
    },
    /// The receiver stalled, and these are no longer sent to it.
    Stalled {
        association: Serial,
        dropped: Dropped,
    },
    /// The session is over.
    Failed(LaneError),
}
