//! What a verified policy permits.

use sealane_policy::{Flow, VerifiedPolicy, verify};
use sealane_types::{ForwardPort, Reason};
use serde_json::{Value, json};

use crate::support::*;

/// The usual document with another Peer and these sessions.
fn policy(sessions: Value) -> VerifiedPolicy {
    let mut document = document(1);
    document["peers"]["auditor"] = json!({"entries": [snp(3)]});
    document["sessions"] = sessions;
    verify(&chain(&document, &[1, 2]), &roots(), now(), None).unwrap()
}

fn asked(policy: &VerifiedPolicy, session: &str, from: &str, to: &str, flow: Flow) -> Result<(), Reason> {
    let outcome =
        policy.permits(&session.parse().unwrap(), &from.parse().unwrap(), &to.parse().unwrap(), flow);
    outcome.map_err(|error| error.reason())
}

const LISTENING: Flow = Flow::Forward { target: None };

fn to_port(port: u32) -> Flow {
    Flow::Forward { target: Some(ForwardPort::new(port).unwrap()) }
}

#[test]
fn only_declared_flows_are_permitted() {
    let verified = policy(json!([
        {"name": "activations", "from": "embedder", "to": "ranker", "stream": {}},
        {"from": "ranker", "to": ["auditor"], "stream": {}},
    ]));
    let permits = |session, from, to| asked(&verified, session, from, to, Flow::Stream);
    assert_eq!(permits("activations", "embedder", "ranker"), Ok(()));
    assert_eq!(permits("other", "embedder", "ranker"), Err(Reason::SessionNotInPolicy));
    assert_eq!(permits("activations", "ranker", "embedder"), Err(Reason::SessionNotInPolicy));
    assert_eq!(permits("activations", "embedder", "auditor"), Err(Reason::SessionNotInPolicy));
    assert_eq!(permits("anything", "ranker", "auditor"), Ok(()));
    assert_eq!(permits("activations", "stranger", "ranker"), Err(Reason::PeerNotInPolicy));
    assert_eq!(permits("activations", "embedder", "stranger"), Err(Reason::PeerNotInPolicy));
    assert!(verified.peer(&"embedder".parse().unwrap()).is_ok());
}

#[test]
fn a_forward_reaches_the_ports_that_are_named() {
    let verified = policy(json!([
        {"name": "grpc", "from": "embedder", "to": "ranker", "forward": {"targets": [8001, 8002]}},
    ]));
    let permits = |flow| asked(&verified, "grpc", "embedder", "ranker", flow);
    assert_eq!(permits(LISTENING), Ok(()), "whoever listens does not decide what is reached");
    assert_eq!(permits(to_port(8001)), Ok(()));
    assert_eq!(permits(to_port(8002)), Ok(()));
    for other in [1, 8000, 8003, 65_535] {
        assert_eq!(permits(to_port(other)), Err(Reason::SessionNotInPolicy), "{other}");
    }
    // Nor does the rule hold for another session or the other way round.
    for flow in [LISTENING, to_port(8001)] {
        assert_eq!(asked(&verified, "http", "embedder", "ranker", flow), Err(Reason::SessionNotInPolicy));
        assert_eq!(asked(&verified, "grpc", "ranker", "embedder", flow), Err(Reason::SessionNotInPolicy));
        assert_eq!(asked(&verified, "grpc", "embedder", "auditor", flow), Err(Reason::SessionNotInPolicy));
        assert_eq!(asked(&verified, "grpc", "embedder", "stranger", flow), Err(Reason::PeerNotInPolicy));
    }
}

#[test]
fn a_stream_is_no_forward_and_a_forward_no_stream() {
    let stream = json!({"name": "a", "from": "embedder", "to": "ranker", "stream": {}});
    let forward = json!({"name": "a", "from": "embedder", "to": "ranker", "forward": {"targets": [8001]}});
    let streams = policy(json!([stream]));
    let permits = |policy, flow| asked(policy, "a", "embedder", "ranker", flow);
    assert_eq!(permits(&streams, Flow::Stream), Ok(()));
    assert_eq!(permits(&streams, LISTENING), Err(Reason::SessionNotInPolicy));
    assert_eq!(permits(&streams, to_port(8001)), Err(Reason::SessionNotInPolicy));
    let forwards = policy(json!([forward]));
    assert_eq!(permits(&forwards, Flow::Stream), Err(Reason::SessionNotInPolicy));
    let both = policy(json!([stream, forward]));
    for flow in [Flow::Stream, LISTENING, to_port(8001)] {
        assert_eq!(permits(&both, flow), Ok(()));
    }
}

#[test]
fn ports_of_two_rules_do_not_mix() {
    let verified = policy(json!([
        {"name": "a", "from": "embedder", "to": "ranker", "forward": {"targets": [8001]}},
        {"name": "b", "from": "embedder", "to": "ranker", "forward": {"targets": [8002]}},
    ]));
    assert_eq!(asked(&verified, "a", "embedder", "ranker", to_port(8001)), Ok(()));
    assert_eq!(asked(&verified, "a", "embedder", "ranker", to_port(8002)), Err(Reason::SessionNotInPolicy));
    assert_eq!(asked(&verified, "b", "embedder", "ranker", to_port(8001)), Err(Reason::SessionNotInPolicy));
}

#[test]
fn a_refusal_says_what_was_refused() {
    let verified = policy(json!([]));
    for (flow, said) in [
        (Flow::Stream, "that carries a stream of tensors"),
        (LISTENING, "that carries forwarded TCP connections"),
        (to_port(8001), "that carries TCP connections to port 8001"),
    ] {
        let (session, from, to) =
            ("a".parse().unwrap(), "embedder".parse().unwrap(), "ranker".parse().unwrap());
        let refusal = verified.permits(&session, &from, &to, flow).unwrap_err().to_string();
        assert!(refusal.contains("`a` from `embedder` to `ranker`") && refusal.ends_with(said), "{refusal}");
    }
}
