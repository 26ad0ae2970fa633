//! Senders that come back or do too much, and clients that fail. Frames stand in for connections.

mod bulk;
mod ends;
mod stripes;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;

use sealane_arena::VolatileSlice;
use sealane_protocol::connection::Sink;
use sealane_protocol::frame::{Chunk, End, Frame, Incarnation, Sequence, StreamId, TensorHeader};
use sealane_protocol::limits::{STAGING_BYTES, STREAMS_MAX, WINDOW_TENSORS};
use sealane_protocol::transfer::Reply;
use sealane_types::{CongestionChoice, Delivery, PodIdentity};

use super::stream::{Answer, Standing};
use super::traffic::Attached;
use super::*;
use crate::context::tests::context;
use crate::desired::{Direction, Kind, Listing, Preferred, Rekey, Remote};
use crate::handoff::{Deliveries, NoSlot, ReceiverLane, SlotId, TakeArena};
use crate::session::inbound::Accepting;
use crate::session::stop::Stop;

#[derive(Debug)]
struct Arena {
    bytes_max: u64,
    broken: AtomicBool,
    slots: Mutex<BTreeMap<SlotId, Vec<u8>>>,
    next: AtomicU64,
    freed: Arc<Notify>,
}

impl Arena {
    fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            broken: AtomicBool::new(false),
            slots: Mutex::default(),
            next: AtomicU64::new(0),
            freed: Arc::default(),
        })
    }
}

impl TakeArena for Arena {
    fn reserve(&self, bytes: u64) -> Result<SlotId, NoSlot> {
        if bytes > self.bytes_max {
            return Err(NoSlot::TooLarge);
        }
        let mut slots = self.slots.lock().unwrap();
        let used: u64 = slots.values().map(|slot| slot.len() as u64).sum();
        if used + bytes > self.bytes_max {
            return Err(NoSlot::Full);
        }
        let id = SlotId(self.next.fetch_add(1, Ordering::Relaxed));
        slots.insert(id, vec![0; usize::try_from(bytes).unwrap()]);
        Ok(id)
    }

    fn with_bytes(
        &self,
        slot: SlotId,
        offset: u64,
        length: usize,
        write: &mut dyn FnMut(VolatileSlice<'_>),
    ) -> io::Result<()> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let start = usize::try_from(offset).unwrap();
        let mut slots = self.slots.lock().unwrap();
        write(VolatileSlice::from(&mut slots.get_mut(&slot).unwrap()[start..start + length]));
        Ok(())
    }

    fn release(&self, slot: SlotId) {
        self.slots.lock().unwrap().remove(&slot).unwrap();
        self.freed.notify_waiters();
    }

    fn freed(&self) -> Arc<Notify> {
        Arc::clone(&self.freed)
    }
}

fn session() -> Session {
    Session {
        name: "activations".parse().unwrap(),
        uid: "1".to_owned(),
        direction: Direction::Receiving,
        kind: Kind::Stream { delivery: Delivery::RoundRobin, fanout: 16 },
        carrier: None,
        congestion: CongestionChoice::Cubic,
        cipher: None,
        preferred: Preferred::default(),
        rekey: Rekey::default(),
        suspend: false,
        remotes: vec![Remote { peer: "embedder".parse().unwrap(), replicas: vec![], listing: Listing::Open }],
    }
}

fn receiving() -> Arc<Receiving> {
    Receiving::start(Arc::new(context(None)), session())
}

fn arrival() -> Arrival {
    Arrival {
        peer: "embedder".parse().unwrap(),
        pod: PodIdentity::new("demo", "embedder-0", "e").unwrap(),
        degraded: vec![],
        stop: Stop::default(),
    }
}

/// A verified connection of the sender.
struct Wire {
    attached: Attached,
}

impl Wire {
    fn connect(receiving: &Arc<Receiving>) -> Self {
        let attached = Attached::new(Arc::clone(receiving), arrival(), Arc::default()).unwrap();
        Self { attached }
    }

    fn says(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        self.attached.on_frame(frame)
    }

    /// Opens a lane under the number `stream`.
    fn opens(&mut self, stream: u32, lane: u32) -> Result<(), Reason> {
        self.opens_from(stream, lane, 0)
    }

    fn opens_from(&mut self, stream: u32, lane: u32, base: u64) -> Result<(), Reason> {
        self.says(Frame::Open(Open {
            stream: StreamId(stream),
            incarnation: Incarnation(incarnation(lane)),
            base_sequence: Sequence(base),
        }))
    }

