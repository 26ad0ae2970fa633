//! One take call: tensors go out, word of what was taken comes in.

use std::collections::HashMap;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use sealane_types::SessionName;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::fault::Fault;
use super::limits;
use super::memory::{Buffers, Store, Stored};
use super::shared::Shared;
use crate::door::budget::Side;
use crate::handoff::{Deliveries, Delivery, DeliveryId, ReceiverLane, Sequence, TensorHeader, Turn};

/// What a client says.
#[derive(Debug)]
pub(super) enum Ask {
    Open(Open),
    Taken(Vec<DeliveryId>),
}

/// Which lane.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) session: SessionName,
    pub(super) timeout: Duration,
    /// A tensor counts as taken when it was handed to the connection.
    pub(super) automatic: bool,
}

/// What a client is told.
#[derive(Debug)]
pub(super) enum News {
    Opened {
        tensor_bytes_max: u64,
    },
    /// The slot named in the delivery is none of the client's business.
    Tensor {
        delivery: Delivery,
        data: Bytes,
    },
    Chunk {
        offset: u64,
        data: Bytes,
    },
    Interrupted {
        sender: String,
    },
    Ended,
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
        biased;
        () = left.closed() => tracing::debug!("a client left its take call"),
        ended = run(&shared, asks, news.clone()) => if let Err(fault) = ended {
            tracing::debug!(%fault, "a take call failed");
            shared.count(&fault);
            // Nobody is left to be told when this fails.
            let _ = news.send(Err(fault)).await;
        },
    }
}

async fn run<A>(shared: &Shared, mut asks: A, news: Outbox) -> Result<(), Fault>
where
    A: Stream<Item = Result<Ask, Fault>> + Send + Unpin,
{
    let first = timeout(limits::FIRST_MESSAGE_WAIT, asks.next()).await.map_err(|_| Fault::OpenTimeout)?;
    let Ask::Open(open) = first.ok_or(Fault::NotOpened)?? else { return Err(Fault::NotOpened) };
    let deadline = Instant::now() + open.timeout;
    let store = Store::new(Side::Take, &shared.budget, limits::TAKE_LANE_BYTES).await;
    let opening = shared.lanes.open_receiver(open.session, store.arena(), deadline);
    let (receiver, deliveries) = opening.await?;
    let tensor_bytes_max = store.bytes_max();
    let lane = Lane {
        news,
        store,
        receiver,
        automatic: open.automatic,
        buffers: Buffers::default(),
        held: Mutex::default(),
        ended: AtomicBool::new(false),
    };
    lane.say(News::Opened { tensor_bytes_max }).await?;
    lane.work(deliveries, asks).await
}

/// A place that is used until the client has taken all that lies there.
#[derive(Debug)]
struct Held {
    stored: Stored,
    /// What the session delivered.
    first: DeliveryId,
    /// Tensors that the client has not said to have taken.
    left: AtomicU64,
}

struct Lane {
    news: Outbox,
    store: Store,
    receiver: ReceiverLane,
    automatic: bool,
    buffers: Buffers,
    /// Tensors that the client has and has not said to have taken: their places are used until it does.
    held: Mutex<HashMap<DeliveryId, Arc<Held>>>,
    /// Nothing more is delivered.
    ended: AtomicBool,
}

impl Lane {
    /// Both directions, until everything was delivered and taken.
    async fn work<A>(&self, deliveries: Deliveries, asks: A) -> Result<(), Fault>
    where
        A: Stream<Item = Result<Ask, Fault>> + Send + Unpin,
    {
        let mut delivering = pin!(self.deliver_all(deliveries));
        let mut hearing = pin!(self.hear(asks));
        let mut silent = false;
        loop {
            tokio::select! {
                delivered = &mut delivering => {
                    delivered?;
                    break;
                }
                heard = &mut hearing, if !silent => {
                    heard?;
                    // A client may have said all that it has to say before the last tensor came.
                    silent = true;
                }
            }
        }
        self.ended.store(true, Ordering::Relaxed);
        if !silent && !self.held().is_empty() {
            hearing.await?;
        }
        let untaken = self.held().len();
        if untaken == 0 { Ok(()) } else { Err(Fault::Untaken(untaken)) }
    }

    async fn deliver_all(&self, mut deliveries: Deliveries) -> Result<(), Fault> {
        while let Some(turn) = deliveries.next().await {
            match turn {
                Turn::Tensor(delivery) => self.deliver(delivery).await?,
                Turn::Interrupted { sender } => self.say(News::Interrupted { sender }).await?,
                Turn::End => return self.say(News::Ended).await,
                Turn::Failed(error) => return Err(error.into()),
            }
        }
        Err(crate::handoff::LaneError::gone().into())
    }

