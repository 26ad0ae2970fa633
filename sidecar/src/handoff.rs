//! The hand-off: the only thing that the door (local side) and the sessions (network side) share.
//!
//! A client's lane is a pair of halves connected by bounded channels. The door holds the client's half
//! ([`SenderLane`] with [`SenderEvents`], or [`ReceiverLane`] with [`Deliveries`]), a session holds the other
//! ([`sender::Intake`], [`receiver::Outlet`]). Tensor bytes never travel through a channel: a sender's bytes
//! are sealed where [`TensorSource`] says that they lie in the client's arena, a receiver's bytes are opened into the client's
//! [`TakeArena`].
//!
//! Promises that both sides keep:
//! - A parcel that [`SenderLane::offer`] accepted stays readable until [`SenderEvent::Taken`] or
//!   [`SenderEvent::Uncertain`] names its sequence.
//! - A delivery's slot belongs to the client from the moment that [`Deliveries::next`] returns it; the door
//!   says [`ReceiverLane::taken`] when the application has taken the tensor, and frees the slot in its arena when the
//!   last view is gone.
//! - Dropping a half is a crash of that side: the other half learns it, and nothing is counted as taken.

use std::sync::Arc;

use sealane_types::SessionName;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub mod arena;
pub mod failure;
pub mod receiver;
pub mod sender;
pub mod session;
pub mod tensor;

pub use arena::{NoSlot, SlotId, TakeArena, TensorSource};
pub use failure::{LaneError, LaneFailure};
pub use receiver::{Deliveries, Delivery, DeliveryId, ReceiverLane, Turn};
pub use sender::{Parcel, ReplicaId, SenderEvent, SenderEvents, SenderLane};
pub use session::{SessionKind, SessionView, Sessions};
pub use tensor::{DIMENSIONS_MAX, LaneIncarnation, Sequence, Span, TENSOR_NAME_BYTES_MAX, TensorHeader};

/// Requests for lanes that wait to be looked at by the sessions.
const REQUESTS_WAITING_MAX: usize = 64;

/// A client's wish for a lane that sends.
#[derive(Debug)]
pub struct SenderRequest {
    pub session: SessionName,
    pub incarnation: LaneIncarnation,
    /// Sequence of the first parcel that will be offered: 0, or the oldest one that a restart left untaken.
    pub base: Sequence,
    pub deadline: Instant,
    /// A dropped answer (the client went away) needs no further work.
    pub answer: oneshot::Sender<Result<(SenderLane, SenderEvents), LaneError>>,
}

/// A client's wish for a lane that receives.
#[derive(Debug)]
pub struct ReceiverRequest {
    pub session: SessionName,
    pub arena: Arc<dyn TakeArena>,
    pub deadline: Instant,
    pub answer: oneshot::Sender<Result<(ReceiverLane, Deliveries), LaneError>>,
}

/// What the sessions receive from the door.
#[derive(Debug)]
pub enum LaneRequest {
    Sender(SenderRequest),
    Receiver(ReceiverRequest),
}

/// The door's way to the sessions.
#[derive(Debug, Clone)]
pub struct Lanes {
    requests: mpsc::Sender<LaneRequest>,
}

/// Connects a door to the sessions.
#[must_use]
pub fn lanes() -> (Lanes, mpsc::Receiver<LaneRequest>) {
    let (requests, waiting) = mpsc::channel(REQUESTS_WAITING_MAX);
    (Lanes { requests }, waiting)
}

impl Lanes {
    /// Opens a lane that sends, once an attested replica of every `to` Peer is connected.
    ///
    /// # Errors
    /// `NotReady` with the reason when `deadline` passes first, `Refused` when the policy or the session's direction
    /// forbids it. The answer comes at the deadline at the latest.
    pub async fn open_sender(
        &self,
        session: SessionName,
        incarnation: LaneIncarnation,
        base: Sequence,
        deadline: Instant,
    ) -> Result<(SenderLane, SenderEvents), LaneError> {
        let (answer, answered) = oneshot::channel();
        let request = SenderRequest { session, incarnation, base, deadline, answer };
        self.requests.send(LaneRequest::Sender(request)).await.map_err(|_| LaneError::gone())?;
        answered.await.map_err(|_| LaneError::gone())?
    }

    /// Opens a lane that receives, once a sender replica is connected or has already ended.
    ///
    /// # Errors
    /// As [`Lanes::open_sender`].
    pub async fn open_receiver(
        &self,
        session: SessionName,
        arena: Arc<dyn TakeArena>,
        deadline: Instant,
    ) -> Result<(ReceiverLane, Deliveries), LaneError> {
        let (answer, answered) = oneshot::channel();
        let request = ReceiverRequest { session, arena, deadline, answer };
        self.requests.send(LaneRequest::Receiver(request)).await.map_err(|_| LaneError::gone())?;
        answered.await.map_err(|_| LaneError::gone())?
    }
}