    fn announces(&mut self, stream: u32, sequence: u64, length: u64) -> Result<(), Reason> {
        let header = TensorHeader::of_bytes(StreamId(stream), Sequence(sequence), &length);
        self.says(Frame::Tensor(header))
    }

    fn brings(&mut self, stream: u32, sequence: u64, bytes: &[u8]) -> Result<(), Reason> {
        let (stream, sequence) = (StreamId(stream), Sequence(sequence));
        self.says(Frame::Chunk(Chunk { stream, sequence, offset: 0, bytes }))
    }

    fn puts(&mut self, stream: u32, sequence: u64, bytes: &[u8]) -> Result<(), Reason> {
        self.announces(stream, sequence, bytes.len() as u64)?;
        if bytes.is_empty() { Ok(()) } else { self.brings(stream, sequence, bytes) }
    }

    /// What the sender is told about a stream.
    fn hears(&self, stream: u32) -> Vec<Answer> {
        let (stream, attachment) = self.attached.stream(StreamId(stream)).unwrap();
        std::iter::from_fn(|| stream.next_answer(*attachment)).collect()
    }

    fn standing(&self, stream: u32) -> Standing {
        self.attached.stream(StreamId(stream)).unwrap().0.standing()
    }
}

/// Returns once every task of this test waits: they share one thread, and each pass runs all that can go on.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn incarnation(lane: u32) -> [u8; 16] {
    u128::from(lane).to_be_bytes()
}

/// Bytes that may come before there are places.
fn allowance(answers: &[Answer]) -> u64 {
    let credit = |answer: &Answer| match answer {
        Answer::Plain(Reply::Credit(credit)) => Some(credit.bytes_through),
        _ => None,
    };
    answers.iter().filter_map(credit).max().unwrap()
}

fn lost(sequence: u64) -> Answer {
    Answer::Lost(vec![Sequence(sequence)])
}

/// A client that receives.
struct Client {
    lane: ReceiverLane,
    deliveries: Deliveries,
    arena: Arc<Arena>,
}

impl Client {
    async fn open(receiving: &Arc<Receiving>, bytes_max: u64) -> Self {
        let arena = Arena::new(bytes_max);
        let (answer, answered) = tokio::sync::oneshot::channel();
        receiving.open(ReceiverRequest {
            session: "activations".parse().unwrap(),
            arena: Arc::clone(&arena) as Arc<_>,
            deadline: tokio::time::Instant::now(),
            answer,
        });
        let (lane, deliveries) = answered.await.unwrap().unwrap();
        Self { lane, deliveries, arena }
    }

    /// What was handed over by now: sequences, and ends of another kind by their names.
    fn turns(&mut self) -> Vec<String> {
        let name = |turn| match turn {
            Turn::Tensor(delivery) => delivery.sequence.0.to_string(),
            Turn::Interrupted { .. } => "interrupted".to_owned(),
            Turn::End => "end".to_owned(),
            Turn::Failed(_) => "failed".to_owned(),
        };
        std::iter::from_fn(|| self.deliveries.next_now()).map(name).collect()
    }
}

#[tokio::test]
async fn a_connection_that_replaces_a_dead_one_cuts_its_streams() {
    let receiving = receiving();
    let mut older = Wire::connect(&receiving);
    older.opens(1, 1).unwrap();
    older.announces(1, 0, 100).unwrap();
    let newer = Wire::connect(&receiving);
    assert!(matches!(older.standing(1), Standing::Cut(_)), "it may be given up now");
    // The dead one comes to life once more, and then to its end.
    assert_eq!(older.brings(1, 0, &[0; 100]), Err(Reason::LinkLost));
    assert_eq!(older.opens(2, 1).map(drop), Err(Reason::LinkLost), "it does not take its lanes back");
    drop(older);
    assert_eq!(receiving.observe().connections, 0, "none was established");
    assert!(receiving.lock().hub.has_seen_a_sender());
    drop(newer);
}

#[tokio::test]
async fn a_connection_opens_so_many_streams_and_no_more() {
    let receiving = receiving();
    let mut remote = Wire::connect(&receiving);
    for stream in 0..STREAMS_MAX {
        remote.opens(u32::try_from(stream).unwrap(), 1).unwrap();
    }
    assert_eq!(remote.opens(9999, 1), Err(Reason::LimitExceeded), "though it is one lane");
}