    /// Sends a tensor, or those of a run one after the other.
    async fn deliver(&self, delivery: Delivery) -> Result<(), Fault> {
        let (first, tensors) = (delivery.id, delivery.header.tensors());
        let held =
            Arc::new(Held { stored: self.store.stored(delivery.slot), first, left: AtomicU64::new(tensors) });
        let length = delivery.length / tensors;
        let shape = delivery.header.shape_of_one().to_vec();
        for index in 0..tensors {
            let header = TensorHeader { shape: shape.clone(), run: false, ..delivery.header.clone() };
            let (id, sequence) = (DeliveryId(first.0 + index), Sequence(delivery.sequence.0 + index));
            let one = Delivery { id, sequence, length, header, ..delivery.clone() };
            self.deliver_one(one, index * length, &held).await?;
        }
        Ok(())
    }

    /// Sends one tensor, which begins at `start` of what is held, in as many messages as it takes.
    async fn deliver_one(&self, delivery: Delivery, start: u64, held: &Arc<Held>) -> Result<(), Fault> {
        let broken = |error: io::Error| Fault::Broken(error.to_string());
        let (id, length) = (delivery.id, delivery.length);
        let mut offset = 0;
        let mut head = Some(delivery);
        loop {
            let bytes = usize::try_from(length - offset).unwrap_or(usize::MAX).min(limits::CHUNK_BYTES);
            let data = self.buffers.read(&held.stored, start + offset, bytes).map_err(broken)?;
            let news = match head.take() {
                Some(delivery) => News::Tensor { delivery, data },
                None => News::Chunk { offset, data },
            };
            offset += bytes as u64;
            if offset == length {
                // Before the last message, because its answer may come before the next line runs.
                self.hold(id, Arc::clone(held));
                self.say(news).await?;
                break;
            }
            self.say(news).await?;
        }
        if self.automatic {
            self.take(&[id])?;
        }
        Ok(())
    }

