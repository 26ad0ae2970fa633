use sealane_operator_api::{Stream, TransferSessionStatus};
use sealane_sidecar_api::control::{Configuration, Forward, SessionReport};

use super::{condition, message};
use crate::control::convert::configuration;
use crate::reconcile::fixture::{
    document, forward, pod, policy, rereport, run, session_report, sidecar, snapshot,
};
use crate::spec::Snapshot;

fn told(snapshot: &Snapshot, uid: &str) -> Configuration {
    configuration(run(snapshot.clone()).1.desired(uid).unwrap(), 0)
}

fn status(snapshot: &Snapshot, name: &str) -> TransferSessionStatus {
    let (_, _, statuses) = run(snapshot.clone());
    statuses.sessions.into_iter().find(|(found, _)| found.as_str() == name).unwrap().1
}

/// The ports that embedder pods are told to listen on.
fn listens(snapshot: &Snapshot) -> Vec<u32> {
    let sessions = told(snapshot, "embedder-1-uid").sessions;
    sessions.into_iter().filter_map(|session| Some(session.forward?.listen)).collect()
}

fn with(sessions: Vec<sealane_operator_api::TransferSession>) -> Snapshot {
    Snapshot { sessions, ..snapshot() }
}

#[test]
fn both_sides_learn_the_ports_and_the_ordinals() {
    let mut snapshot = with(vec![forward("triton", 1, 18001, true)]);
    snapshot.pods[1].labels.insert("apps.kubernetes.io/pod-index".to_owned(), "3".to_owned());
    for uid in ["embedder-1-uid", "ranker-2-uid"] {
        let told = told(&snapshot, uid);
        let session = &told.sessions[0];
        assert_eq!(session.forward, Some(Forward { listen: 18001, target: 8001, per_replica: true }));
        assert_eq!((session.delivery.as_str(), session.fanout), ("", 0));
    }
    let told = told(&snapshot, "embedder-1-uid");
    assert_eq!(told.sessions[0].remotes[0].replicas[0].ordinal, Some(3));
    snapshot.pods[1].labels.insert("apps.kubernetes.io/pod-index".to_owned(), "third".to_owned());
    let told = self::told(&snapshot, "embedder-1-uid");
    assert_eq!(told.sessions[0].remotes[0].replicas[0].ordinal, None);
}

#[test]
fn what_a_forward_carried_is_counted_at_one_side() {
    let mut snapshot = with(vec![forward("triton", 1, 18001, false)]);
    for (sidecar, forwarded) in snapshot.sidecars.iter_mut().zip([7, 6]) {
        rereport(sidecar, |report| {
            let name = "triton".to_owned();
            report.sessions = vec![SessionReport {
                name,
                uid: "triton-uid".to_owned(),
                forwarded,
                bytes: 50,
                ..session_report()
            }];
        });
    }
    let found = status(&snapshot, "triton");
    assert_eq!((found.forwarded, found.bytes_transferred), (Some(6), Some(50)));
    snapshot.sessions[0].status = Some(found);
    rereport(&mut snapshot.sidecars[1], |report| report.sessions.clear());
    assert_eq!(status(&snapshot, "triton").forwarded, Some(6), "totals never go back");
    assert_eq!(status(&super::super::fixture::snapshot(), "activations").forwarded, None);
}

#[test]
fn of_two_forwards_on_one_port_the_older_stays() {
    // By age, not by name.
    let snapshot = with(vec![forward("a", 2, 18001, false), forward("b", 1, 18001, false)]);
    assert_eq!(listens(&snapshot), [18001]);
    assert_eq!(told(&snapshot, "embedder-1-uid").sessions[0].name, "b");
    let younger = status(&snapshot, "a");
    assert_eq!(condition(&younger.conditions, "Ready"), "False PortConflict");
    let message = message(&younger.conditions, "Ready");
    assert!(
        message.contains("`embedder`") && message.contains("18001") && message.contains("`b`"),
        "{message}"
    );
    assert_ne!(condition(&status(&snapshot, "b").conditions, "Ready"), "False PortConflict");
    // One that is refused holds nothing against a third.
    let sessions =
        vec![forward("a", 1, 18001, false), forward("b", 2, 18001, false), forward("c", 3, 18002, false)];
    assert_eq!(listens(&with(sessions)), [18001, 18002]);
}

