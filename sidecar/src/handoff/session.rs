//! What clients may know of the sessions of their pod.

use sealane_types::SessionName;

use super::failure::LaneError;
use crate::desired::Direction;

/// What a session carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// Tensors, in lanes that clients open.
    Stream,
    /// TCP connections; there are no lanes.
    Forward,
}

/// One side of a TransferSession.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    pub name: SessionName,
    pub direction: Direction,
    pub kind: SessionKind,
    /// What a lane that is opened now without waiting would be told.
    pub standing: Result<(), LaneError>,
}

/// Knows the sessions of the pod.
pub trait Sessions: Send + Sync + std::fmt::Debug {
    /// All of them, by name and direction.
    fn list(&self) -> Vec<SessionView>;
}
