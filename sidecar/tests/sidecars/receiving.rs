//! Links that break, sessions that pause, and connections that never rest.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sealane_arena::{Plaintext, SharedMemory, VolatileSlice};
use sealane_protocol::limits::BULK_BYTES_MAX;
use sealane_sidecar::handoff::{
    Deliveries, NoSlot, Parcel, ReceiverLane, SenderEvent, SlotId, TakeArena, TensorSource, Turn,
};
use sealane_types::{Carrier, Reason};
use serde_json::json;
use tokio::sync::Notify;

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::path::{OneWay, Path};
use crate::support::{LIMIT, Plan, Sidecar, at_rest, document, pair, signed, until, within};

fn settled(events: &[SenderEvent]) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut taken, mut uncertain) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        match event {
            SenderEvent::Taken { first, last } => taken.extend(first.0..=last.0),
            SenderEvent::Uncertain { first, last } => uncertain.extend(first.0..=last.0),
            _ => {}
        }
    }
    (taken, uncertain)
}

#[tokio::test]
async fn a_link_that_breaks_again_and_again_loses_and_repeats_nothing() {
    const COUNT: u64 = 300;
    let to = Plan::receiver().start();
    let path = Path::to(to.address).await;
    let from = Plan { carrier: None, ..Plan::sender(&[path.address]) }.start();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    // Room for some of what is offered: the rest is a backlog at every cut.
    let mut receiver = Receiver::open(&to.lanes, 2 << 20).await;
    let put = tokio::spawn(async move {
        for sequence in 0..COUNT {
            // Small ones that are whole at a cut, large ones that are not, and empty ones.
            lane.offer(parcel(sequence, [0, 1000, 40_000, 500_000][(sequence % 4) as usize])).await.unwrap();
        }
        lane.close().await
    });
    let mut untaken = Vec::new();
    for sequence in 0..COUNT {
        let delivery = receiver.tensor().await;
        assert_eq!(delivery.sequence.0, sequence, "each once, in order");
        // At every cut some are delivered and not taken, and others are taken with nobody told.
        untaken.push(delivery);
        if sequence % 7 == 6 {
            untaken.drain(..).for_each(|delivery| receiver.take(&delivery));
        }
        if sequence % 60 == 50 {
            path.cut();
        }
    }
    untaken.drain(..).for_each(|delivery| receiver.take(&delivery));
    assert_eq!(receiver.turn().await, Turn::End);
    within("the sender", put).await.unwrap().unwrap();
    until("all are taken", || settled(&events.lock().unwrap()).0.len() as u64 == COUNT).await;
    assert!(settled(&events.lock().unwrap()).1.is_empty(), "none is uncertain");
}

#[tokio::test]
async fn a_suspended_receiver_delivers_nothing_twice_when_it_goes_on() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    for sequence in 0..10 {
        lane.offer(parcel(sequence, 1000)).await.unwrap();
    }
    for sequence in 0..10 {
        let delivery = receiver.tensor().await;
        if sequence < 5 {
            receiver.take(&delivery);
        }
    }
    // The sending side has not heard of it yet, and goes on trying.
    let mut suspended = to.plan.desired();
    suspended.sessions[0].suspend = true;
    to.apply(suspended);
    assert!(matches!(receiver.turn().await, Turn::Failed(_)));
    drop(receiver);
    lane.offer(parcel(10, 1000)).await.unwrap();
    to.apply(to.plan.desired());
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    assert_eq!(receiver.next_taken().await, 10);
    assert!(within("the end", lane.close()).await.is_err(), "it tells of what is uncertain");
    assert_eq!(receiver.turn().await, Turn::End);
    until("the fate of all is known", || {
        let (taken, uncertain) = settled(&events.lock().unwrap());
        taken == (0..5).chain([10]).collect() && uncertain == (5..10).collect()
    })
    .await;
}

/// More than any machine moves while a test waits.
const ENDLESS: u64 = 1 << 40;

/// A tensor without an end.
#[derive(Debug)]
struct Zeros(SharedMemory);

impl Zeros {
    fn new() -> Self {
        Self(SharedMemory::create(BULK_BYTES_MAX as u64).unwrap())
    }
}

impl TensorSource for Zeros {
    fn bytes(&self, _: u64, length: usize) -> io::Result<Plaintext<'_>> {
        self.0.slice(0, length).map(Plaintext::from)
    }
}

/// Memory without an end, slower than the link, so that bytes always wait there.
#[derive(Debug, Default)]
struct Void {
    written: AtomicU64,
    freed: Arc<Notify>,
}

