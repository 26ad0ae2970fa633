//! A lane that receives: whole tensors come out, "taken" goes back.

use tokio::sync::mpsc;

use super::arena::SlotId;
use super::failure::LaneError;
use super::tensor::{Sequence, TensorHeader};

/// Names a delivery within its receiver lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// A tensor or a run, all of whose bytes were opened and written into the client's arena. Nothing else is named by the
/// ids that follow that of a run, one for each further tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub slot: SlotId,
    /// Length in bytes; the slot may be larger.
    pub length: u64,
    pub header: TensorHeader,
    /// `peer/pod` of the sender, attested.
    pub sender: String,
    /// Its number at the sender; gaps are normal when tensors are shared among replicas.
    pub sequence: Sequence,
}

/// What iteration over a stream meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    Tensor(Delivery),
    /// A sender (`peer/pod`) was lost without closing; told once, iteration goes on.
    Interrupted {
        sender: String,
    },
    /// Every sender has closed; nothing follows.
    End,
    /// The lane is over for another reason; nothing follows.
    Failed(LaneError),
}

/// The client's half that says what was taken. Clones speak for the same lane.
#[derive(Debug, Clone)]
pub struct ReceiverLane {
    taken: mpsc::UnboundedSender<DeliveryId>,
}

impl ReceiverLane {
    /// The application has taken these tensors: their senders may forget them. Never waits; unknown or repeated ids
    /// are ignored by the session.
    pub fn taken(&self, deliveries: &[DeliveryId]) {
        for delivery in deliveries {
            // A closed channel means that the session is over: nobody is left to be told.
            let _ = self.taken.send(*delivery);
        }
    }
}

/// The client's half that brings tensors. Dropping it before its end ends the lane, and what was delivered and not taken
/// is uncertain; after [`Turn::End`], deliveries can be taken as long as the [`ReceiverLane`] is there.
#[derive(Debug)]
pub struct Deliveries {
    turns: mpsc::UnboundedReceiver<Turn>,
}

impl Deliveries {
    /// The next turn; None after [`Turn::End`] or [`Turn::Failed`]. Cancel safe.
    pub async fn next(&mut self) -> Option<Turn> {
        self.turns.recv().await
    }

    /// The next turn if one waits, so that many can share one message to the client.
    pub fn next_now(&mut self) -> Option<Turn> {
        self.turns.try_recv().ok()
    }
}

/// The session's half of a lane that receives.
#[derive(Debug)]
pub struct Outlet {
    turns: mpsc::UnboundedSender<Turn>,
    taken: mpsc::UnboundedReceiver<DeliveryId>,
}

/// Hands turns to one client.
#[derive(Debug, Clone)]
pub struct Turns(mpsc::UnboundedSender<Turn>);

impl Turns {
    /// As [`Outlet::give`].
    ///
    /// # Errors
    /// The turn itself.
    pub fn give(&self, turn: Turn) -> Result<(), Turn> {
        self.0.send(turn).map_err(|error| error.0)
    }

    /// Resolves when the client's half is gone.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

/// Makes both halves. Turns are bounded by the slots of the arena, and taken ids by the turns.
#[must_use]
pub fn lane() -> (ReceiverLane, Deliveries, Outlet) {
    let (turns, deliveries) = mpsc::unbounded_channel();
    let (taken, told) = mpsc::unbounded_channel();
    (ReceiverLane { taken }, Deliveries { turns: deliveries }, Outlet { turns, taken: told })
}

impl Outlet {
    /// Hands a turn to the client; the turn comes back when the client is gone.
    ///
    /// # Errors
    /// The turn itself.
    pub fn give(&self, turn: Turn) -> Result<(), Turn> {
        self.turns.send(turn).map_err(|error| error.0)
    }

    /// The way to hand turns to the client from elsewhere.
    #[must_use]
    pub fn turns(&self) -> Turns {
        Turns(self.turns.clone())
    }

    /// The next delivery that the client has taken; None when the client is gone. Cancel safe.
    pub async fn taken(&mut self) -> Option<DeliveryId> {
        self.taken.recv().await
    }

    /// As [`Outlet::taken`] without waiting, for batches.
    pub fn taken_now(&mut self) -> Option<DeliveryId> {
        self.taken.try_recv().ok()
    }

    /// Resolves when the client's half is gone.
    pub async fn gone(&self) {
        self.turns.closed().await;
    }
}
