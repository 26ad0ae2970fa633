//! One lane that receives, for one client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealane_types::SessionName;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::codec::{DELIVER_ENTRY_BYTES, Entry, Failure, HEADER_BYTES, Reply};
use super::fault::Fault;
use super::limits;
use super::socket::Socket;
use super::take::{Place, TakeSegments};
use crate::handoff::{
    Deliveries, Delivery, DeliveryId, LaneError, Lanes, ReceiverLane, SlotId, TakeArena, Turn,
};

/// What the client's messages and the lane's task share.
#[derive(Debug)]
struct Held {
    arena: Arc<TakeSegments>,
    /// While the lane is open.
    lane: Mutex<Option<ReceiverLane>>,
    deliveries: Mutex<HashMap<u64, Slot>>,
}

/// A delivered tensor's slot, until the client releases it.
#[derive(Debug, Clone, Copy)]
struct Slot {
    id: SlotId,
    taken: bool,
}

impl Held {
    fn deliveries(&self) -> MutexGuard<'_, HashMap<u64, Slot>> {
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane(&self) -> MutexGuard<'_, Option<ReceiverLane>> {
        self.lane.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees what the application never took, and tells the session that nothing more will be.
    fn forget_untaken(&self) {
        *self.lane() = None;
        let untaken = |(_, slot): (u64, Slot)| slot.id;
        let untaken: Vec<SlotId> = self.deliveries().extract_if(|_, slot| !slot.taken).map(untaken).collect();
        untaken.into_iter().for_each(|slot| self.arena.release(slot));
    }
}

/// The client's side of the lane.
#[derive(Debug)]
pub(super) struct Receiving {
    held: Arc<Held>,
    close: CancellationToken,
    task: AbortHandle,
}

/// What to open.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) lane: u32,
    pub(super) session: SessionName,
    pub(super) arena: Arc<TakeSegments>,
    pub(super) deadline: Instant,
}

impl Receiving {
    /// Starts the lane among the client's `tasks`.
    pub(super) fn start(
        opening: Opening,
        lanes: Lanes,
        socket: Arc<Socket>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let Opening { lane, session, arena, deadline } = opening;
        let held = Arc::new(Held { arena, lane: Mutex::default(), deliveries: Mutex::default() });
        let close = CancellationToken::new();
        let task = Task { lane, socket, held: held.clone(), close: close.clone(), senders: HashMap::new() };
        let task = tasks.spawn(task.run(session, deadline, lanes));
        Self { held, close, task }
    }

    /// Whether the lane is over and the client holds nothing of it.
    pub(super) fn finished(&self) -> bool {
        self.task.is_finished() && self.held.deliveries().is_empty()
    }

    /// Ends the lane as a crash of the client would.
    pub(super) fn abandon(&self) {
        self.task.abort();
        self.close();
    }

    /// The client leaves: what it has not taken goes back. What it holds stays until it is released.
    pub(super) fn close(&self) {
        self.close.cancel();
        self.held.forget_untaken();
    }

    /// The application has these now. Of those that it has `partly` nobody says that they were taken: what it holds of them
    /// stays where it is, and to their senders they are lost.
    pub(super) fn took(&self, deliveries: &[u64], partly: bool) -> Result<(), Fault> {
        let mut held = self.held.deliveries();
        for delivery in deliveries {
            match held.get_mut(delivery) {
                Some(slot) if !slot.taken => slot.taken = true,
                // What was not taken went back when the client closed.
                None if self.close.is_cancelled() => {}
                _ => return Err(Fault::UnknownDelivery(*delivery)),
            }
        }
        drop(held);
        if partly {
            return Ok(());
        }
        if let Some(lane) = self.held.lane().as_ref() {
            let deliveries: Vec<DeliveryId> = deliveries.iter().copied().map(DeliveryId).collect();
            lane.taken(&deliveries);
        }
        Ok(())
    }

    /// The last views of these are gone.
    pub(super) fn release(&self, deliveries: &[u64]) -> Result<(), Fault> {
        for delivery in deliveries {
            let slot = self.held.deliveries().remove(delivery);
            match slot {
                Some(Slot { id, taken: true }) => self.held.arena.release(id),
                None if self.close.is_cancelled() => {}
                _ => return Err(Fault::UnknownDelivery(*delivery)),
            }
        }
        Ok(())
    }
}

struct Task {
    lane: u32,
    socket: Arc<Socket>,
    held: Arc<Held>,
    close: CancellationToken,
    senders: HashMap<String, u32>,
}

/// Why the task stops talking.
enum Stop {
    /// The client asked to leave.
    Closed,
    /// Every sender has closed.
    Ended,
    Failed(LaneError),
    /// The socket is gone; nobody hears anything.
    Silent,
}

impl Task {
    async fn run(mut self, session: SessionName, deadline: Instant, lanes: Lanes) {
        let lane = self.lane;
        let arena = self.held.arena.clone();
        // The first segment is there before the first tensor asks for it.
        let _ = tokio::task::spawn_blocking(move || arena.begin()).await;
        let opened = tokio::select! {
            opened = lanes.open_receiver(session, self.held.arena.clone(), deadline) => opened,
            () = self.close.cancelled() => return self.stop(Stop::Closed).await,
        };
        let stop = match opened {
            Ok((receiver, deliveries)) => {
                *self.held.lane() = Some(receiver);
                match self.say(&Reply::Opened { lane, window: limits::WINDOW_TENSORS }).await {
                    Ok(()) => self.work(deliveries).await,
                    Err(stop) => stop,
                }
            }
            Err(error) => Stop::Failed(error),
        };
        self.stop(stop).await;
    }

