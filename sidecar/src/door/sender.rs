//! One lane that sends, for one client.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sealane_types::SessionName;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};

use super::codec::{Failure, HEADER_BYTES, Reply, assigned_bytes};
use super::fault::Fault;
use super::limits;
use super::socket::Socket;
use crate::handoff::{
    LaneError, LaneIncarnation, Lanes, Parcel, ReplicaId, SenderEvent, SenderEvents, SenderLane, Sequence,
    Span,
};
use crate::metrics::Door as Metrics;

/// What the client asks of its lane, in order.
#[derive(Debug)]
enum Command {
    Parcels(Vec<Parcel>),
    Close,
}

/// The client's side of the lane.
#[derive(Debug)]
pub(super) struct Sending {
    lane: u32,
    /// None once the client asked to close.
    commands: Option<mpsc::UnboundedSender<Command>>,
    under_way: Arc<AtomicU32>,
    /// The lowest sequence that may come next.
    next: Option<u64>,
    task: AbortHandle,
}

/// What to open.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) lane: u32,
    pub(super) session: SessionName,
    pub(super) incarnation: LaneIncarnation,
    pub(super) base: Sequence,
    pub(super) deadline: Instant,
}

impl Sending {
    /// Starts the lane among the client's `tasks`.
    pub(super) fn start(
        opening: Opening,
        lanes: Lanes,
        socket: Arc<Socket>,
        metrics: Metrics,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (commands, waiting) = mpsc::unbounded_channel();
        let under_way = Arc::new(AtomicU32::new(0));
        let (lane, next) = (opening.lane, Some(opening.base.0));
        let task = Task { lane, socket, under_way: under_way.clone(), metrics };
        let task = tasks.spawn(task.run(opening, lanes, waiting));
        Self { lane, commands: Some(commands), under_way, next, task }
    }

    /// Whether nothing is left to do.
    pub(super) fn finished(&self) -> bool {
        self.task.is_finished()
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0
    }

    /// Ends the lane as a crash of the client would.
    pub(super) fn abandon(&self) {
        self.task.abort();
    }

    /// Takes in tensors whose header and place were checked. A lane that ended meanwhile drops them: the client learns
    /// that from `FAILED`.
    pub(super) fn put(&mut self, parcels: Vec<Parcel>) -> Result<(), Fault> {
        for parcel in &parcels {
            let Sequence(sequence) = parcel.sequence;
            if self.next.is_none_or(|next| sequence < next) {
                return Err(Fault::Sequence(sequence));
            }
            self.next = sequence.checked_add(parcel.header.tensors());
        }
        let count: u64 = parcels.iter().map(|parcel| parcel.header.tensors()).sum();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let before = self.under_way.fetch_add(count, Ordering::Relaxed);
        if before.saturating_add(count) > limits::WINDOW_TENSORS {
            return Err(Fault::Window(limits::WINDOW_TENSORS));
        }
        self.tell(Command::Parcels(parcels))
    }

    /// Asks for the end of the stream.
    pub(super) fn close(&mut self) -> Result<(), Fault> {
        self.tell(Command::Close)?;
        self.commands = None;
        Ok(())
    }

    fn tell(&self, command: Command) -> Result<(), Fault> {
        let commands = self.commands.as_ref().ok_or(Fault::WrongLane(self.lane))?;
        // The window bounds tensors; a put of none would be kept without bound.
        if matches!(&command, Command::Parcels(parcels) if parcels.is_empty()) {
            return Ok(());
        }
        // A closed channel is a lane that ended: `FAILED` is on its way to the client.
        let _ = commands.send(command);
        Ok(())
    }
}

struct Task {
    lane: u32,
    socket: Arc<Socket>,
    under_way: Arc<AtomicU32>,
    metrics: Metrics,
}

impl Task {
    async fn run(self, opening: Opening, lanes: Lanes, commands: mpsc::UnboundedReceiver<Command>) {
        let Opening { lane, session, incarnation, base, deadline } = opening;
        let ended = match lanes.open_sender(session, incarnation, base, deadline).await {
            Ok((sender, events)) => {
                self.say(&Reply::Opened { lane, window: limits::WINDOW_TENSORS }).await;
                self.work(sender, events, commands).await
            }
            Err(error) => Err(error),
        };
        match ended {
            Ok(()) => self.say(&Reply::Closed { lane }).await,
            Err(LaneError { failure, reason, message }) => {
                let failed =
                    Reply::Failed { lane, failure: Failure::from(failure), reason, message: &message };
                self.say(&failed).await;
            }
        }
    }

