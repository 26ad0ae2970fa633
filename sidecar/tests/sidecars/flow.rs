//! Tensors from client to client.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use sealane_sidecar::handoff::{SenderEvent, Turn};
use sealane_types::Delivery;

use crate::client::{Receiver, cross, parcel, passing_on, sender};
use crate::forward::measured;
use crate::support::{Plan, pair, until, within};

#[tokio::test]
async fn tensors_of_every_size_arrive_whole_and_in_order() {
    let (from, to) = pair();
    let sizes = [0_u64, 1, 1536, 65_536, 65_537, 1 << 20, (1 << 20) + 1, 5 << 20, 24 << 20, 3];
    let events = cross(&from, &to, &sizes).await;
    let taken = || -> u64 {
        let run = |event: &SenderEvent| match event {
            SenderEvent::Taken { first, last } => last.0 - first.0 + 1,
            _ => 0,
        };
        events.lock().unwrap().iter().map(run).sum()
    };
    until("each is told as taken once", || taken() >= sizes.len() as u64).await;
    assert_eq!(taken(), sizes.len() as u64);
}

#[tokio::test]
async fn a_thousand_small_tensors_arrive() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 16 << 20).await;
    let put = async {
        for sequence in 0..1000 {
            lane.offer(parcel(sequence, 1536)).await.unwrap();
        }
        lane.flush().await.unwrap();
    };
    let take = async {
        for sequence in 0..1000 {
            assert_eq!(receiver.next_taken().await, sequence);
        }
    };
    within("put and take", async { tokio::join!(put, take) }).await;
}

#[tokio::test]
async fn a_receiver_that_takes_nothing_stops_the_sender() {
    const ROOM: u64 = 1 << 20;
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, ROOM).await;
    let offered = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = std::sync::Arc::clone(&offered);
    let put = tokio::spawn(async move {
        for sequence in 0..400 {
            lane.offer(parcel(sequence, 256 << 10)).await.unwrap();
            count.store(sequence + 1, Ordering::SeqCst);
        }
        lane.close().await.unwrap();
    });
    // Full: what fits was delivered, and nothing else comes although more is offered.
    let first: Vec<_> = [receiver.tensor().await, receiver.tensor().await, receiver.tensor().await].into();
    let last = receiver.tensor().await;
    assert_eq!(receiver.arena.used(), ROOM);
    let before = offered.load(Ordering::SeqCst);
    assert!(before < 400, "the sender has to wait");
    for delivery in first.iter().chain([&last]) {
        receiver.take(delivery);
    }
    for sequence in 4..400 {
        assert_eq!(receiver.next_taken().await, sequence);
    }
    assert_eq!(receiver.turn().await, Turn::End);
    within("the sender", put).await.unwrap();
    assert!(receiver.arena.peak.load(Ordering::Relaxed) <= ROOM);
}

#[tokio::test]
async fn the_end_waits_for_tensors_without_a_place() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    // Room for one at a time, while all of them and the end are staged at the receiving sidecar.
    let mut receiver = Receiver::open(&to.lanes, 1000).await;
    for sequence in 0..20 {
        lane.offer(parcel(sequence, if sequence % 5 == 4 { 0 } else { 1000 })).await.unwrap();
    }
    let close = tokio::spawn(async move { lane.close().await });
    for sequence in 0..20 {
        assert_eq!(receiver.next_taken().await, sequence);
    }
    assert_eq!(receiver.turn().await, Turn::End);
    within("the end", close).await.unwrap().unwrap();
}

#[tokio::test]
async fn round_robin_shares_tensors_and_broadcast_repeats_them() {
    for delivery in [Delivery::RoundRobin, Delivery::Broadcast] {
        let one = Plan::receiver().start();
        let other = Plan { pod: "ranker-1", uid: "s", ..Plan::receiver() }.start();
        let from = Plan { delivery, ..Plan::sender(&[one.address, other.address]) }.start();
        let (lane, events) = sender(&from.lanes).await;
        passing_on(events);
        // Both have to be connected, or the first tensors go to one alone.
        let (first, second) =
            tokio::join!(Receiver::open(&one.lanes, 8 << 20), Receiver::open(&other.lanes, 8 << 20));
        measured(&from, &["sealane_connections{", "sending", "} 2"]).await;
        let put = async {
            for sequence in 0..64 {
                lane.offer(parcel(sequence, 4096)).await.unwrap();
            }
            lane.close().await.unwrap();
        };
        let drain = |mut receiver: Receiver| async move {
            let mut taken = BTreeSet::new();
            loop {
                match receiver.turn().await {
                    Turn::Tensor(delivery) => {
                        receiver.take(&delivery);
                        assert!(taken.insert(delivery.sequence.0), "twice: {delivery:?}");
                    }
                    Turn::End => return taken,
                    other => panic!("{other:?}"),
                }
            }
        };
        let ((), first, second) =
            within("all", async { tokio::join!(put, drain(first), drain(second)) }).await;
        let all: BTreeSet<u64> = (0..64).collect();
        match delivery {
            Delivery::RoundRobin => {
                assert!(!first.is_empty() && !second.is_empty(), "{first:?} {second:?}");
                assert!(first.is_disjoint(&second));
                assert_eq!(&first | &second, all);
            }
            Delivery::Broadcast => assert_eq!((first, second), (all.clone(), all)),
        }
    }
}

#[tokio::test]
async fn receivers_of_one_pod_share_what_arrives() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut one = Receiver::open(&to.lanes, 8 << 20).await;
    let mut other = Receiver::open(&to.lanes, 8 << 20).await;
    for sequence in 0..8 {
        lane.offer(parcel(sequence, 100)).await.unwrap();
    }
    let mut taken = BTreeSet::new();
    for _ in 0..4 {
        taken.insert(one.next_taken().await);
        taken.insert(other.next_taken().await);
    }
    assert_eq!(taken, (0..8).collect());
    within("the end", lane.close()).await.unwrap();
    assert_eq!((one.turn().await, other.turn().await), (Turn::End, Turn::End));
}
