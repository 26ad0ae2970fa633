use serde_json::{Value, json};

use super::*;
use crate::check::Outcome;
use crate::check::judge::tests::healthy;

fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

fn peer(peer: &Peer, facts: &Facts) -> Vec<Line> {
    super::peer(peer, facts, now())
}

fn session(session: &TransferSession) -> Vec<Line> {
    super::session(session, now())
}

fn conditions(ready: (&str, &str), degraded: Option<&str>) -> Value {
    let at = "2026-11-20T00:00:00Z";
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": "said", "lastTransitionTime": at});
    let mut all = vec![condition("Ready", ready.0, ready.1)];
    all.extend(degraded.map(|reason| condition("Degraded", "True", reason)));
    json!(all)
}

fn peer_with(status: Value) -> Peer {
    serde_json::from_value(json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "Peer", "metadata": {"name": "embedder", "namespace": "demo"},
        "spec": {"selector": {"matchLabels": {"app": "embedder"}}, "trustPolicyRef": {"name": "demo"}},
        "status": status,
    }))
    .unwrap()
}

fn session_with(status: Value) -> TransferSession {
    serde_json::from_value(json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession",
        "metadata": {"name": "activations", "namespace": "demo"},
        "spec": {"from": {"peer": "embedder"}, "to": [{"peer": "ranker"}], "stream": {}}, "status": status,
    }))
    .unwrap()
}

#[test]
fn sessions_under_the_kernels_bbr_are_named_together() {
    let under = |word: &str| session_with(json!({"congestion": word, "connections": 1}));
    let over = session_with(json!({"congestion": "bbr", "connections": 0}));
    let stale = json!({"congestion": "bbr", "connections": 1, "staleAfter": "2026-11-20T11:00:00Z"});
    let others = [under("cubic"), under("Bbr"), session_with(json!({})), over, session_with(stale)];
    assert_eq!(paced_by_timers(&others, now()), None);
    let line = paced_by_timers(&[under("Bbr+bbr"), under("cubic")], now()).unwrap();
    assert!(line.outcome == Outcome::Warning && line.detail.ends_with("do: demo/activations"), "{line:?}");
}

fn policy_with(status: Value) -> TrustPolicy {
    serde_json::from_value(json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "TrustPolicy", "metadata": {"name": "demo", "namespace": "demo"},
        "spec": {"roots": {"threshold": 1, "keys": []}, "document": "e30=", "signatures": []}, "status": status,
    }))
    .unwrap()
}

fn remedied(line: &Line, word: &str) {
    assert!(line.detail.contains(word), "{line:?}");
    assert_eq!(line.remedy.as_deref(), Some(remedy(word).as_str()));
}

#[test]
fn every_reason_that_a_peer_states_has_its_remedy() {
    let line =
        |reason| peer(&peer_with(json!({"conditions": conditions(("False", reason), None)})), &healthy());
    for reason in
        ["PolicyExpired", "PodsNotInjected", "NotAttached", "HostDataMismatch", "PeerNotInPolicy", "Conflict"]
    {
        let lines = line(reason);
        assert_eq!(lines[0].outcome, Outcome::Failed);
        remedied(&lines[0], reason);
    }
    let waits = line("NoReplicas").remove(0);
    assert_eq!(waits.outcome, Outcome::Warning);
    assert!(
        waits.remedy.is_some_and(|remedy| !remedy.contains("other side")),
        "it is this side that has none"
    );
    let mut facts = healthy();
    facts.failures = vec![Failure {
        namespace: "demo".to_owned(),
        workload: "statefulset/embedder".to_owned(),
        message: "exceeded quota: q".to_owned(),
    }];
    let refused = peer(&peer_with(json!({"conditions": conditions(("False", "NoReplicas"), None)})), &facts);
    assert_eq!(refused[0].outcome, Outcome::Failed);
    assert!(refused[0].detail.ends_with("pods of statefulset/embedder cannot be made: exceeded quota: q"));
    assert_eq!(peer(&peer_with(json!(null)), &healthy())[0].outcome, Outcome::Failed);
}

#[test]
fn a_clock_that_is_suspect_and_other_degradations_are_warnings() {
    let status = json!({"conditions": conditions(("True", "AllReady"), Some("ClockSuspect")), "ready": 1, "desired": 1});
    let lines = peer(&peer_with(status), &healthy());
    assert_eq!(lines.iter().map(|line| line.outcome).collect::<Vec<_>>(), [Outcome::Good, Outcome::Warning]);
    remedied(&lines[1], "ClockSuspect");
}