    async fn stop(&self, stop: Stop) {
        let lane = self.lane;
        // What was delivered before an end or a failure is still the client's to take: `Held` goes on without this
        // task. A client that is gone needs no last word.
        let _ = match stop {
            Stop::Closed => {
                self.held.forget_untaken();
                self.say(&Reply::Closed { lane }).await
            }
            Stop::Ended => self.say(&Reply::Ended { lane }).await,
            Stop::Failed(LaneError { failure, reason, message }) => {
                let failure = Failure::from(failure);
                self.say(&Reply::Failed { lane, failure, reason, message: &message }).await
            }
            Stop::Silent => Ok(()),
        };
    }

    async fn work(&mut self, mut deliveries: Deliveries) -> Stop {
        loop {
            let turn = tokio::select! {
                turn = deliveries.next() => turn,
                () = self.close.cancelled() => return Stop::Closed,
                () = self.held.arena.changed() => match self.announce().await {
                    Ok(()) => continue,
                    Err(stop) => return stop,
                },
            };
            let Some(turn) = turn else { return Stop::Failed(LaneError::gone()) };
            if let Err(stop) = self.pass_on(turn, &mut deliveries).await {
                return stop;
            }
        }
    }

    /// Passes on one turn and the tensors that wait behind it.
    async fn pass_on(&mut self, turn: Turn, deliveries: &mut Deliveries) -> Result<(), Stop> {
        let (mut batch, mut bytes) = (Vec::new(), HEADER_BYTES);
        let mut next = Some(turn);
        while let Some(turn) = next {
            match turn {
                Turn::Tensor(delivery) => {
                    let more = encoded_bytes(&delivery);
                    if bytes + more > limits::MESSAGE_BYTES_MAX {
                        self.deliver(&batch).await?;
                        batch.clear();
                        bytes = HEADER_BYTES;
                    }
                    bytes += more;
                    batch.push(delivery);
                }
                other => {
                    self.deliver(&batch).await?;
                    batch.clear();
                    bytes = HEADER_BYTES;
                    self.other(other).await?;
                }
            }
            next = deliveries.next_now();
        }
        self.deliver(&batch).await
    }

    async fn other(&self, turn: Turn) -> Result<(), Stop> {
        match turn {
            Turn::Interrupted { sender } => {
                self.say(&Reply::Interrupted { lane: self.lane, sender: &sender }).await
            }
            Turn::End => Err(Stop::Ended),
            Turn::Failed(error) => Err(Stop::Failed(error)),
            Turn::Tensor(_) => Ok(()),
        }
    }

    async fn deliver(&mut self, batch: &[Delivery]) -> Result<(), Stop> {
        if batch.is_empty() {
            return Ok(());
        }
        self.announce().await?;
        let mut entries = Vec::with_capacity(batch.len());
        for delivery in batch {
            let sender = self.number(&delivery.sender).await?;
            // A slot that is gone belongs to a lane that is ending.
            let Some(Place { segment, offset }) = self.held.arena.place(delivery.slot) else { continue };
            let Delivery { id: DeliveryId(id), slot, length, header, sequence, .. } = delivery;
            self.held.deliveries().insert(*id, Slot { id: *slot, taken: false });
            entries.push(Entry {
                delivery: *id,
                sequence: sequence.0,
                offset,
                length: *length,
                segment,
                sender,
                header,
            });
        }
        self.say(&Reply::Deliver { lane: self.lane, entries: &entries }).await
    }

    /// The number that stands for a sender's name, told to the client at its first use.
    async fn number(&mut self, name: &str) -> Result<u32, Stop> {
        if let Some(number) = self.senders.get(name) {
            return Ok(*number);
        }
        let number = self.senders.len() as u32;
        self.senders.insert(name.to_owned(), number);
        self.say(&Reply::Sender { lane: self.lane, number, name }).await?;
        Ok(number)
    }

    /// Tells the client about segments that came and went.
    async fn announce(&self) -> Result<(), Stop> {
        let lane = self.lane;
        let announcements = self.held.arena.announcements();
        for segment in announcements.added {
            let mut packet = Vec::new();
            Reply::Segment { lane, segment: segment.id, bytes: segment.bytes, take: true }
                .encode(&mut packet);
            self.socket.send_with(&packet, segment.descriptor()).await.map_err(|_| Stop::Silent)?;
        }
        for segment in announcements.dropped {
            self.say(&Reply::Dropped { lane, segment }).await?;
        }
        Ok(())
    }

    async fn say(&self, reply: &Reply<'_>) -> Result<(), Stop> {
        let mut packet = Vec::with_capacity(128);
        reply.encode(&mut packet);
        self.socket.send(&packet).await.map_err(|_| Stop::Silent)
    }
}

fn encoded_bytes(delivery: &Delivery) -> usize {
    DELIVER_ENTRY_BYTES + 8 * delivery.header.shape.len() + delivery.header.name.len()
}
