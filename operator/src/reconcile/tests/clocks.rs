//! A leader whose wall clock is wrong by minutes: nodes step theirs, and the next leader is on another one.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sealane_types::UnixSeconds;

use super::condition;
use crate::reconcile::fixture::{NOW, document, policy, run, snapshot};
use crate::spec::Snapshot;

const MINUTES: u64 = 300;

/// What the three kinds of objects say, without times.
fn said(snapshot: Snapshot) -> Vec<String> {
    let (_, _, statuses) = run(snapshot);
    let words = |conditions: &[Condition]| -> Vec<String> {
        conditions.iter().map(|one| format!("{}={} {}", one.type_, one.status, one.reason)).collect()
    };
    let peers = statuses.peers.iter().flat_map(|(_, status)| words(&status.conditions));
    let sessions = statuses.sessions.iter().flat_map(|(_, status)| words(&status.conditions));
    let policies = statuses.policies.iter().flat_map(|(_, status)| words(&status.conditions));
    peers.chain(sessions).chain(policies).collect()
}

fn at(now: u64, snapshot: &Snapshot) -> Snapshot {
    Snapshot { now: UnixSeconds(now), ..snapshot.clone() }
}

#[test]
fn statuses_say_the_same_on_clocks_that_differ_by_minutes() {
    let expected = said(snapshot());
    assert!(expected.iter().any(|words| words == "Ready=True AllReady"), "{expected:?}");
    for now in [NOW - MINUTES, NOW + MINUTES] {
        assert_eq!(said(at(now, &snapshot())), expected);
    }
}

#[test]
fn what_sidecars_are_told_does_not_depend_on_the_leader_s_clock() {
    let mut edges = Vec::new();
    for (field, time) in [("notBefore", "2026-11-21T00:00:00Z"), ("expires", "2026-11-21T00:02:00Z")] {
        let mut edge = snapshot();
        edge.policies = vec![policy(&document(1, |document| document[field] = time.into()))];
        edges.push(edge);
    }
    for edge in edges {
        for pod in ["embedder-1-uid", "ranker-2-uid"] {
            let told = |now| format!("{:?}", run(at(now, &edge)).1.desired(pod).unwrap());
            assert_eq!(told(NOW - MINUTES), told(NOW));
            assert_eq!(told(NOW + MINUTES), told(NOW), "sidecars judge by clocks of their own");
        }
    }
}

#[test]
fn a_leader_that_is_behind_looks_again_when_a_policy_begins_by_its_clock() {
    let mut edge = snapshot();
    edge.policies =
        vec![policy(&document(1, |document| document["notBefore"] = "2026-11-21T00:00:00Z".into()))];
    let (_, _, statuses) = run(at(NOW - MINUTES, &edge));
    let conditions = &statuses.policies[0].1.conditions;
    assert_eq!(condition(conditions, "Ready"), "False PolicyNotYetValid");
    assert!(
        statuses.again_in.is_some_and(|wait| wait <= Duration::from_secs(MINUTES)),
        "{:?}",
        statuses.again_in
    );
    let (_, _, statuses) = run(at(NOW, &edge));
    assert_eq!(condition(&statuses.policies[0].1.conditions, "Ready"), "True InForce");
}
