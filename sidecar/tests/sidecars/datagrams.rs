//! Sessions over UDP. What every session does is tried over it with `SEALANE_TEST_CARRIER=Udp` for all of these tests; here
//! is what is different.

use std::time::Duration;

use sealane_sidecar::handoff::LaneFailure;
use sealane_types::{Carrier, Reason};
use serde_json::{Value, json};

use crate::client::{Receiver, cross, parcel, passing_on, sender, try_sender};
use crate::support::{Plan, Sidecar, document, signed, within};
use crate::trust::refused_for;

const UDP: Option<Carrier> = Some(Carrier::Udp);

/// Whose policy lists no other carrier: whatever crosses, crosses UDP.
fn pair() -> (Sidecar, Sidecar) {
    let chain = signed(&listing(1, &["Udp"]), &[1, 2]);
    let receiver = Plan { carrier: UDP, chain: chain.clone(), ..Plan::receiver() }.start();
    let sender = Plan { carrier: UDP, chain, ..Plan::sender(&[receiver.address]) }.start();
    (sender, receiver)
}

/// A policy whose owners permit only these carriers.
pub(crate) fn listing(epoch: u64, carriers: &[&str]) -> Value {
    let mut document = document(epoch);
    document["floors"] = json!({"carriers": carriers});
    document
}

#[tokio::test]
async fn tensors_of_every_size_cross_udp() {
    let (from, to) = pair();
    let sizes = [0_u64, 1, 1536, 65_536, 65_537, (1 << 20) + 1, 24 << 20, 3];
    cross(&from, &to, &sizes).await;
}

/// A sidecar that comes back tells old packets that it knows nothing of them: nobody waits for silence.
#[tokio::test]
async fn a_restarted_receiver_is_found_long_before_silence_would_tell() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    within("taken", lane.flush()).await.unwrap();
    drop(receiver);
    let began = std::time::Instant::now();
    let to = to.kill().start();
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(1, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 1);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_carrier_that_the_policy_does_not_list_is_refused_and_no_other_takes_its_place() {
    let chain = signed(&listing(1, &["Tcp"]), &[1, 2]);
    let receiver = Plan { chain: chain.clone(), carrier: UDP, ..Plan::receiver() }.start();
    let from = Plan { chain, carrier: UDP, ..Plan::sender(&[receiver.address]) }.start();
    let error = refused_for(&from, Reason::CarrierRefused).await;
    assert_eq!(error.failure, LaneFailure::Refused, "{error}");
}

/// The side that is dialled looks for itself: who dials may hold an older policy, or be configured as he likes.
#[tokio::test]
async fn who_is_dialled_refuses_a_carrier_that_its_policy_does_not_list() {
    let chain = signed(&listing(2, &["Tcp"]), &[1, 2]);
    let receiver = Plan { chain, carrier: UDP, ..Plan::receiver() }.start();
    let from = Plan { carrier: UDP, ..Plan::sender(&[receiver.address]) }.start();
    refused_for(&from, Reason::CarrierRefused).await;
    let only_udp = signed(&listing(2, &["Udp"]), &[1, 2]);
    let receiver = Plan { chain: only_udp, carrier: UDP, ..Plan::receiver() }.start();
    let from = Plan { carrier: Some(Carrier::Tcp), ..Plan::sender(&[receiver.address]) }.start();
    refused_for(&from, Reason::CarrierRefused).await;
}

#[tokio::test]
async fn a_policy_that_no_longer_lists_the_carrier_ends_its_connections() {
    let (from, to) = pair();
    let (lane, events) = sender(&from.lanes).await;
    let _events = passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);
    to.propose(signed(&listing(2, &["Tcp"]), &[1, 2]));
    within("a refusal", async {
        loop {
            let soon = tokio::time::Instant::now() + Duration::from_millis(200);
            // Until the epoch has come, lanes open.
            match try_sender(&from.lanes, 0, soon).await {
                Err(error) if error.reason == Reason::CarrierRefused => return,
                Ok(_) | Err(_) => {}
            }
        }
    })
    .await;
}
