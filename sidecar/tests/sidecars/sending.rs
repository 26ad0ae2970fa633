//! What a sender does about receivers that do not keep up.

use sealane_sidecar::handoff::{SenderEvent, Sequence, Turn};
use sealane_types::{Delivery, Reason};

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::forward::measured;
use crate::support::{LIMIT, Plan, pair, until, within};

#[tokio::test]
async fn a_broadcast_goes_on_without_a_receiver_that_stalls() {
    const TENSORS: u64 = 24;
    let one = Plan::receiver().start();
    let other = Plan { pod: "ranker-1", uid: "s", ..Plan::receiver() }.start();
    let to = [one.address, other.address];
    let from = Plan { delivery: Delivery::Broadcast, ..Plan::sender(&to) }.start();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut quick = Receiver::open(&one.lanes, 64 << 20).await;
    // It has a place for one tensor, and keeps it.
    let mut stalled = Receiver::open(&other.lanes, 1 << 20).await;
    let metrics = || from.node.render_metrics().unwrap();
    measured(&from, &["sealane_connections{", "sending", "} 2"]).await;

    let put = async {
        for sequence in 0..TENSORS {
            lane.offer(parcel(sequence, 1 << 20)).await.unwrap();
        }
        lane.close().await
    };
    let take = async {
        for sequence in 0..TENSORS {
            let turn = tokio::time::timeout(2 * LIMIT, quick.deliveries.next()).await.unwrap();
            let Some(Turn::Tensor(delivery)) = turn else { panic!("{turn:?}") };
            assert_eq!(delivery.sequence.0, sequence);
            quick.take(&delivery);
        }
        quick.turn().await
    };
    let (closed, end) = tokio::time::timeout(5 * LIMIT, async { tokio::join!(put, take) })
        .await
        .expect("a lane closes although a receiver stalled");
    // One receiver of the Peer took each of them: that is taken, and the operator hears of the other one.
    assert_eq!((closed, end), (Ok(()), Turn::End));
    assert!(metrics().contains(r#"reason="Stalled"} 1"#), "{}", metrics());
    let taken = |event: &SenderEvent| match event {
        SenderEvent::Taken { first, last } => last.0 - first.0 + 1,
        SenderEvent::Assigned { .. } => 0,
        other => panic!("{other:?}"),
    };
    // Told by another task than the one that closes the lane.
    let told = || events.lock().unwrap().iter().map(taken).sum::<u64>();
    until("every tensor is told of", || told() == TENSORS).await;

    // The other one keeps what it was given before, and learns that the rest does not come.
    let kept = stalled.tensor().await;
    assert_eq!(kept.sequence.0, 0);
    stalled.take(&kept);
    let next = within("the news", async {
        loop {
            match stalled.turn().await {
                Turn::Tensor(delivery) => stalled.take(&delivery),
                other => return other,
            }
        }
    });
    assert_eq!(next.await, Turn::Interrupted { sender: "embedder/embedder-0".to_owned() });
}

#[tokio::test]
async fn a_broadcast_goes_on_without_a_receiver_that_has_memory_and_takes_nothing() {
    /// As many as a client may have under way.
    const WINDOW: usize = 1024;
    const TENSORS: u64 = 1100;
    let one = Plan::receiver().start();
    let other = Plan { pod: "ranker-1", uid: "s", ..Plan::receiver() }.start();
    let to = [one.address, other.address];
    let from = Plan { delivery: Delivery::Broadcast, ..Plan::sender(&to) }.start();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut quick = Receiver::open(&one.lanes, 64 << 20).await;
    let _still = Receiver::open(&other.lanes, 64 << 20).await;
    measured(&from, &["sealane_connections{", "sending", "} 2"]).await;

    let settled = || -> usize {
        let run = |event: &SenderEvent| match event {
            SenderEvent::Taken { first, last } => (last.0 - first.0 + 1) as usize,
            _ => 0,
        };
        events.lock().unwrap().iter().map(run).sum()
    };
    let put = async {
        for sequence in 0..TENSORS {
            until("room in the window", || (sequence as usize) < settled() + WINDOW).await;
            lane.offer(parcel(sequence, 1000)).await.unwrap();
        }
    };
    let take = async {
        for _ in 0..TENSORS {
            let turn = tokio::time::timeout(2 * LIMIT, quick.deliveries.next()).await.unwrap();
            let Some(Turn::Tensor(delivery)) = turn else { panic!("{turn:?}") };
            quick.take(&delivery);
        }
    };
    tokio::time::timeout(5 * LIMIT, async { tokio::join!(put, take) })
        .await
        .expect("a client's window is not used up by a receiver that takes nothing");
}

#[tokio::test]
async fn a_receiver_that_takes_nothing_leaves_the_lane_to_the_others() {
    const TENSORS: u64 = 600;
    let one = Plan::receiver().start();
    let other = Plan { pod: "ranker-1", uid: "s", ..Plan::receiver() }.start();
    let from = Plan::sender(&[one.address, other.address]).start();
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut quick = Receiver::open(&one.lanes, 8 << 20).await;
    let mut still = Receiver::open(&other.lanes, 8 << 20).await;
    measured(&from, &["sealane_connections{", "sending", "} 2"]).await;

    let put = async {
        for sequence in 0..TENSORS {
            lane.offer(parcel(sequence, 1000)).await.unwrap();
        }
    };
    // The other one may hold half of the half that two share, and would be given a half of all.
    let take = async {
        for _ in 0..TENSORS - 256 {
            quick.next_taken().await;
        }
    };
    tokio::join!(put, take);
    for _ in 0..256 {
        still.next_taken().await;
    }
    within("the end", lane.close()).await.unwrap();
}

#[tokio::test]
async fn a_close_does_not_wait_for_ever_for_a_receiver_that_is_gone() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    let taken = SenderEvent::Taken { first: Sequence(0), last: Sequence(0) };
    until("it is known as taken", || events.lock().unwrap().contains(&taken)).await;
    within("a flush", lane.flush()).await.unwrap();
    // Its node is lost, and nobody has told this sidecar.
    to.kill();
    let error = within("the close", lane.close()).await.unwrap_err();
    assert_eq!(error.reason, Reason::LinkLost, "nothing is uncertain, but the end is not confirmed: {error}");
    assert_eq!(events.lock().unwrap().last(), Some(&taken));
}