impl Void {
    fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl TakeArena for Void {
    fn reserve(&self, _: u64) -> Result<SlotId, NoSlot> {
        Ok(SlotId(0))
    }

    fn with_bytes(
        &self,
        _: SlotId,
        _: u64,
        length: usize,
        write: &mut dyn FnMut(VolatileSlice<'_>),
    ) -> io::Result<()> {
        std::thread::sleep(Duration::from_micros(500));
        self.written.fetch_add(length as u64, Ordering::Relaxed);
        write(VolatileSlice::from(&mut vec![0; length][..]));
        Ok(())
    }

    fn release(&self, _: SlotId) {}

    fn freed(&self) -> Arc<Notify> {
        Arc::clone(&self.freed)
    }
}

/// Whether connections of `sidecar` ended, for another reason than that nothing was heard of the other side.
fn ended_for_a_reason(sidecar: &Sidecar) -> bool {
    let metrics = sidecar.node.render_metrics().unwrap();
    let mut ended = metrics.lines().filter(|line| line.starts_with("sealane_connections_ended_total{"));
    ended.any(|line| !line.ends_with(" 0") && !line.contains(&format!("\"{}\"", Reason::LinkLost)))
}

/// Sends a tensor without an end: bytes for which the receiver gave credit need nothing more from anybody. What it
/// returns keeps the receiver's client there.
async fn endless(from: &Sidecar, to: &Sidecar) -> (Arc<Void>, (ReceiverLane, Deliveries)) {
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let arena = Arc::new(Void::default());
    let deadline = tokio::time::Instant::now() + LIMIT;
    let session = "activations".parse().unwrap();
    let opened = to.lanes.open_receiver(session, Arc::clone(&arena) as Arc<_>, deadline);
    let client = within("a receiving lane", opened).await.unwrap();
    let mut endless = parcel(0, 0);
    endless.header.shape = vec![ENDLESS];
    lane.offer(Parcel { source: Arc::new(Zeros::new()), length: ENDLESS, ..endless }).await.unwrap();
    until("it is under way", || arena.written() > 8 << 20).await;
    (arena, client)
}

/// Keeps one connection busy without pause, and expects `end` to stop it. The first sidecar that `end` leaves has to hear
/// of it; silence would end the connection, too.
async fn stops_while_busy(end: impl FnOnce(Sidecar, Sidecar) -> Vec<Sidecar>) {
    // A machine that is slow may take its time to say goodbye.
    let to = Plan { drain: LIMIT, ..Plan::receiver() }.start();
    let from = Plan::sender(&[to.address]).start();
    let (arena, _client) = endless(&from, &to).await;
    let left = end(from, to);
    until("the end of the connection", || ended_for_a_reason(&left[0])).await;
    at_rest("bytes", || arena.written()).await;
}

#[tokio::test]
async fn a_connection_ends_although_its_remote_takes_nothing_and_says_more() {
    // Datagrams are settled or not by the engine; what a kernel has no room for is a matter of TCP.
    let carrier = Some(Carrier::Tcp);
    let to = Plan { drain: LIMIT, carrier, ..Plan::receiver() }.start();
    let path = OneWay::to(to.address).await;
    let from = Plan { carrier, ..Plan::sender(&[path.address]) }.start();
    let (arena, _client) = endless(&from, &to).await;
    path.hold();
    // By then the sender has no room for more, either.
    at_rest("bytes", || arena.written()).await;
    to.drain();
    until("the end of the connection", || ended_for_a_reason(&from)).await;
}

/// An epoch in which nobody may send.
fn without_the_sender() -> sealane_types::SignedChain {
    let mut next = document(2);
    next["peers"].as_object_mut().unwrap().remove("embedder");
    next["sessions"] = json!([]);
    signed(&next, &[1, 2])
}

#[tokio::test]
async fn a_busy_receiver_hears_of_an_epoch_without_its_sender() {
    stops_while_busy(|from, to| {
        to.propose(without_the_sender());
        vec![to, from]
    })
    .await;
}

#[tokio::test]
async fn a_busy_sender_hears_of_an_epoch_without_itself() {
    stops_while_busy(|from, to| {
        from.propose(without_the_sender());
        vec![from, to]
    })
    .await;
}

#[tokio::test]
async fn a_busy_connection_hears_that_its_session_is_deleted() {
    stops_while_busy(|from, to| {
        let mut desired = to.plan.desired();
        desired.sessions.clear();
        to.apply(desired);
        vec![to, from]
    })
    .await;
}

#[tokio::test]
async fn a_busy_connection_hears_of_draining() {
    stops_while_busy(|from, to| {
        to.drain();
        vec![from]
    })
    .await;
}