#[test]
fn finished_work_is_not_counted_in_replicas() {
    let status = json!({"conditions": conditions(("True", "Finished"), None), "ready": 0, "desired": 0});
    let line = peer(&peer_with(status), &healthy()).remove(0);
    assert_eq!((line.outcome, line.detail.as_str()), (Outcome::Good, "its work is finished"));
}

#[test]
fn a_status_that_nobody_looks_after_is_not_well() {
    let stale = "2026-11-20T11:00:00Z";
    let status = json!({"conditions": conditions(("True", "AllReady"), None), "staleAfter": stale});
    let line = peer(&peer_with(status.clone()), &healthy()).remove(0);
    assert_eq!(line.outcome, Outcome::Failed);
    assert!(line.detail.contains("STALE") && line.detail.contains("1 hour"), "{line:?}");
    assert_eq!(session(&session_with(status.clone()))[0].outcome, Outcome::Failed);
    let mut fresh = status;
    fresh["staleAfter"] = json!("2026-11-20T12:05:00Z");
    assert_eq!(peer(&peer_with(fresh), &healthy())[0].outcome, Outcome::Good);
}

#[test]
fn an_object_of_another_release_is_a_line_of_its_own() {
    let mut facts = healthy();
    facts.strange = vec![Strange {
        namespace: Some("demo".to_owned()),
        what: "transfersession/a".to_owned(),
        message: "cannot be read by this release".to_owned(),
    }];
    let lines = judge(&facts, now());
    let line = lines.iter().find(|line| line.what == "transfersession demo/a").unwrap();
    assert_eq!((line.outcome, line.remedy.as_deref()), (Outcome::Warning, Some(UPDATE)));
}

#[test]
fn replicas_with_reasons_of_their_own_are_named() {
    let replica =
        |pod: &str, reason: &str| json!({"pod": pod, "ready": false, "reason": reason, "message": "m"});
    let status = json!({
        "conditions": conditions(("False", "NotAttached"), None),
        "replicas": [replica("a", "NotAttached"), replica("b", "PolicyUnderSigned"), replica("c", "PolicyUnderSigned")],
    });
    let lines = peer(&peer_with(status), &healthy());
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[1].detail.starts_with("pod b: PolicyUnderSigned"), "{lines:?}");
}

#[test]
fn an_epoch_that_is_not_adopted_everywhere_is_found() {
    let status = json!({
        "conditions": conditions(("True", "AllReady"), None), "policyEpoch": 4,
        "replicas": [{"pod": "a", "ready": true, "policyEpoch": 4}, {"pod": "b", "ready": true, "policyEpoch": 5}],
    });
    let mut facts = healthy();
    facts.policies = Ok(vec![policy_with(json!({"epoch": 5}))]);
    let lines = peer(&peer_with(status.clone()), &facts);
    assert!(lines[1].detail.ends_with("epoch 4 is still in use, epoch 5 is applied: a"), "{lines:?}");
    facts.policies = Ok(vec![policy_with(json!({"epoch": 4}))]);
    assert_eq!(peer(&peer_with(status), &facts).len(), 1);
}

#[test]
fn what_only_time_tells_of_a_policy_is_believed() {
    let with = |reason: &str| {
        let at = "2026-11-20T00:00:00Z";
        policy(&policy_with(json!({"conditions": [{
            "type": "Verified", "status": "False", "reason": reason, "message": "said", "lastTransitionTime": at,
        }]})))
    };
    for reason in ["PolicyRolledBack", "PolicyConflict"] {
        remedied(&with(reason).unwrap(), reason);
    }
    assert_eq!(with("PolicyExpired"), None, "the plugin verifies that itself");
}

#[test]
fn every_reason_that_a_session_states_has_its_remedy() {
    let line = |reason: &str, phase: &str| {
        let status = json!({"conditions": conditions(("False", reason), None), "phase": phase});
        session(&session_with(status)).remove(0)
    };
    for reason in ["PortConflict", "Unreachable", "SessionNotInPolicy", "PolicyMismatch", "LimitExceeded"] {
        let line = line(reason, "Pending");
        assert_eq!(line.outcome, Outcome::Failed);
        remedied(&line, reason);
    }
    assert_eq!(line("NoReplicas", "Pending").outcome, Outcome::Warning);
    assert_eq!(line("SessionSuspended", "Suspended").outcome, Outcome::Warning);
    assert_eq!(line("Connecting", "Connecting").outcome, Outcome::Warning);
    let stalled =
        json!({"conditions": conditions(("True", "Connected"), Some("Stalled")), "phase": "Active"});
    remedied(&session(&session_with(stalled))[1], "Stalled");
    assert_eq!(session(&session_with(json!(null)))[0].outcome, Outcome::Failed);
}