#[tokio::test]
async fn a_replica_leaves_so_many_lanes_open_and_no_more() {
    let receiving = receiving();
    let lanes = u32::try_from(STREAMS_MAX).unwrap();
    let mut remote = Wire::connect(&receiving);
    for lane in 0..lanes {
        remote.opens(lane, lane).unwrap();
    }
    // Those of a connection that broke may come back, and count until then.
    let mut remote = Wire::connect(&receiving);
    assert_eq!(remote.opens(lanes, lanes), Err(Reason::LimitExceeded));
    remote.opens(0, 0).unwrap();
}

#[tokio::test]
async fn what_lies_without_a_place_is_bounded_however_often_a_stream_is_opened() {
    let receiving = receiving();
    let mut remote = Wire::connect(&receiving);
    remote.opens(1, 1).unwrap();
    assert_eq!(allowance(&remote.hears(1)), STAGING_BYTES);
    remote.puts(1, 0, &[0; 60_000]).unwrap();
    remote.opens(2, 1).unwrap();
    assert_eq!(allowance(&remote.hears(2)), STAGING_BYTES - 60_000);
}

#[tokio::test]
async fn a_session_stages_for_so_many_streams_and_the_others_wait_for_places() {
    let receiving = receiving();
    let mut remote = Wire::connect(&receiving);
    let streams = u32::try_from(STAGING_STREAMS_MAX).unwrap();
    for stream in 0..=streams {
        remote.opens(stream, stream).unwrap();
    }
    assert_eq!(allowance(&remote.hears(streams - 1)), STAGING_BYTES);
    assert_eq!(allowance(&remote.hears(streams)), 0);
    // With a place it goes on all the same.
    let mut client = Client::open(&receiving, 1 << 20).await;
    remote.announces(streams, 0, 100).unwrap();
    assert_eq!(allowance(&remote.hears(streams)), 100);
    remote.brings(streams, 0, &[0; 100]).unwrap();
    assert_eq!(client.turns(), ["0"]);
    // A stream that ends makes room for another one.
    remote.says(Frame::End(End { stream: StreamId(0), tensors: 0, bytes: 0 })).unwrap();
    remote.opens(streams + 1, streams + 1).unwrap();
    assert_eq!(allowance(&remote.hears(streams + 1)), STAGING_BYTES);
}

#[tokio::test]
async fn an_answer_to_an_older_attachment_is_not_given_to_a_newer_one() {
    let receiving = receiving();
    let mut older = Wire::connect(&receiving);
    older.opens(1, 1).unwrap();
    let (stream, attachment) = older.attached.stream(StreamId(1)).unwrap();
    let stale = stream.next_answer(*attachment).unwrap();
    let mut newer = Wire::connect(&receiving);
    newer.opens(7, 1).unwrap();
    stream.owe(*attachment, stale.clone());
    let answers = newer.hears(7);
    assert!(!answers.contains(&stale), "{answers:?}");
    assert_eq!(answers.len(), 1);
}

#[tokio::test]
async fn what_could_not_be_written_is_lost_and_its_lane_ends() {
    let receiving = receiving();
    let mut remote = Wire::connect(&receiving);
    remote.opens(1, 1).unwrap();
    // One is put aside and cannot be moved to its place; of another one the bytes come to a place.
    remote.puts(1, 0, b"first").unwrap();
    let arena = Arena::new(1 << 20);
    arena.broken.store(true, Ordering::Relaxed);
    let (client, mut deliveries, outlet) = receiver::lane();
    receiving.lock().hub.join(outlet.turns(), Arc::clone(&arena) as Arc<_>);
    receiving.grant();
    assert!(matches!(deliveries.next_now(), Some(Turn::Failed(_))), "not garbage");
    assert_eq!(deliveries.next_now(), None);
    let mut healthy = Client::open(&receiving, 1 << 20).await;
    healthy.arena.broken.store(true, Ordering::Relaxed);
    remote.puts(1, 1, b"second").unwrap();
    assert_eq!(healthy.turns(), ["failed"]);
    let answers = remote.hears(1);
    assert!(answers.contains(&Answer::Lost(vec![Sequence(0), Sequence(1)])), "{answers:?}");
    assert!(arena.slots.lock().unwrap().is_empty() && healthy.arena.slots.lock().unwrap().is_empty());
    drop((client, outlet));
}

