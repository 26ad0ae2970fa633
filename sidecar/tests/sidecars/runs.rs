//! Small tensors that travel together.

use std::sync::Arc;

use sealane_sidecar::handoff::{
    Delivery as Delivered, Parcel, SenderEvent, Sequence, Span, TensorHeader, Turn,
};
use sealane_types::{Delivery, Dtype};

use crate::client::{Memory, Receiver, assignments, bytes, parcel, passing_on, sender};
use crate::forward::measured;
use crate::support::{Plan, pair, until, within};

/// Bytes of each tensor.
const EACH: u64 = 100;

/// As the door accepts it: bytes before it that are none of its.
fn run(first: u64, tensors: u64) -> Parcel {
    let together = (first..first + tensors).flat_map(|sequence| bytes(sequence, EACH));
    Parcel {
        header: TensorHeader {
            dtype: Dtype::Uint8,
            shape: vec![tensors, EACH],
            run: true,
            name: String::new(),
        },
        source: Arc::new(Memory::of(&[0; 7].into_iter().chain(together).collect::<Vec<u8>>())),
        offset: 7,
        length: tensors * EACH,
        ..parcel(first, 0)
    }
}

/// The numbers that a turn brings, whose bytes are theirs.
fn numbers(receiver: &Receiver, turn: Turn) -> (Vec<u64>, Delivered) {
    let Turn::Tensor(delivery) = turn else { panic!("{turn:?} in place of a tensor") };
    let tensors = delivery.header.tensors();
    assert_eq!((delivery.length, delivery.header.shape_of_one()), (tensors * EACH, &[EACH][..]));
    let numbers: Vec<u64> = (delivery.sequence.0..).take(tensors as usize).collect();
    let together: Vec<u8> = numbers.iter().flat_map(|sequence| bytes(*sequence, EACH)).collect();
    assert!(receiver.arena.holds(delivery.slot, &together), "{delivery:?}");
    (numbers, delivery)
}

fn taken(events: &[SenderEvent]) -> Vec<(u64, u64)> {
    let taken = |event: &SenderEvent| match event {
        SenderEvent::Taken { first, last } => Some((first.0, last.0)),
        _ => None,
    };
    events.iter().filter_map(taken).collect()
}

#[tokio::test]
async fn a_run_crosses_as_one_and_counts_as_many() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(run(3, 4)).await.unwrap();
    let turn = receiver.turn().await;
    let (found, delivery) = numbers(&receiver, turn);
    assert_eq!(found, [3, 4, 5, 6]);
    lane.offer(parcel(7, 0)).await.unwrap();
    let Turn::Tensor(next) = receiver.turn().await else { panic!("no tensor") };
    assert!(next.id.0 >= delivery.id.0 + 4, "ids of its parts are free");
    receiver.take(&delivery);
    receiver.take(&next);
    within("the end", lane.close()).await.unwrap();
    // Told by another task than the one that closes the lane.
    let numbers = || taken(&events.lock().unwrap()).iter().map(|(first, last)| last - first + 1).sum();
    until("each is told as taken", || numbers() >= 5_u64).await;
    let events = events.lock().unwrap().clone();
    assert!(events.iter().any(|event| matches!(event, SenderEvent::Assigned { span, .. }
        if *span == Span::new(Sequence(3), 4))));
    assert_eq!((numbers(), taken(&events)[0].0), (5, 3));
    for (side, direction) in [(&from, "sending"), (&to, "receiving")] {
        let metrics = side.node.render_metrics().unwrap();
        let count = metrics.lines().find(|line| line.starts_with("sealane_tensors_total{")).unwrap();
        assert!(count.contains(direction) && count.ends_with("} 5"), "{count}");
    }
}

#[tokio::test]
async fn replicas_share_a_run_and_a_broadcast_is_whole() {
    for delivery in [Delivery::RoundRobin, Delivery::Broadcast] {
        let one = Plan::receiver().start();
        let other = Plan { pod: "ranker-1", uid: "s", ..Plan::receiver() }.start();
        let from = Plan { delivery, ..Plan::sender(&[one.address, other.address]) }.start();
        let (lane, events) = sender(&from.lanes).await;
        let events = passing_on(events);
        let (mut first, mut second) =
            tokio::join!(Receiver::open(&one.lanes, 8 << 20), Receiver::open(&other.lanes, 8 << 20));
        measured(&from, &["sealane_connections{", "sending", "} 2"]).await;
        lane.offer(run(0, 6)).await.unwrap();
        let mut all = Vec::new();
        for receiver in [&mut first, &mut second] {
            let mut own = Vec::new();
            while own.len() < if delivery == Delivery::RoundRobin { 3 } else { 6 } {
                let turn = receiver.turn().await;
                let (found, delivery) = numbers(receiver, turn);
                receiver.take(&delivery);
                own.extend(found);
            }
            all.extend(own);
        }
        all.sort_unstable();
        let expected: Vec<u64> = match delivery {
            Delivery::RoundRobin => (0..6).collect(),
            Delivery::Broadcast => (0..6).flat_map(|number| [number; 2]).collect(),
        };
        assert_eq!(all, expected);
        within("the end", lane.close()).await.unwrap();
        let parts = || assignments(&events.lock().unwrap()).count();
        let expected = if delivery == Delivery::RoundRobin { 6 } else { 1 };
        until("each part is assigned", || parts() >= expected).await;
        assert_eq!(parts(), expected);
    }
}

#[tokio::test]
async fn a_run_that_nobody_took_is_uncertain_with_all_its_numbers() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(run(0, 4)).await.unwrap();
    let turn = receiver.turn().await;
    assert_eq!(numbers(&receiver, turn).0, [0, 1, 2, 3]);
    drop(receiver);
    assert!(within("the news", lane.flush()).await.is_err());
    let uncertain = SenderEvent::Uncertain { first: Sequence(0), last: Sequence(3) };
    until("the numbers", || events.lock().unwrap().contains(&uncertain)).await;
}
