//! Sidecars that prove themselves to each other once, and connections that live no longer than the policy permits.

use std::time::Duration;

use sealane_sidecar::desired::Desired;
use sealane_types::Reason;
use serde_json::json;

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::path::Path;
use crate::staying::PACE;
use crate::support::{Plan, Sidecar, document, signed, tell, until, within};

/// Of a pair.
const SESSIONS: u64 = 4;

/// Sidecars with so many sessions between them.
fn with_sessions(plan: Plan) -> Plan {
    let mut document = document(1);
    document["sessions"] = json!([{"from": "embedder", "to": "ranker", "stream": {}}]);
    Plan { chain: signed(&document, &[1, 2]), more: &["gradients", "weights", "logits"], ..plan }
}

/// The sum of all series of `name` whose labels have all of `labels` in them.
fn count(sidecar: &Sidecar, name: &str, labels: &[&str]) -> u64 {
    let metrics = sidecar.node.render_metrics().unwrap();
    let series = metrics
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    series
        .filter(|line| labels.iter().all(|label| line.contains(label)))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

/// Verdicts on the other side's evidence: each costs that side a quote.
fn proofs(sidecar: &Sidecar) -> u64 {
    count(sidecar, "sealane_verifications_total", &["accepted"])
}

pub(crate) fn resumed(sidecar: &Sidecar, outcome: &str) -> u64 {
    count(sidecar, "sealane_resumptions_total", &[outcome])
}

fn reattested(sidecar: &Sidecar) -> u64 {
    count(sidecar, "sealane_connections_reattested_total", &[])
}

fn ended(sidecar: &Sidecar, reason: Reason) -> u64 {
    count(sidecar, "sealane_connections_ended_total", &[&format!("\"{reason}\"")])
}

async fn all_connected(from: &Sidecar) {
    let connected = || count(from, "sealane_connections_established_total", &[]);
    until("a connection for each session", || connected() >= SESSIONS).await;
}

#[tokio::test]
async fn the_sessions_of_a_pair_share_one_proof() {
    let to = with_sessions(Plan::receiver()).start();
    let from = with_sessions(Plan::sender(&[to.address])).start();
    all_connected(&from).await;
    for side in [&from, &to] {
        assert_eq!(proofs(side), 1);
        until("resumptions", || resumed(side, "established") == SESSIONS - 1).await;
        assert_eq!(resumed(side, "refused"), 0);
    }
}

#[tokio::test]
async fn connections_of_a_pair_are_attested_again_by_one_quote() {
    let to = with_sessions(Plan::receiver()).start();
    let from = with_sessions(Plan::sender(&[to.address])).start();
    all_connected(&from).await;
    let quotes = |side: &Sidecar| count(side, "sealane_quotes_total", &["made"]);
    let own = |side: &Sidecar| count(side, "sealane_evidence_verified", &[]) == 1;
    until("their own evidence", || own(&from) && own(&to)).await;
    let before = [quotes(&from), quotes(&to)];
    assert!(before.iter().all(|quotes| *quotes <= 2), "one for the pair and one for itself: {before:?}");
    // Only now, so that none is attested again before however long this machine takes to come here.
    for side in [&from, &to] {
        side.apply(Desired { generation: 2, reattest_seconds: 10, ..side.plan.desired() });
    }
    until("all are attested again", || [&from, &to].into_iter().all(|side| reattested(side) >= SESSIONS))
        .await;
    for (side, before) in [&from, &to].into_iter().zip(before) {
        // One, unless this machine is too busy to bring them together. Some may be under way for the next time by now.
        let (quotes, connections) = (quotes(side) - before, reattested(side));
        tell(&format!("{connections} connections were attested again by {quotes} quotes"));
        assert!((1..=connections + SESSIONS).contains(&quotes), "{quotes} {connections}");
    }
    assert_eq!(ended(&from, Reason::EvidenceExpired) + ended(&to, Reason::EvidenceExpired), 0);
}

#[tokio::test]
async fn a_pair_is_attested_again_as_often_as_the_side_that_was_dialled_wants() {
    let to = Plan { reattest_seconds: 10, ..Plan::receiver() }.start();
    let from = Plan { reattest_seconds: 600, ..Plan::sender(&[to.address]) }.start();
    let (_lane, _events) = sender(&from.lanes).await;
    until("both proved themselves again", || [&from, &to].into_iter().all(|side| reattested(side) > 0)).await;
    assert_eq!(ended(&from, Reason::EvidenceExpired) + ended(&to, Reason::EvidenceExpired), 0);
}

#[tokio::test]
async fn links_that_broke_are_mended_without_a_proof() {
    let to = with_sessions(Plan::receiver()).start();
    let path = Path::to(to.address).await;
    let from = with_sessions(Plan { carrier: None, ..Plan::sender(&[path.address]) }).start();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut taking = Receiver::open(&to.lanes, 1 << 20).await;
    all_connected(&from).await;
    for sent in 0..3 {
        let before = resumed(&from, "established");
        path.cut();
        until("the sessions are back", || resumed(&from, "established") >= before + SESSIONS).await;
        lane.offer(parcel(sent, 1_000)).await.unwrap();
        assert_eq!(within("a tensor", taking.next_taken()).await, sent);
    }
    assert_eq!((proofs(&from), proofs(&to)), (1, 1));
}

#[tokio::test]
async fn a_replica_that_restarted_is_met_with_a_full_handshake_at_once() {
    let to = Plan::receiver().start();
    let from = Plan::sender(&[to.address]).start();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    until("tickets", || count(&from, "sealane_tickets", &["held"]) > 0).await;
    let to = to.kill().start();
    let mut taking = Receiver::open(&to.lanes, 1 << 20).await;
    lane.offer(parcel(0, 1_000)).await.unwrap();
    assert_eq!(within("a tensor", taking.next_taken()).await, 0);
    assert_eq!(resumed(&from, "established"), 0, "what it held was worth nothing");
    assert_eq!((proofs(&from), proofs(&to)), (2, 1));
}

#[tokio::test]
async fn connections_end_with_their_life_and_no_tensor_with_them() {
    const LIFE: Duration = Duration::from_secs(10);
    let mut document = document(1);
    document["limits"] = json!({"sessionSeconds": LIFE.as_secs()});
    let chain = signed(&document, &[1, 2]);
    let to = Plan { chain: chain.clone(), ..Plan::receiver() }.start();
    let from = Plan { chain, ..Plan::sender(&[to.address]) }.start();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut taking = Receiver::open(&to.lanes, 1 << 20).await;
    let over = |side: &Sidecar| ended(side, Reason::SessionLifeOver);
    let mut sent = 0;
    let mut pace = tokio::time::interval(PACE);
    within("the end of its life", async {
        while over(&from) == 0 || proofs(&from) < 2 {
            lane.offer(parcel(sent, 1_000)).await.unwrap();
            assert_eq!(taking.next_taken().await, sent, "each once, in order");
            sent += 1;
            pace.tick().await;
        }
    })
    .await;
    // A new life begins with a full handshake, which either side counts in its own time.
    until("the other side's counts", || over(&to) == over(&from) && proofs(&to) == proofs(&from)).await;
    assert_eq!(resumed(&from, "established"), 0);
}

#[tokio::test]
async fn tickets_go_when_the_policy_drops_their_replica() {
    let to = Plan::receiver().start();
    let from = Plan::sender(&[to.address]).start();
    let (_lane, _events) = sender(&from.lanes).await;
    let (held, issued) =
        (|| count(&from, "sealane_tickets", &["held"]), || count(&to, "sealane_tickets", &["issued"]));
    until("tickets", || held() > 0 && issued() > 0).await;
    let mut dropped = document(2);
    dropped["peers"]["ranker"] = json!({"entries": [{"kind": "Key", "publicKeys": ["0a".repeat(32)]}]});
    from.propose(signed(&dropped, &[1, 2]));
    until("its tickets are gone", || held() == 0).await;
    let mut dropped = document(3);
    dropped["peers"]["embedder"] = json!({"entries": [{"kind": "Key", "publicKeys": ["0a".repeat(32)]}]});
    to.propose(signed(&dropped, &[1, 2]));
    until("those that it gave out are gone", || issued() == 0).await;
}