#[tokio::test]
async fn a_tensor_that_nobody_can_hold_is_lost_and_the_others_go_on() {
    let receiving = receiving();
    let mut remote = Wire::connect(&receiving);
    let mut client = Client::open(&receiving, 100).await;
    remote.opens(1, 1).unwrap();
    remote.puts(1, 0, &[0; 50]).unwrap();
    remote.puts(1, 1, &[0; 101]).unwrap();
    remote.puts(1, 2, &[0; 50]).unwrap();
    assert_eq!(client.turns(), ["0", "2"]);
    assert!(remote.hears(1).contains(&lost(1)));
}

#[tokio::test]
async fn streams_that_may_come_back_are_not_forgotten_for_those_that_do_not() {
    let receiving = receiving();
    let mut remote = Wire::connect(&receiving);
    let mut client = Client::open(&receiving, 1 << 20).await;
    remote.opens(0, 0).unwrap();
    remote.puts(0, 0, b"once").unwrap();
    assert_eq!(client.turns(), ["0"]);
    let stream = Arc::clone(&remote.attached.stream(StreamId(0)).unwrap().0);
    drop(remote);
    // Given up for now; many others come and go meanwhile.
    assert!(stream.interrupt());
    let mut remote = Wire::connect(&receiving);
    for lane in 1..200 {
        remote.opens(lane, lane).unwrap();
        remote.says(Frame::Abort(StreamId(lane))).unwrap();
    }
    remote.opens(1000, 0).unwrap();
    remote.puts(1000, 0, b"once").unwrap();
    assert!(!client.turns().contains(&"0".to_owned()), "it was delivered before");
}

#[tokio::test]
async fn what_is_remembered_as_lost_does_not_grow_for_ever() {
    let receiving = receiving();
    let mut remote = Wire::connect(&receiving);
    remote.opens(1, 1).unwrap();
    let stream = Arc::clone(&remote.attached.stream(StreamId(1)).unwrap().0);
    let mut client = Client::open(&receiving, 1 << 20).await;
    for sequence in 0..5 * WINDOW_TENSORS {
        remote.puts(1, sequence, b"").unwrap();
        stream.lost(crate::handoff::Sequence(sequence));
        remote.hears(1);
        client.turns();
    }
    assert!(stream.remembered_as_lost() as u64 <= 2 * WINDOW_TENSORS);
}

#[tokio::test]
async fn an_ended_session_gains_no_connection() {
    let receiving = receiving();
    assert!(receiving.expects(&"embedder".parse().unwrap()));
    let other = Arrival { peer: "ranker".parse().unwrap(), ..arrival() };
    assert_eq!(
        Attached::new(Arc::clone(&receiving), other, Arc::default()).map(drop),
        Err(Reason::SessionUnknown)
    );
    receiving.close(Reason::SessionDeleted, "deleted");
    assert_eq!(Attached::new(receiving, arrival(), Arc::default()).map(drop), Err(Reason::SessionUnknown));
}

#[tokio::test]
async fn a_session_that_was_suspended_knows_what_it_delivered() {
    let receiving = receiving();
    let mut remote = Wire::connect(&receiving);
    let mut client = Client::open(&receiving, 1 << 20).await;
    remote.opens(1, 1).unwrap();
    remote.puts(1, 0, b"taken").unwrap();
    remote.puts(1, 1, b"given").unwrap();
    assert_eq!(client.turns(), ["0", "1"]);
    receiving.suspend("suspended");
    assert_eq!(client.turns(), ["failed"]);
    assert_eq!(
        Attached::new(Arc::clone(&receiving), arrival(), Arc::default()).map(drop),
        Err(Reason::SessionUnknown)
    );
    assert_eq!(remote.puts(1, 2, b"late"), Err(Reason::LinkLost));
    drop(remote);
    receiving.resume(session());
    assert!(!receiving.lock().hub.has_seen_a_sender(), "it begins anew");
    let mut client = Client::open(&receiving, 1 << 20).await;
    assert!(client.turns().is_empty(), "what ended before ends nothing now");
    let mut remote = Wire::connect(&receiving);
    remote.opens(5, 1).unwrap();
    for sequence in 0..3 {
        remote.puts(5, sequence, b"again").unwrap();
    }
    assert_eq!(client.turns(), ["2"]);
    drop(client.lane);
}

