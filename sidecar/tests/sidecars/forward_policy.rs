//! What the signed policy, and the sidecar itself, permit to be forwarded.

use std::net::Ipv4Addr;

use sealane_sidecar::handoff::LaneFailure;
use sealane_types::Reason;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::forward::{
    connect_to_be_reset, echo, echoing, forwarded, forwarding, free_port, listening, measured, refused,
    reset, server, serving,
};
use crate::support::{LIMIT, Plan, document, signed};

async fn closed(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err()
}

#[tokio::test]
async fn a_port_that_the_policy_does_not_name_is_not_reached() {
    let (permitted, other) = (server(echo).await, server(echo).await);
    let listen = free_port();
    let chain = signed(&forwarding(1, &[permitted]), &[1, 2]);
    // The control plane proposes another port to the serving side.
    let to = Plan { chain: chain.clone(), ..serving(listen, other) }.start();
    let from = Plan { chain, ..listening(&[&to], listen, permitted) }.start();
    measured(&to, &["sealane_handshakes_total", "responder", "SessionNotInPolicy"]).await;
    assert!(closed(listen).await);
    drop(from);
}

#[tokio::test]
async fn a_stream_s_rule_forwards_nothing_and_a_forward_s_rule_streams_nothing() {
    let target = server(echo).await;
    let listen = free_port();
    let mut streams = document(1);
    streams["sessions"][0]["name"] = json!("inference");
    let chain = signed(&streams, &[1, 2]);
    let to = Plan { chain: chain.clone(), ..serving(listen, target) }.start();
    // This side would dial: the serving side does not even have to refuse.
    let from = Plan { chain, ..listening(&[&to], listen, target) }.start();
    measured(&from, &["sealane_connections_desired{", "sending", " 1"]).await;
    assert!(closed(listen).await);
    let mut forwards = forwarding(1, &[target]);
    forwards["sessions"] = json!([{
        "name": "activations", "from": "embedder", "to": "ranker", "forward": {"targets": [target]},
    }]);
    let chain = signed(&forwards, &[1, 2]);
    let to = Plan { chain: chain.clone(), ..Plan::receiver() }.start();
    let from = Plan { chain, ..Plan::sender(&[to.address]) }.start();
    let error = crate::client::try_sender(&from.lanes, 0, Instant::now() + LIMIT).await.unwrap_err();
    assert_eq!((error.failure, error.reason), (LaneFailure::Refused, Reason::SessionNotInPolicy), "{error}");
}

#[tokio::test]
async fn an_epoch_without_the_forward_resets_what_it_carries() {
    for news in ["listening", "serving"] {
        let target = server(echo).await;
        let (from, to, listen) = forwarded(target);
        let mut stream = echoing(listen).await;
        let next = signed(&document(2), &[1, 2]);
        let began = std::time::Instant::now();
        if news == "listening" { &from } else { &to }.propose(next);
        reset(&mut stream).await;
        tracing::info!(micros = began.elapsed().as_micros(), "reset");
        refused(listen).await;
    }
}

#[tokio::test]
async fn an_epoch_without_the_port_resets_what_it_carries() {
    let (target, another) = (server(echo).await, free_port());
    let (_from, to, listen) = forwarded(target);
    let mut stream = echoing(listen).await;
    to.propose(signed(&forwarding(2, &[another]), &[1, 2]));
    reset(&mut stream).await;
    refused(listen).await;
}

#[tokio::test]
async fn ports_of_the_sidecar_itself_are_not_reached() {
    // What it listens on it knows best: none of these is in the list that everyone knows.
    let own = free_port();
    let listen = free_port();
    let plan = serving(listen, own);
    let to = Plan { listen: (plan.listen.ip(), own).into(), ..plan }.start();
    let from = listening(&[&to], listen, own).start();
    connect_to_be_reset(listen).await;
    measured(&to, &["sealane_pipes_refused_total", "PortReserved"]).await;
    drop(from);
    // Nor are they listened on.
    let own = free_port();
    let target = server(echo).await;
    let to = serving(own, target).start();
    let plan = listening(&[&to], own, target);
    let from = Plan { listen: (plan.listen.ip(), own).into(), ..plan }.start();
    measured(&from, &["sealane_connections{", "sending", " 1"]).await;
    assert!(closed(own).await);
}

#[tokio::test]
async fn a_forward_has_no_lanes() {
    let target = server(echo).await;
    let (from, to, listen) = forwarded(target);
    echoing(listen).await;
    let session = || "inference".parse().unwrap();
    let incarnation = crate::client::INCARNATION;
    let base = sealane_sidecar::handoff::Sequence(0);
    let error =
        from.lanes.open_sender(session(), incarnation, base, Instant::now() + LIMIT).await.unwrap_err();
    assert_eq!((error.failure, error.reason), (LaneFailure::Refused, Reason::SessionNotInPolicy), "{error}");
    assert!(error.message.contains(&format!("127.0.0.1:{listen}")), "{error}");
    let arena = crate::client::Arena::new(1 << 20);
    let error = to.lanes.open_receiver(session(), arena, Instant::now() + LIMIT).await.unwrap_err();
    assert_eq!((error.failure, error.reason), (LaneFailure::Refused, Reason::SessionNotInPolicy), "{error}");
}

#[tokio::test]
async fn frames_of_another_kind_end_the_connection() {
    let target = free_port();
    // The policy permits both; the two sides are configured differently.
    let mut both = forwarding(1, &[target]);
    both["sessions"][0]["name"] = json!("inference");
    let chain = signed(&both, &[1, 2]);
    let to = Plan { chain: chain.clone(), ..serving(free_port(), target) }.start();
    let from = Plan { chain: chain.clone(), ..Plan::sender(&[to.address]) };
    let mut desired = from.desired();
    desired.sessions[0].name = "inference".parse().unwrap();
    let from = from.start();
    from.apply(desired);
    let session = "inference".parse().unwrap();
    let base = sealane_sidecar::handoff::Sequence(0);
    let lane =
        from.lanes.open_sender(session, crate::client::INCARNATION, base, Instant::now() + LIMIT).await;
    measured(&to, &["sealane_connections_ended_total", "receiving", "FrameMalformed"]).await;
    drop(lane);
    // And the other way.
    let listen = free_port();
    let to = Plan { chain: chain.clone(), ..Plan::receiver() };
    let mut desired = to.desired();
    desired.sessions[0].name = "inference".parse().unwrap();
    let to = to.start();
    to.apply(desired);
    let from = Plan { chain, ..listening(&[&to], listen, target) }.start();
    connect_to_be_reset(listen).await;
    measured(&to, &["sealane_connections_ended_total", "receiving", "FrameMalformed"]).await;
    drop(from);
}