    /// Hears what was taken until the client has no more to say, or everything was delivered and taken.
    async fn hear<A>(&self, mut asks: A) -> Result<(), Fault>
    where
        A: Stream<Item = Result<Ask, Fault>> + Send + Unpin,
    {
        while let Some(ask) = asks.next().await {
            match ask? {
                Ask::Open(_) => return Err(Fault::OpenedTwice),
                Ask::Taken(deliveries) => self.take(&deliveries)?,
            }
            if self.ended.load(Ordering::Relaxed) && self.held().is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn hold(&self, id: DeliveryId, held: Arc<Held>) {
        self.held().insert(id, held);
    }

    /// The client has these: their senders may forget them, and their places are free.
    fn take(&self, deliveries: &[DeliveryId]) -> Result<(), Fault> {
        for id in deliveries {
            let held = self.held().remove(id).ok_or(Fault::UnknownDelivery(id.0))?;
            if held.left.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.receiver.taken(&[held.first]);
            }
        }
        Ok(())
    }

    /// Fails when the client left: what it was not handed is not taken, and nothing more is delivered.
    async fn say(&self, news: News) -> Result<(), Fault> {
        let said = self.news.send(Ok(news)).await;
        // A message for which a place was kept is put there although nobody reads any more.
        if said.is_err() || self.news.is_closed() { Err(Fault::Gone) } else { Ok(()) }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<DeliveryId, Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use sealane_types::Dtype;

    use super::super::listing::Listing;
    use super::*;
    use crate::door::budget::Budget;
    use crate::handoff::receiver::Outlet;
    use crate::handoff::{self, LaneRequest, SessionView, Sessions, TakeArena};
    use crate::metrics::labels::KindLabel;

    const DELIVERIES: u64 = 8;

    #[derive(Debug)]
    struct NoSessions;

    impl Sessions for NoSessions {
        fn list(&self) -> Vec<SessionView> {
            Vec::new()
        }
    }

    fn shared() -> (Shared, mpsc::Receiver<LaneRequest>) {
        let metrics = crate::metrics::Door::default();
        let budget = Budget::new(64 << 20, metrics.clone());
        let (lanes, requests) = handoff::lanes();
        let listing = Listing::new(Arc::new(NoSessions));
        let (notes, draining) = Default::default();
        (Shared { lanes, budget, process: [0; 16], listing, notes, metrics, draining }, requests)
    }

    fn delivery(id: u64, arena: &dyn TakeArena) -> Delivery {
        Delivery {
            id: DeliveryId(id),
            slot: arena.reserve(16).unwrap(),
            length: 16,
            header: TensorHeader { dtype: Dtype::Uint8, shape: vec![16], run: false, name: String::new() },
            sender: "peer/pod".to_owned(),
            sequence: Sequence(id),
        }
    }

    /// A call that is open and takes by itself, and whose client left when `heard` of the deliveries had come.
    /// Tells the session's half what became of it.
    async fn left_after(heard: usize) -> Outlet {
        let (shared, mut requests) = shared();
        let open = Open { session: "a".parse().unwrap(), timeout: Duration::from_secs(60), automatic: true };
        let asks = futures::stream::iter([Ok(Ask::Open(open))]).chain(futures::stream::pending());
        let (news, mut told): (Outbox, _) = mpsc::channel(1);
        let session = async {
            let Some(LaneRequest::Receiver(request)) = requests.recv().await else { panic!("no receiver") };
            let (lane, deliveries, outlet) = handoff::receiver::lane();
            for id in 0..DELIVERIES {
                outlet.give(Turn::Tensor(delivery(id, &*request.arena))).unwrap();
            }
            outlet.give(Turn::End).unwrap();
            request.answer.send(Ok((lane, deliveries))).unwrap();
            // `opened`, and then tensors.
            for _ in 0..=heard {
                told.recv().await.unwrap().unwrap();
            }
            drop(told);
            outlet
        };
        let (ended, outlet) = tokio::join!(run(&shared, asks, news), session);
        assert!(matches!(ended, Err(Fault::Gone)), "{ended:?}");
        outlet
    }

    #[tokio::test]
    async fn what_waits_for_a_client_that_left_is_not_taken() {
        for heard in [0, 1, 3] {
            let mut outlet = left_after(heard).await;
            let taken: Vec<_> = std::iter::from_fn(|| outlet.taken_now()).collect();
            assert!(taken.len() <= heard, "{taken:?} after {heard}");
            assert!(outlet.taken().now_or_never().unwrap().is_none(), "the lane is over");
        }
    }

    #[tokio::test]
    async fn a_run_goes_out_one_by_one_and_is_taken_when_all_of_it_is() {
        let (shared, mut requests) = shared();
        let open = Open { session: "a".parse().unwrap(), timeout: Duration::from_secs(60), automatic: false };
        let (ask, asked) = mpsc::channel(1);
        let asks = tokio_stream::wrappers::ReceiverStream::new(asked);
        ask.send(Ok(Ask::Open(open))).await.unwrap();
        let (news, mut told): (Outbox, _) = mpsc::channel(1);
        let session = async {
            let Some(LaneRequest::Receiver(request)) = requests.recv().await else { panic!("no receiver") };
            let (lane, deliveries, mut outlet) = handoff::receiver::lane();
            let one = delivery(5, &*request.arena);
            request.arena.write_at(one.slot, 0, b"first of two....").unwrap();
            let header = TensorHeader { shape: vec![2, 8], run: true, ..one.header.clone() };
            outlet.give(Turn::Tensor(Delivery { header, ..one })).unwrap();
            outlet.give(Turn::End).unwrap();
            request.answer.send(Ok((lane, deliveries))).unwrap();
            assert!(matches!(told.recv().await, Some(Ok(News::Opened { .. }))));
            for (number, expected) in [(5, &b"first of"[..]), (6, b" two....")] {
                let Some(Ok(News::Tensor { delivery, data })) = told.recv().await else {
                    panic!("no tensor")
                };
                assert_eq!((delivery.id, delivery.sequence), (DeliveryId(number), Sequence(number)));
                assert_eq!(
                    (delivery.length, delivery.header.shape, delivery.header.run),
                    (8, vec![8], false)
                );
                assert_eq!(data, expected);
            }
            assert!(matches!(told.recv().await, Some(Ok(News::Ended))));
            ask.send(Ok(Ask::Taken(vec![DeliveryId(6)]))).await.unwrap();
            // There is room for one ask: this one waits until the one before was heard.
            ask.send(Ok(Ask::Taken(Vec::new()))).await.unwrap();
            assert!(outlet.taken_now().is_none(), "one of two");
            ask.send(Ok(Ask::Taken(vec![DeliveryId(5)]))).await.unwrap();
            assert_eq!(outlet.taken().await, Some(DeliveryId(5)));
            assert!(outlet.taken_now().is_none());
        };
        let (ended, ()) = tokio::join!(run(&shared, asks, news), session);
        assert!(ended.is_ok(), "{ended:?}");
    }

    #[tokio::test]
    async fn a_broken_rule_is_counted_by_its_name() {
        let (shared, _requests) = shared();
        let shared = Arc::new(shared);
        let (news, mut told) = mpsc::channel(1);
        let asks = futures::stream::iter([Ok(Ask::Taken(Vec::new()))]);
        serve(Arc::clone(&shared), asks, news).await;
        assert!(matches!(told.recv().await, Some(Err(Fault::NotOpened))));
        let kind = KindLabel { kind: "NotOpened" };
        assert_eq!(shared.metrics.faults.get_or_create(&kind).get(), 1);
    }
}