#[tokio::test]
async fn what_was_delivered_can_be_taken_after_the_end() {
    let receiving = receiving();
    let mut remote = Wire::connect(&receiving);
    let mut client = Client::open(&receiving, 1 << 20).await;
    remote.opens(1, 1).unwrap();
    remote.puts(1, 0, b"late").unwrap();
    let Some(Turn::Tensor(delivery)) = client.deliveries.next().await else { panic!("no tensor") };
    // The lane's task waits, and the end comes meanwhile.
    settled().await;
    remote.says(Frame::End(End { stream: StreamId(1), tensors: 1, bytes: 4 })).unwrap();
    assert_eq!(client.turns(), ["end"]);
    drop(client.deliveries);
    settled().await;
    client.lane.taken(&[delivery.id]);
    settled().await;
    let taken = Answer::Plain(Reply::Taken(vec![Sequence(0)]));
    assert!(remote.hears(1).contains(&taken));
}

#[tokio::test]
async fn senders_are_told_of_the_last_tensor_of_a_client_that_exits_at_once() {
    for client_takes in [true, false] {
        let receiving = receiving();
        let mut remote = Wire::connect(&receiving);
        let mut client = Client::open(&receiving, 1 << 20).await;
        remote.opens(1, 1).unwrap();
        remote.hears(1);
        assert!(receiving.is_acknowledged(), "nothing arrived");
        remote.puts(1, 0, b"last").unwrap();
        let Some(Turn::Tensor(delivery)) = client.deliveries.next().await else { panic!("no tensor") };
        if client_takes {
            client.lane.taken(&[delivery.id]);
        }
        drop(client);
        receiving.refuse(&LaneError::closed(Reason::Draining, "the sidecar is shutting down"));
        assert!(!receiving.is_acknowledged(), "the lane's task has not heard of it");
        settled().await;
        assert!(!receiving.is_acknowledged(), "the sender has not heard of it");
        let taken = Answer::Plain(Reply::Taken(vec![Sequence(0)]));
        let told = if client_takes { taken } else { lost(0) };
        assert!(remote.hears(1).contains(&told));
        assert!(receiving.is_acknowledged());
    }
}

#[tokio::test]
async fn tensors_without_bytes_do_not_overtake_one_that_a_cut_interrupts() {
    let receiving = receiving();
    let mut client = Client::open(&receiving, 1 << 20).await;
    let mut remote = Wire::connect(&receiving);
    remote.opens(1, 1).unwrap();
    remote.announces(1, 0, 8).unwrap();
    remote.announces(1, 1, 0).unwrap();
    remote.brings(1, 0, b"half").unwrap();
    drop(remote);
    assert!(client.turns().is_empty());
    let mut remote = Wire::connect(&receiving);
    remote.opens(1, 1).unwrap();
    remote.announces(1, 0, 8).unwrap();
    remote.announces(1, 1, 0).unwrap();
    assert!(client.turns().is_empty());
    remote.brings(1, 0, b"complete").unwrap();
    assert_eq!(client.turns(), ["0", "1"]);
}

#[tokio::test]
async fn a_sender_announces_no_more_than_there_is_memory_for() {
    let receiving = receiving();
    let mut wire = Wire::connect(&receiving);
    wire.opens(1, 1).unwrap();
    wire.announces(1, 0, 0).unwrap();
    let others = receiving.announced.hoarded();
    // Of no bytes, which has arrived as it is announced.
    assert_eq!(wire.announces(1, 1, 0), Err(Reason::LimitExceeded));
    // What was announced before may come again.
    drop(wire);
    let mut wire = Wire::connect(&receiving);
    wire.opens(1, 1).unwrap();
    wire.announces(1, 0, 0).unwrap();
    assert_eq!(wire.announces(1, 1, 0), Err(Reason::LimitExceeded));
    drop((wire, others));
    // What was refused was not noted as arrived.
    let mut client = Client::open(&receiving, 1 << 20).await;
    let mut wire = Wire::connect(&receiving);
    wire.opens(1, 1).unwrap();
    wire.announces(1, 0, 0).unwrap();
    wire.announces(1, 1, 0).unwrap();
    settled().await;
    assert_eq!(client.turns(), ["0", "1"]);
}

#[tokio::test]
async fn a_peer_is_not_as_many_pods_as_it_likes() {
    let receiving = receiving();
    let pod = |number: usize| PodIdentity::new("demo", &format!("embedder-{number}"), "e").unwrap();
    for number in 0..hub::SENDERS_MAX {
        receiving.admit(Arrival { pod: pod(number), ..arrival() }).unwrap();
    }
    let more = Arrival { pod: pod(hub::SENDERS_MAX), ..arrival() };
    assert_eq!(receiving.admit(more).unwrap_err(), Reason::LimitExceeded);
    // One that is known already has a place.
    receiving.admit(arrival()).unwrap();
}
