//! What is refused, and that it is refused with a reason that helps.

use std::time::{Duration, Instant};

use sealane_sidecar::evidence::Platforms;
use sealane_sidecar::handoff::{LaneError, LaneFailure, SenderEvent, Turn};
use sealane_types::Reason;
use serde_json::json;

use crate::client::{Receiver, parcel, passing_on, sender, try_sender};
use crate::support::wall_clock::{LIFETIME, TestClock};
use crate::support::{
    LIMIT, Plan, Sidecar, beginning, document, expiring, pair, signed, tell, until, within,
};

/// Opens a sending lane that the sidecar refuses at once, and tells why.
async fn refusal(from: &Sidecar) -> LaneError {
    try_sender(&from.lanes, 0, tokio::time::Instant::now() + LIMIT).await.unwrap_err()
}

/// Asks until a lane does not open for `reason`. Before the first answer of the other side it only is not there yet, and a
/// side that hears of a change later than the other one may open it until then.
pub(crate) async fn refused_for(from: &Sidecar, reason: Reason) -> LaneError {
    within(reason.as_str(), async {
        loop {
            let soon = tokio::time::Instant::now() + Duration::from_millis(200);
            match try_sender(&from.lanes, 0, soon).await {
                Err(error) if error.reason == reason => return error,
                Ok(_) | Err(_) => {}
            }
        }
    })
    .await
}

#[tokio::test]
async fn policies_without_a_quorum_open_nothing() {
    for (owners, reason) in [
        (&[][..], Reason::PolicyUnsigned),
        (&[1], Reason::PolicyUnderSigned),
        (&[1, 1], Reason::PolicyUnderSigned),
        (&[1, 7], Reason::PolicyUnderSigned),
    ] {
        let receiver = Plan::receiver().start();
        let chain = signed(&document(1), owners);
        let from = Plan { chain, ..Plan::sender(&[receiver.address]) }.start();
        let error = refusal(&from).await;
        assert_eq!((error.failure, error.reason), (LaneFailure::Refused, reason), "{owners:?}: {error}");
        assert_eq!(from.node.policy_epoch(), None);
    }
}

#[tokio::test]
async fn evidence_for_another_peer_is_refused() {
    let receiver = Plan::receiver().start();
    let from = Plan { proves: "ranker", ..Plan::sender(&[receiver.address]) }.start();
    let error = refused_for(&from, Reason::HostDataMismatch).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
}

#[tokio::test]
async fn a_receiver_that_proves_to_be_another_is_refused() {
    let receiver = Plan { proves: "embedder", ..Plan::receiver() }.start();
    let from = Plan::sender(&[receiver.address]).start();
    refused_for(&from, Reason::HostDataMismatch).await;
}

#[tokio::test]
async fn a_session_that_the_policy_does_not_list_is_refused() {
    let mut document = document(1);
    document["sessions"][0]["name"] = json!("gradients");
    let chain = signed(&document, &[1, 2]);
    let receiver = Plan { chain: chain.clone(), ..Plan::receiver() }.start();
    let from = Plan { chain, ..Plan::sender(&[receiver.address]) }.start();
    let error = refusal(&from).await;
    assert_eq!((error.failure, error.reason), (LaneFailure::Refused, Reason::SessionNotInPolicy));
}

#[tokio::test]
async fn a_binary_without_simulation_neither_makes_nor_accepts_it() {
    let receiver = Plan { platforms: Platforms::production(), ..Plan::receiver() }.start();
    let from = Plan::sender(&[receiver.address]).start();
    let error = refused_for(&from, Reason::SimulationNotAllowed).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
}

#[tokio::test]
async fn an_epoch_without_the_peer_ends_its_session_at_once() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    receiver.next_taken().await;
    let mut next = document(2);
    next["peers"].as_object_mut().unwrap().remove("embedder");
    next["sessions"] = json!([]);
    let began = Instant::now();
    // Only the receiving side hears of it from its operator; the sending side from its peer, or by being cut off.
    to.propose(signed(&next, &[1, 2]));
    let turn = receiver.turn().await;
    tell(&format!("from an epoch without the peer to the end of its session: {:?}", began.elapsed()));
    let Turn::Failed(error) = turn else { panic!("{turn:?}") };
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
    until("the sending side learns it", || {
        from.node.policy_epoch() == Some(2)
            || from.node.render_metrics().unwrap().contains(r#"direction="sending"} 0"#)
    })
    .await;
    drop((lane, events));
}

#[tokio::test]
async fn a_newer_policy_reaches_the_peer_over_the_connection() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    to.propose(signed(&document(2), &[1, 2]));
    until("the sender adopts it", || from.node.policy_epoch() == Some(2)).await;
    // What the new epoch still permits goes on as if nothing had happened.
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    within("the end", lane.close()).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_is_behind_catches_up_while_connecting() {
    let receiver = Plan { chain: signed(&document(5), &[1, 2]), ..Plan::receiver() }.start();
    let from = Plan::sender(&[receiver.address]).start();
    let _lane = sender(&from.lanes).await;
    assert_eq!(from.node.policy_epoch(), Some(5));
}

#[tokio::test]
async fn an_older_epoch_and_a_fork_change_nothing_and_everything() {
    let (from, _to) = pair();
    from.propose(signed(&document(4), &[1, 2]));
    from.propose(signed(&document(3), &[1, 2]));
    assert_eq!(from.node.policy_epoch(), Some(4), "an older one is not followed");
    let mut fork = document(4);
    fork["floors"] = json!({"complete": true});
    from.propose(signed(&fork, &[1, 2]));
    assert_eq!(from.node.policy_epoch(), None, "two documents of one epoch: neither is followed");
    let error = refusal(&from).await;
    assert_eq!((error.failure, error.reason), (LaneFailure::Refused, Reason::PolicyConflict));
    from.propose(signed(&document(5), &[1, 2]));
    assert_eq!(from.node.policy_epoch(), Some(5), "a later one settles it");
}

#[tokio::test]
async fn an_expired_policy_closes_its_sessions() {
    let (chain, clock) = (signed(&expiring(1, LIFETIME), &[1, 2]), TestClock::default());
    let plan = |plan: Plan| Plan { chain: chain.clone(), clock: clock.clone(), ..plan };
    let receiver = plan(Plan::receiver()).start();
    let from = plan(Plan::sender(&[receiver.address])).start();
    let (_lane, mut events) = sender(&from.lanes).await;
    clock.advance(LIFETIME);
    let event = within("the end of the policy", events.next()).await.unwrap();
    let SenderEvent::Failed(error) = event else { panic!("{event:?}") };
    assert_eq!((error.failure, error.reason), (LaneFailure::Refused, Reason::PolicyExpired));
    assert_eq!(refusal(&from).await.reason, Reason::PolicyExpired);
}

#[tokio::test]
async fn a_policy_whose_time_comes_opens_its_sessions_by_itself() {
    let receiver = Plan::receiver().start();
    let (chain, clock) = (signed(&beginning(1, LIFETIME), &[1, 2]), TestClock::default());
    let plan = Plan { chain: chain.clone(), clock: clock.clone(), ..Plan::sender(&[receiver.address]) };
    let from = plan.start();
    from.propose(chain);
    refused_for(&from, Reason::PolicyNotYetValid).await;
    clock.advance(LIFETIME);
    until("the policy's time", || from.node.policy_epoch() == Some(1)).await;
}