#[test]
fn a_forward_to_each_replica_holds_a_port_for_each() {
    let mut snapshot = with(vec![forward("each", 1, 18000, true), forward("one", 2, 18002, false)]);
    assert_eq!(listens(&snapshot), [18000, 18002], "there is one replica without an ordinal");
    let add = |snapshot: &mut Snapshot, number: u8, ordinal: &str| {
        let mut pod = pod("ranker", number);
        pod.labels.insert("apps.kubernetes.io/pod-index".to_owned(), ordinal.to_owned());
        snapshot.sidecars.push(sidecar(&pod));
        snapshot.pods.push(pod);
    };
    add(&mut snapshot, 3, "1");
    assert_eq!(listens(&snapshot), [18000, 18002]);
    add(&mut snapshot, 4, "2");
    assert_eq!(listens(&snapshot), [18000]);
    assert_eq!(condition(&status(&snapshot, "one").conditions, "Ready"), "False PortConflict");
    snapshot.pods.last_mut().unwrap().leaving = true;
    assert_eq!(listens(&snapshot), [18000, 18002], "its port is free again");
}

#[test]
fn a_replica_that_no_port_leads_to_is_told() {
    let mut snapshot = with(vec![forward("each", 1, 14709, true)]);
    assert_eq!(condition(&status(&snapshot, "each").conditions, "Degraded"), "False AsDeclared");
    snapshot.pods[1].labels.insert("apps.kubernetes.io/pod-index".to_owned(), "1".to_owned());
    assert_eq!(condition(&status(&snapshot, "each").conditions, "Degraded"), "True PortReserved");
}

#[test]
fn the_operator_reads_the_kind_and_the_target_in_the_policy() {
    let permits = |rule: serde_json::Value| {
        let mut snapshot = with(vec![forward("triton", 1, 18001, false)]);
        let document = document(1, |document| document["sessions"] = serde_json::json!([rule]));
        snapshot.policies = vec![policy(&document)];
        condition(&status(&snapshot, "triton").conditions, "PeersAttested")
    };
    let rule = |flow: serde_json::Value| {
        let mut rule = serde_json::json!({"from": "embedder", "to": "ranker"});
        rule.as_object_mut().unwrap().extend(flow.as_object().unwrap().clone());
        rule
    };
    assert_eq!(permits(rule(serde_json::json!({"forward": {"targets": [8001]}}))), "True Attested");
    assert_eq!(
        permits(rule(serde_json::json!({"forward": {"targets": [8002]}}))),
        "False SessionNotInPolicy"
    );
    assert_eq!(permits(rule(serde_json::json!({"stream": {}}))), "False SessionNotInPolicy");
}

#[test]
fn ports_of_another_peer_are_no_conflict() {
    let mut back = forward("back", 2, 18001, false);
    back.spec.from.peer = "ranker".to_owned();
    back.spec.to[0].peer = "embedder".to_owned();
    let snapshot = with(vec![forward("forth", 1, 18001, false), back]);
    assert_eq!(told(&snapshot, "embedder-1-uid").sessions.len(), 2);
}

#[test]
fn a_port_that_is_ours_is_never_told() {
    for listen in [14710, 8006, 50001] {
        let snapshot = with(vec![forward("own", 1, listen, false)]);
        assert!(told(&snapshot, "embedder-1-uid").sessions.is_empty());
        assert_eq!(condition(&status(&snapshot, "own").conditions, "Ready"), "False PortReserved");
    }
    let mut both = with(vec![forward("both", 1, 18001, false)]);
    both.sessions[0].spec.stream = Some(Stream { fanout: 4, ..Stream::default() });
    assert_eq!(condition(&status(&both, "both").conditions, "Ready"), "False SpecInvalid");
}

#[test]
fn null_beside_a_forward_is_no_stream() {
    let mut stored = serde_json::to_value(forward("inference", 1, 18001, false)).unwrap();
    stored["spec"]["stream"] = serde_json::Value::Null;
    let snapshot = with(vec![serde_json::from_value(stored).unwrap()]);
    assert!(told(&snapshot, "embedder-1-uid").sessions[0].forward.is_some());
}
