//! One put call: tensors come in, news about them goes out.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt};
use sealane_types::SessionName;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::fault::Fault;
use super::ledger::{Flushed, Ledger, extend};
use super::limits;
use super::memory::{Store, Stored};
use super::notes::Noted;
use super::shared::Shared;
use crate::door::budget::Side;
use crate::door::convert::bytes_of;
use crate::door::limits::{LAST_NEWS_WAIT, WINDOW_TENSORS};
use crate::handoff::{
    LaneError, LaneIncarnation, Parcel, ReplicaId, SenderEvent, SenderEvents, SenderLane, Sequence,
    TensorHeader,
};

/// What a client says.
#[derive(Debug)]
pub(super) enum Ask {
    Open(Open),
    Tensor { sequence: Option<Sequence>, header: TensorHeader, assigned: Vec<ReplicaId>, data: Bytes },
    Chunk { offset: u64, data: Bytes },
    Flush(u64),
    Close,
}

/// Which lane.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) session: SessionName,
    pub(super) timeout: Duration,
    pub(super) incarnation: Option<LaneIncarnation>,
    pub(super) base: Sequence,
    pub(super) resumable: bool,
}

/// What a client is told.
#[derive(Debug)]
pub(super) enum News {
    Opened { incarnation: LaneIncarnation, next: Sequence, window: u32, tensor_bytes_max: u64 },
    Accepted(Vec<(u64, u64)>),
    Assigned { batch: u64, assignments: Vec<(Sequence, Vec<ReplicaId>)> },
    Taken(Vec<(u64, u64)>),
    Uncertain(Vec<(u64, u64)>),
    Flushed(Flushed),
    Closed { uncertain: u64 },
}

/// The way to the client.
pub(super) type Outbox = mpsc::Sender<Result<News, Fault>>;

/// Serves a call until its lane or its client ends it.
pub(super) async fn serve<A>(shared: Arc<Shared>, asks: A, news: Outbox)
where
    A: Stream<Item = Result<Ask, Fault>> + Send + Unpin,
{
    let left = news.clone();
    tokio::select! {
        ended = run(&shared, asks, news.clone()) => if let Err(fault) = ended {
            tracing::debug!(%fault, "a put call failed");
            shared.count(&fault);
            // Nobody is left to be told when this fails.
            let _ = news.send(Err(fault)).await;
        },
        () = left.closed() => tracing::debug!("a client left its put call"),
    }
}

async fn run<A>(shared: &Shared, mut asks: A, news: Outbox) -> Result<(), Fault>
where
    A: Stream<Item = Result<Ask, Fault>> + Send + Unpin,
{
    let first = timeout(limits::FIRST_MESSAGE_WAIT, asks.next()).await.map_err(|_| Fault::OpenTimeout)?;
    let Ask::Open(open) = first.ok_or(Fault::NotOpened)?? else { return Err(Fault::NotOpened) };
    let incarnation = open.incarnation.map_or_else(random, Ok)?;
    let noted = open.resumable.then(|| shared.notes.enter(incarnation));
    let deadline = Instant::now() + open.timeout;
    let store = Store::new(Side::Put, &shared.budget, limits::PUT_LANE_BYTES).await;
    let (sender, events) = shared.lanes.open_sender(open.session, incarnation, open.base, deadline).await?;
    let lane = Lane { ledger: Mutex::default(), news, store };
    let tensor_bytes_max = lane.store.bytes_max();
    let (next, window) = (open.base, WINDOW_TENSORS);
    lane.say(News::Opened { incarnation, next, window, tensor_bytes_max }).await;
    lane.work(sender, events, asks, open.base, noted).await
}

fn random() -> Result<LaneIncarnation, Fault> {
    let mut bytes = [0; 16];
    let failed = |_| Fault::Broken("no random bytes".to_owned());
    aws_lc_rs::rand::fill(&mut bytes).map_err(failed)?;
    Ok(LaneIncarnation(bytes))
}

struct Lane {
    ledger: Mutex<Ledger>,
    news: Outbox,
    store: Store,
}

/// A tensor that is not complete yet.
struct Partial {
    sequence: Sequence,
    header: TensorHeader,
    assigned: Vec<ReplicaId>,
    stored: Stored,
    length: u64,
    filled: u64,
}

