//! A lane that sends: parcels go in, news about them comes out.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::arena::TensorSource;
use super::failure::LaneError;
use super::tensor::{LaneIncarnation, Sequence, Span, TensorHeader};

/// Parcels accepted from a client before they are given to a replica. Their bytes stay in the client's arena, so this
/// bounds bookkeeping, and it is where back-pressure reaches the client.
pub const PARCELS_WAITING_MAX: usize = 64;

/// A receiving sidecar process: it ends with the process, so a restarted receiver is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub [u8; 16]);

/// One tensor to send, or a run.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// Given by the client, growing by one per lane from the request's `base`.
    pub sequence: Sequence,
    pub header: TensorHeader,
    pub source: Arc<dyn TensorSource>,
    /// Where the bytes start in `source`.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Replicas that [`SenderEvent::Assigned`] named for this sequence before the sidecar restarted; empty for a new
    /// tensor. It is sent again to exactly those, or declared uncertain.
    pub assigned: Vec<ReplicaId>,
}

impl Parcel {
    /// Its numbers.
    #[must_use]
    pub fn span(&self) -> Span {
        Span::new(self.sequence, self.header.tensors())
    }

    /// The tensors of a run one by one, for replicas that share them; any other as it is.
    pub fn parts(self) -> impl Iterator<Item = Self> {
        let Self { sequence, header, source, offset, length, assigned } = self;
        let count = header.tensors();
        let length = length.checked_div(count).unwrap_or(length);
        let header = TensorHeader { shape: header.shape_of_one().to_vec(), run: false, ..header };
        (0..count).map(move |index| Self {
            sequence: Sequence(sequence.0.saturating_add(index)),
            header: header.clone(),
            source: Arc::clone(&source),
            offset: offset.saturating_add(index.saturating_mul(length)),
            length,
            assigned: assigned.clone(),
        })
    }
}

/// News for the client about its parcels.
///
/// An event counts as passed on when the door asks for the next one; a session sends the first byte of a parcel only
/// after its `Assigned` was passed on. So a client that outlives the sidecar knows where every byte can have gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderEvent {
    /// A tensor, or a whole run, goes to these replicas, and to no others from now on.
    Assigned { span: Span, replicas: Vec<ReplicaId> },
    /// The receivers' applications have taken these tensors (`first..=last`); their memory is free.
    Taken { first: Sequence, last: Sequence },
    /// Whether these were taken can no longer be known, and they are never sent elsewhere. Their memory is free.
    Uncertain { first: Sequence, last: Sequence },
    /// The lane is over. Parcels that were not taken are lost to it.
    Failed(LaneError),
}

/// What a client asks of its lane besides parcels.
#[derive(Debug)]
pub enum Wish {
    Parcel(Parcel),
    /// Answer when everything offered before is taken.
    Flush(oneshot::Sender<Result<(), LaneError>>),
    /// Flush, then the authenticated end of the stream; answer when the receivers have recorded it.
    Close(oneshot::Sender<Result<(), LaneError>>),
}

/// The client's half of a lane that sends. Clones offer into the same lane.
#[derive(Debug, Clone)]
pub struct SenderLane {
    wishes: mpsc::Sender<Wish>,
}

impl SenderLane {
    /// Hands a tensor over; waits while the receivers give no credit. Cancel safe: a dropped call offered nothing.
    ///
    /// # Errors
    /// When the lane is over.
    pub async fn offer(&self, parcel: Parcel) -> Result<(), LaneError> {
        self.wishes.send(Wish::Parcel(parcel)).await.map_err(|_| LaneError::gone())
    }

    /// Whether an offer would wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.wishes.capacity() == 0
    }

    /// Waits until everything offered before is taken by the receivers' applications.
    ///
    /// # Errors
    /// When the lane ends first or a tensor became uncertain on the way.
    pub async fn flush(&self) -> Result<(), LaneError> {
        self.ask(Wish::Flush).await
    }

    /// Flushes and ends the stream. Parcels offered afterwards are refused. A lane dropped without it is interrupted
    /// at the receivers.
    ///
    /// # Errors
    /// As [`SenderLane::flush`].
    pub async fn close(&self) -> Result<(), LaneError> {
        self.ask(Wish::Close).await
    }

    async fn ask(
        &self,
        wish: impl FnOnce(oneshot::Sender<Result<(), LaneError>>) -> Wish,
    ) -> Result<(), LaneError> {
        let (answer, answered) = oneshot::channel();
        self.wishes.send(wish(answer)).await.map_err(|_| LaneError::gone())?;
        answered.await.map_err(|_| LaneError::gone())?
    }
}

/// News of one lane, in order.
#[derive(Debug)]
pub struct SenderEvents {
    events: mpsc::UnboundedReceiver<SenderEvent>,
    given: u64,
    passed: watch::Sender<u64>,
}

impl SenderEvents {
    /// The next event; asking for it says that the one before was passed on to the client. None after the lane ended.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<SenderEvent> {
        self.passed.send_if_modified(|passed| std::mem::replace(passed, self.given) != self.given);
        let event = self.events.recv().await?;
        self.given += 1;
        Some(event)
    }

    /// As [`SenderEvents::next`], with up to `most` events that wait: they count as passed on together, when more are
    /// asked for. False after the lane ended. Cancel safe.
    pub async fn next_many(&mut self, events: &mut Vec<SenderEvent>, most: usize) -> bool {
        self.passed.send_if_modified(|passed| std::mem::replace(passed, self.given) != self.given);
        let count = self.events.recv_many(events, most).await;
        self.given += count as u64;
        count > 0
    }
}

/// The session's half of a lane that sends.
#[derive(Debug)]
pub struct Intake {
    pub incarnation: LaneIncarnation,
    pub base: Sequence,
    wishes: mpsc::Receiver<Wish>,
    news: News,
}

/// The session's way to tell a client something.
#[derive(Debug)]
pub struct News {
    events: mpsc::UnboundedSender<SenderEvent>,
    sent: u64,
    passed: watch::Receiver<u64>,
}

/// Makes both halves. Events are bounded by the parcels that the lane holds, so their channel needs no bound.
#[must_use]
pub fn lane(incarnation: LaneIncarnation, base: Sequence) -> (SenderLane, SenderEvents, Intake) {
    let (wishes, wished) = mpsc::channel(PARCELS_WAITING_MAX);
    let (events, news) = mpsc::unbounded_channel();
    let (passed, passed_on) = watch::channel(0);
    (
        SenderLane { wishes },
        SenderEvents { events: news, given: 0, passed },
        Intake { incarnation, base, wishes: wished, news: News { events, sent: 0, passed: passed_on } },
    )
}

impl Intake {
    /// The client's next wish; None when its half is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<Wish> {
        self.wishes.recv().await
    }

    /// Takes the halves apart, so that wishes can wait while news goes out.
    #[must_use]
    pub fn split(self) -> (mpsc::Receiver<Wish>, News) {
        (self.wishes, self.news)
    }
}

impl News {
    /// Tells the client; false when it is gone.
    pub fn tell(&mut self, event: SenderEvent) -> bool {
        self.sent += 1;
        self.events.send(event).is_ok()
    }

    /// Number of events told so far: a mark for [`News::passed`].
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.sent
    }

    /// How many events were passed on to the client; [`watch::Receiver::changed`] wakes when it grows.
    #[must_use]
    pub fn passed(&self) -> watch::Receiver<u64> {
        self.passed.clone()
    }
}