    /// Both directions of the lane until one ends it.
    async fn work(
        &self,
        sender: SenderLane,
        events: SenderEvents,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Result<(), LaneError> {
        let mut news = pin!(self.pass_on(events));
        let mut offering = pin!(offer(sender, commands, &self.metrics));
        tokio::select! {
            failed = &mut news => match failed {
                Some(error) => Err(error),
                // The session is done with the lane; its answer to a close may lie beside.
                None => timeout(limits::LAST_NEWS_WAIT, offering).await.unwrap_or_else(|_| Err(LaneError::gone())),
            },
            offered = &mut offering => {
                // What the session said before the end still reaches the client. A failure that it named is more
                // precise than the closed channel that the offering met.
                let patience = if offered.is_ok() { Duration::ZERO } else { limits::LAST_NEWS_WAIT };
                match timeout(patience, news).await {
                    Ok(Some(failed)) if offered.is_err() => Err(failed),
                    _ => offered,
                }
            }
        }
    }

    /// Passes news on until the lane ends: with the error that the session named, or without one.
    async fn pass_on(&self, mut events: SenderEvents) -> Option<LaneError> {
        let mut batch = Vec::new();
        while events.next_many(&mut batch, limits::NEWS_PER_MESSAGE_MAX).await {
            // Kinds go out in the order in which they matter: where a tensor goes, before what became of it.
            let mut news = News::default();
            let mut failed = None;
            for event in batch.drain(..) {
                match event {
                    SenderEvent::Assigned { span, replicas } => news.assigned.push((span, replicas)),
                    SenderEvent::Taken { first, last } => self.settle(first, last, &mut news.taken),
                    SenderEvent::Uncertain { first, last } => self.settle(first, last, &mut news.uncertain),
                    SenderEvent::Failed(error) => failed = Some(error),
                }
            }
            self.say_all(&news).await;
            if failed.is_some() {
                return failed;
            }
        }
        None
    }

    async fn say_all(&self, news: &News) {
        let lane = self.lane;
        for entries in assigned_messages(&news.assigned) {
            self.say(&Reply::Assigned { lane, entries }).await;
        }
        if !news.taken.is_empty() {
            self.say(&Reply::Taken { lane, ranges: &news.taken }).await;
        }
        if !news.uncertain.is_empty() {
            self.say(&Reply::Uncertain { lane, ranges: &news.uncertain }).await;
        }
    }

    /// Opens the window for as many tensors, before the client can know of it, and notes the range.
    fn settle(&self, first: Sequence, last: Sequence, ranges: &mut Vec<(u64, u64)>) {
        let count = u32::try_from(last.0.saturating_sub(first.0)).unwrap_or(u32::MAX).saturating_add(1);
        let less = |under_way: u32| Some(under_way.saturating_sub(count));
        // The closure always gives a value.
        let _ = self.under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        match ranges.last_mut() {
            Some((_, end)) if end.checked_add(1) == Some(first.0) => *end = last.0,
            _ => ranges.push((first.0, last.0)),
        }
    }

    async fn say(&self, reply: &Reply<'_>) {
        let mut packet = Vec::with_capacity(64);
        reply.encode(&mut packet);
        // A client that left is noticed where its packets are read, which ends this task.
        let _ = self.socket.send(&packet).await;
    }
}

/// What became of tensors, gathered for one message of each kind.
#[derive(Debug, Default)]
struct News {
    assigned: Vec<(Span, Vec<ReplicaId>)>,
    taken: Vec<(u64, u64)>,
    uncertain: Vec<(u64, u64)>,
}

/// Splits assignments into messages of legal size.
fn assigned_messages(mut rest: &[(Span, Vec<ReplicaId>)]) -> impl Iterator<Item = &[(Span, Vec<ReplicaId>)]> {
    std::iter::from_fn(move || {
        let mut room = limits::MESSAGE_BYTES_MAX - HEADER_BYTES;
        let fits = |(_, replicas): &&(Span, Vec<ReplicaId>)| {
            let bytes = assigned_bytes(replicas.len());
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let count = rest.iter().take_while(fits).count();
        let (message, left) = rest.split_at(count);
        rest = left;
        (count > 0).then_some(message)
    })
}

/// Offers in order until the client closes (Ok) or the lane ends.
async fn offer(
    sender: SenderLane,
    mut commands: mpsc::UnboundedReceiver<Command>,
    metrics: &Metrics,
) -> Result<(), LaneError> {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Parcels(parcels) => {
                for parcel in parcels {
                    let waits = sender.is_full().then(Instant::now);
                    sender.offer(parcel).await?;
                    if let Some(since) = waits {
                        metrics.waits.inc();
                        metrics.wait_seconds.inc_by(since.elapsed().as_secs_f64());
                    }
                }
            }
            Command::Close => {
                // The client heard of every uncertain tensor by itself. Asking once more before the close, whatever the
                // answer, leaves to the close only what goes wrong with the end of the stream.
                let _ = sender.flush().await;
                return sender.close().await;
            }
        }
    }
    Err(LaneError::gone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn puts_of_nothing_are_not_kept() {
        let (commands, mut waiting) = mpsc::unbounded_channel();
        let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
        let mut sending =
            Sending { lane: 1, commands: Some(commands), under_way: Arc::default(), next: Some(0), task };
        (0..1000).for_each(|_| assert!(sending.put(Vec::new()).is_ok()));
        assert!(waiting.try_recv().is_err(), "no window bounds what counts no tensor");
        assert!(sending.close().is_ok());
        assert!(matches!(sending.put(Vec::new()), Err(Fault::WrongLane(1))));
        sending.abandon();
    }
}
