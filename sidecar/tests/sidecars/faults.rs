//! Crashes, restarts, and strangers at the data port.

use std::collections::BTreeSet;

use sealane_sidecar::handoff::{SenderEvent, Sequence, Turn};
use tokio::net::TcpSocket;
use tokio::time::Instant;

use crate::client::{Receiver, assigned, assignments, parcel, passing_on, sender, try_sender};
use crate::support::{LIMIT, Plan, pair, until, within};

#[tokio::test]
async fn what_a_restarted_sender_sends_again_arrives_once() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    for sequence in 0..10 {
        lane.offer(parcel(sequence, 1000)).await.unwrap();
    }
    // Five are taken, though nobody says so to the client before the crash; five are delivered and not taken.
    let mut untaken = Vec::new();
    for sequence in 0..10 {
        let delivery = receiver.tensor().await;
        assert_eq!(delivery.sequence.0, sequence);
        if sequence < 5 {
            receiver.take(&delivery);
        } else {
            untaken.push(delivery);
        }
    }
    // Told by another task than the one that delivers.
    until("all are assigned", || assignments(&events.lock().unwrap()).count() == 10).await;
    let known = events.lock().unwrap().clone();
    let from = from.kill().start();
    let (lane, events) = try_sender(&from.lanes, 0, Instant::now() + LIMIT).await.unwrap();
    let events = passing_on(events);
    for sequence in 0..10 {
        lane.offer(assigned(&known, sequence)).await.unwrap();
    }
    for sequence in 10..15 {
        lane.offer(parcel(sequence, 1000)).await.unwrap();
    }
    for delivery in &untaken {
        receiver.take(delivery);
    }
    for sequence in 10..15 {
        assert_eq!(receiver.next_taken().await, sequence, "repeats are dropped");
    }
    within("the end", lane.close()).await.unwrap();
    assert_eq!(receiver.turn().await, Turn::End);
    let taken = || -> BTreeSet<u64> {
        let run = |event: &SenderEvent| match event {
            SenderEvent::Taken { first, last } => first.0..last.0 + 1,
            _ => 0..0,
        };
        events.lock().unwrap().iter().flat_map(run).collect()
    };
    until("all are told as taken", || taken() == (0..15).collect()).await;
}

#[tokio::test]
async fn tensors_of_a_receiver_that_is_gone_are_uncertain_and_never_sent_elsewhere() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    lane.offer(parcel(1, 1000)).await.unwrap();
    receiver.next_taken().await;
    let _untaken = receiver.tensor().await;
    until("the first is known as taken", || {
        events.lock().unwrap().iter().any(|event| matches!(event, SenderEvent::Taken { .. }))
    })
    .await;
    let to = to.kill().start();
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    until("the second is uncertain", || {
        let uncertain = SenderEvent::Uncertain { first: Sequence(1), last: Sequence(1) };
        events.lock().unwrap().contains(&uncertain)
    })
    .await;
    lane.offer(parcel(2, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 2);
    assert!(within("the flush", lane.flush()).await.is_err(), "a flush tells of what is uncertain");
    within("the end", lane.close()).await.unwrap();
    assert_eq!(receiver.turn().await, Turn::End);
}

#[tokio::test]
async fn a_client_that_is_gone_with_its_tensors_makes_them_uncertain() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    receiver.tensor().await;
    drop(receiver);
    until("it is uncertain", || {
        let uncertain = SenderEvent::Uncertain { first: Sequence(0), last: Sequence(0) };
        events.lock().unwrap().contains(&uncertain)
    })
    .await;
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(1, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 1, "another client goes on");
}

#[tokio::test]
async fn a_sender_that_is_gone_interrupts_once_and_another_goes_on() {
    let to = Plan::receiver().start();
    let one = Plan::sender(&[to.address]).start();
    let other = Plan { pod: "embedder-1", uid: "f", ..Plan::sender(&[to.address]) }.start();
    let (lane, events) = sender(&one.lanes).await;
    passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    receiver.next_taken().await;
    // The client is gone without closing.
    drop(lane);
    assert_eq!(receiver.turn().await, Turn::Interrupted { sender: "embedder/embedder-0".to_owned() });
    let (lane, events) = sender(&other.lanes).await;
    passing_on(events);
    lane.offer(parcel(7, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 7);
    within("the end", lane.close()).await.unwrap();
    // The one that was interrupted is still there and may go on: the end waits for it.
    let (lane, events) = sender(&one.lanes).await;
    passing_on(events);
    lane.offer(parcel(1, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 1);
    within("the end", lane.close()).await.unwrap();
    assert_eq!(receiver.turn().await, Turn::End);
}

#[tokio::test]
async fn half_open_connections_of_strangers_do_not_keep_a_known_peer_out() {
    let mut plan = Plan::receiver();
    // Known by address, as the operator tells a receiver where its senders are.
    plan.remotes = vec!["127.0.0.1:14710".parse().unwrap()];
    let to = plan.start();
    let mut flood = Vec::new();
    for source in 2..=60 {
        for _ in 0..4 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(format!("127.0.0.{source}:0").parse().unwrap()).unwrap();
            flood.push(within("a half-open connection", socket.connect(to.address)).await.unwrap());
        }
    }
    let from = Plan::sender(&[to.address]).start();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    drop(flood);
}

#[tokio::test]
async fn a_deleted_session_ends_lanes_on_both_sides() {
    let (from, to) = pair();
    let (lane, mut events) = sender(&from.lanes).await;
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    let mut desired = from.plan.desired();
    desired.sessions.clear();
    from.apply(desired);
    let event = within("the sender's end", events.next()).await.unwrap();
    assert!(matches!(event, SenderEvent::Failed(_)), "{event:?}");
    assert!(lane.flush().await.is_err());
    let mut desired = to.plan.desired();
    desired.sessions.clear();
    to.apply(desired);
    assert!(matches!(receiver.turn().await, Turn::Failed(_)));
}
