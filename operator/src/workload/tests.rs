use serde_json::{Value, json};

use super::*;

fn job(spec: Value, status: Value) -> WorkloadView {
    let mut job = json!({
        "metadata": {"name": "send", "uid": "job-uid", "creationTimestamp": "2026-11-20T00:00:00Z"},
        "spec": {"template": {"metadata": {"labels": {"app": "embedder"}}, "spec": {"containers": []}}},
        "status": status,
    });
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    WorkloadView::of_job(&serde_json::from_value(job).unwrap()).unwrap()
}

fn running(view: &WorkloadView) -> Completions {
    match &view.state {
        WorkloadState::Running(completions) => *completions,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_left_of_a_job_is_what_has_not_succeeded() {
    let plain = running(&job(json!({"completions": 5, "parallelism": 2}), json!({"succeeded": 2})));
    assert_eq!((plain.left(0), plain.left(4), plain.left(9)), (3, 1, 0));
    assert!(!plain.are_complete(4) && plain.are_complete(5));
    // A work queue: one that succeeds says that there is no more work.
    let queue = running(&job(json!({"parallelism": 3}), json!({})));
    assert_eq!((queue.left(0), queue.left(1)), (3, 0));
    // Indexes that are given up come no more, and a Job with some never succeeds.
    let indexed = json!({"completions": 10, "completionMode": "Indexed", "backoffLimitPerIndex": 1});
    let indexed = running(&job(indexed, json!({"succeeded": 4, "failedIndexes": "1,3-5"})));
    assert_eq!(indexed.left(0), 2);
    assert!(!indexed.are_complete(6));
}

#[test]
fn a_job_that_is_decided_makes_no_more_pods_and_one_that_ended_says_how() {
    let with = |type_: &str| {
        let condition =
            json!({"type": type_, "status": "True", "reason": "BackoffLimitExceeded", "message": "m"});
        job(json!({"completions": 3}), json!({"conditions": [condition]}))
    };
    for decided in ["SuccessCriteriaMet", "FailureTarget"] {
        let completions = running(&with(decided));
        assert!(completions.left(0) == 0 && !completions.are_complete(0), "{decided}");
    }
    assert_eq!(with("Complete").state, WorkloadState::Succeeded);
    assert_eq!(with("Failed").state, WorkloadState::Failed("BackoffLimitExceeded: m".to_owned()));
    // A suspended one is to go on some day.
    assert_eq!(running(&with("Suspended")).left(0), 3);
}

#[test]
fn every_kind_says_how_many_pods_it_is_for() {
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": []}});
    let object = |spec: Value, status: Value| {
        let owner =
            json!({"apiVersion": "v1", "kind": "Rollout", "name": "r", "uid": "o", "controller": true});
        json!({"metadata": {"name": "n", "uid": "u", "ownerReferences": [owner]}, "spec": spec, "status": status})
    };
    let selector = json!({"matchLabels": {"app": "x"}});
    let spec = json!({"replicas": 3, "selector": selector, "serviceName": "s", "template": template});
    let none = json!({"selector": selector, "serviceName": "s", "template": template});
    let zero = json!({"replicas": 0, "selector": selector, "serviceName": "s", "template": template});
    for (spec, pods) in [(&spec, 3), (&none, 1), (&zero, 0)] {
        let object = object(spec.clone(), json!({}));
        let views = [
            WorkloadView::of_deployment(&serde_json::from_value(object.clone()).unwrap()).unwrap(),
            WorkloadView::of_replica_set(&serde_json::from_value(object.clone()).unwrap()).unwrap(),
            WorkloadView::of_stateful_set(&serde_json::from_value(object).unwrap()).unwrap(),
        ];
        for view in views {
            assert_eq!(view.state, WorkloadState::Serving { pods }, "{}", view.kind);
            assert_eq!(view.labels["app"], "x");
            assert_eq!(view.owner.unwrap().kind, "Rollout");
        }
    }
    let status = json!({"desiredNumberScheduled": 4, "currentNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 0});
    let daemons = object(none, status);
    let view = WorkloadView::of_daemon_set(&serde_json::from_value(daemons).unwrap()).unwrap();
    assert_eq!(view.state, WorkloadState::Serving { pods: 4 });
}

#[test]
fn what_is_being_deleted_makes_no_pods() {
    let job = json!({
        "metadata": {"name": "send", "uid": "job-uid", "deletionTimestamp": "2026-11-20T00:00:00Z"},
        "spec": {"completions": 3, "template": {}},
    });
    assert_eq!(WorkloadView::of_job(&serde_json::from_value(job).unwrap()), None);
}

#[test]
fn only_a_controller_owns() {
    let owned = |controller: Value| {
        let owner =
            json!({"apiVersion": "v1", "kind": "Job", "name": "j", "uid": "o", "controller": controller});
        let metadata = serde_json::from_value(json!({"ownerReferences": [owner]})).unwrap();
        Owner::of(&metadata).is_some_and(|owner| owner.is_known())
    };
    assert!(owned(json!(true)) && !owned(json!(false)) && !owned(Value::Null));
}

#[test]
fn indexes_are_counted() {
    for (text, count) in [("", 0), ("0", 1), ("1,3-5,7", 5), ("0-9", 10), ("5-3", 0), ("x,2", 1)] {
        assert_eq!(count_indexes(text), count, "{text}");
    }
}