impl Lane {
    /// Both directions until one ends the lane.
    async fn work<A>(
        &self,
        sender: SenderLane,
        events: SenderEvents,
        asks: A,
        base: Sequence,
        noted: Option<Noted>,
    ) -> Result<(), Fault>
    where
        A: Stream<Item = Result<Ask, Fault>> + Send + Unpin,
    {
        let mut passing = pin!(self.pass_on(events, noted));
        let mut coming = pin!(self.take_in(asks, sender, base));
        let ended = tokio::select! {
            failed = &mut passing => match failed {
                Some(error) => return Err(error.into()),
                // The session is done with the lane; its answer to a close may lie beside.
                None => match timeout(LAST_NEWS_WAIT, coming).await {
                    Ok(ended) => ended,
                    Err(_) => Err(LaneError::gone().into()),
                },
            },
            ended = &mut coming => match ended {
                // What the session said before the end still reaches the client.
                Ok(()) => {
                    let _ = passing.await;
                    Ok(())
                }
                // A failure that the session named is more precise than the closed channel that a tensor met.
                Err(fault @ Fault::Lane(_)) => match timeout(LAST_NEWS_WAIT, passing).await {
                    Ok(Some(error)) => Err(error.into()),
                    _ => Err(fault),
                },
                Err(fault) => Err(fault),
            },
        };
        ended?;
        let uncertain = self.ledger().count_uncertain();
        self.say(News::Closed { uncertain }).await;
        Ok(())
    }

    /// Takes tensors in until the client closes (Ok), breaks a rule, or the lane ends.
    async fn take_in<A>(&self, mut asks: A, sender: SenderLane, base: Sequence) -> Result<(), Fault>
    where
        A: Stream<Item = Result<Ask, Fault>> + Send + Unpin,
    {
        let mut next = Some(base.0);
        let mut partial: Option<Partial> = None;
        loop {
            let ask = self.next(&mut asks).await?;
            let tensor = match (ask, partial.take()) {
                (Ask::Open(_), _) => return Err(Fault::OpenedTwice),
                (Ask::Chunk { .. }, None) => return Err(Fault::Stray),
                (Ask::Chunk { offset, data }, Some(mut tensor)) => {
                    tensor.go_on(offset, &data).await?;
                    tensor
                }
                (_, Some(tensor)) => return Err(Fault::Unfinished { missing: tensor.missing() }),
                (Ask::Tensor { sequence, header, assigned, data }, None) => {
                    let sequence = number(sequence, &mut next)?;
                    let mut tensor = self.begin(sequence, header, assigned).await?;
                    tensor.write(&data).await?;
                    tensor
                }
                (Ask::Flush(id), None) => {
                    self.ledger().flush(next.unwrap_or(u64::MAX), id)?;
                    self.say_flushed().await;
                    continue;
                }
                (Ask::Close, None) => {
                    self.say_accepted().await;
                    // The client hears of every uncertain tensor by itself. Asking once more before the close, whatever
                    // the answer, leaves to the close only what goes wrong with the end of the stream.
                    let _ = sender.flush().await;
                    return Ok(sender.close().await?);
                }
            };
            if tensor.missing() == 0 {
                self.put(tensor, &sender).await?;
            } else {
                partial = Some(tensor);
            }
        }
    }

    /// The client's next message; what was accepted is told before waiting for it.
    async fn next<A>(&self, asks: &mut A) -> Result<Ask, Fault>
    where
        A: Stream<Item = Result<Ask, Fault>> + Send + Unpin,
    {
        let ask = match asks.next().now_or_never() {
            Some(ask) => ask,
            None => {
                self.say_accepted().await;
                asks.next().await
            }
        };
        ask.unwrap_or(Err(Fault::Unclosed))
    }

    /// Finds a place for a tensor, waiting while receivers do not take.
    async fn begin(
        &self,
        sequence: Sequence,
        header: TensorHeader,
        assigned: Vec<ReplicaId>,
    ) -> Result<Partial, Fault> {
        let length = bytes_of(header.dtype, &header.shape).ok_or(Fault::Uncountable)?;
        let stored = match self.store.try_place(length)? {
            Some(stored) => stored,
            None => {
                self.say_accepted().await;
                self.store.place(length).await?
            }
        };
        Ok(Partial { sequence, header, assigned, stored, length, filled: 0 })
    }

    /// Numbers are given and bytes are here: the tensor is accepted.
    async fn put(&self, tensor: Partial, sender: &SenderLane) -> Result<(), Fault> {
        let Partial { sequence, header, assigned, stored, length, .. } = tensor;
        let source = Arc::new(stored);
        self.ledger().accept(sequence.0, Arc::clone(&source));
        let offered = sender.offer(Parcel { sequence, header, source, offset: 0, length, assigned });
        let mut offered = pin!(offered);
        if let Some(done) = (&mut offered).now_or_never() {
            return Ok(done?);
        }
        self.say_accepted().await;
        Ok(offered.await?)
    }

    /// Passes news on until the lane ends: with the error that the session named, or without one.
    async fn pass_on(&self, mut events: SenderEvents, noted: Option<Noted>) -> Option<LaneError> {
        let mut waiting = Vec::new();
        while events.next_many(&mut waiting, limits::NEWS_PER_MESSAGE_MAX).await {
            let (mut assignments, mut taken, mut uncertain) = (Vec::new(), Vec::new(), Vec::new());
            let mut failed = None;
            for event in waiting.drain(..) {
                match event {
                    SenderEvent::Assigned { span, replicas } => assignments.push((span.first, replicas)),
                    SenderEvent::Taken { first, last } => extend(&mut taken, first.0, last.0),
                    SenderEvent::Uncertain { first, last } => extend(&mut uncertain, first.0, last.0),
                    SenderEvent::Failed(error) => failed = Some(error),
                }
            }
            self.say_accepted().await;
            // Only a client that notes it needs to know; asking for more events says that it does.
            let assigned = noted.as_ref().filter(|_| !assignments.is_empty());
            let assigned = assigned.map(|noted| (noted, noted.next_batch()));
            if let Some((_, batch)) = assigned {
                self.say(News::Assigned { batch, assignments }).await;
            }
            self.settle(taken, uncertain).await;
            if let Some((noted, batch)) = assigned {
                noted.reaches(batch).await;
            }
            if failed.is_some() {
                return failed;
            }
        }
        None
    }

    /// Tells what became of tensors, frees their memory, and answers flushes that waited for them.
    async fn settle(&self, taken: Vec<(u64, u64)>, uncertain: Vec<(u64, u64)>) {
        if !taken.is_empty() {
            self.say(News::Taken(taken.clone())).await;
            self.ledger().taken(&taken);
        }
        if !uncertain.is_empty() {
            self.say(News::Uncertain(uncertain.clone())).await;
            self.ledger().uncertain(&uncertain);
        }
        self.say_flushed().await;
    }

    async fn say_accepted(&self) {
        let accepted = self.ledger().accepted();
        if !accepted.is_empty() {
            self.say(News::Accepted(accepted)).await;
        }
    }

    async fn say_flushed(&self) {
        let done: Vec<Flushed> = std::iter::from_fn(|| self.ledger().flushed()).collect();
        for flushed in done {
            self.say_accepted().await;
            self.say(News::Flushed(flushed)).await;
        }
    }

    async fn say(&self, news: News) {
        // A client that left is noticed by `serve`, which ends this lane.
        let _ = self.news.send(Ok(news)).await;
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Partial {
    const fn missing(&self) -> u64 {
        self.length - self.filled
    }

    async fn go_on(&mut self, offset: u64, data: &[u8]) -> Result<(), Fault> {
        if offset != self.filled {
            return Err(Fault::Gap { expected: self.filled, actual: offset });
        }
        if data.is_empty() {
            return Err(Fault::EmptyChunk);
        }
        self.write(data).await
    }

    async fn write(&mut self, data: &[u8]) -> Result<(), Fault> {
        let bytes = data.len() as u64;
        if bytes > self.missing() {
            return Err(Fault::Beyond { length: self.length });
        }
        self.stored.write(self.filled, data).await?;
        self.filled += bytes;
        Ok(())
    }
}

/// The tensor's number: its own, which must grow, or the next one.
fn number(own: Option<Sequence>, next: &mut Option<u64>) -> Result<Sequence, Fault> {
    let lowest = next.ok_or(Fault::Sequence(u64::MAX))?;
    let sequence = own.map_or(lowest, |own| own.0);
    if sequence < lowest {
        return Err(Fault::Sequence(sequence));
    }
    *next = sequence.checked_add(1);
    Ok(Sequence(sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow() {
        let mut next = Some(5);
        assert_eq!(number(None, &mut next).unwrap(), Sequence(5));
        assert_eq!(number(Some(Sequence(9)), &mut next).unwrap(), Sequence(9));
        assert!(matches!(number(Some(Sequence(9)), &mut next), Err(Fault::Sequence(9))));
        assert_eq!(number(Some(Sequence(u64::MAX)), &mut next).unwrap(), Sequence(u64::MAX));
        assert!(matches!(number(None, &mut next), Err(Fault::Sequence(u64::MAX))));
    }
}
