use serde_json::{Value, json};

use super::*;
use crate::check::Outcome;

const NOW: &str = "2026-11-20T12:00:00Z";

fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "demo"},
        "spec": {"nodeName": "node-1", "containers": [],
                 "initContainers": [{"name": "sealane", "resources": {"limits": {"memory": "1Gi"}}}]},
        "status": {"phase": "Running", "initContainerStatuses": [status]},
    }))
    .unwrap()
}

fn container(state: Value, last: Value) -> Value {
    json!({"name": "sealane", "image": "i", "imageID": "", "ready": true, "started": true, "restartCount": 3,
           "state": state, "lastState": last})
}

fn line(status: Value) -> Line {
    containers(&[&pod(status)], NOW.parse().unwrap()).remove(0)
}

fn ended(reason: &str, at: &str) -> Value {
    json!({"terminated": {"exitCode": 137, "reason": reason, "finishedAt": at}})
}

#[test]
fn each_fault_of_a_container_has_its_line_and_its_remedy() {
    let running = json!({"running": {"startedAt": NOW}});
    let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
    let recent = "2026-11-20T11:30:00Z";
    let cases = [
        (running.clone(), json!({}), Outcome::Good, "1 run"),
        (running.clone(), ended("Error", "2026-11-20T10:00:00Z"), Outcome::Good, "1 run"),
        (running.clone(), ended("Error", recent), Outcome::Warning, "restarted"),
        (running.clone(), ended("OOMKilled", recent), Outcome::Failed, "memory limit"),
        (waiting("CrashLoopBackOff"), ended("OOMKilled", recent), Outcome::Failed, "memory limit"),
        (waiting("CrashLoopBackOff"), ended("Error", recent), Outcome::Failed, "crashes"),
        (waiting("ImagePullBackOff"), json!({}), Outcome::Failed, "image"),
        (waiting("CreateContainerConfigError"), json!({}), Outcome::Failed, "cannot be made"),
    ];
    for (state, last, outcome, detail) in cases {
        let line = line(container(state, last));
        assert_eq!(line.outcome, outcome, "{line:?}");
        assert!(line.detail.contains(detail), "{line:?}");
        assert_eq!(line.remedy.is_some(), outcome != Outcome::Good, "{line:?}");
        assert!(outcome == Outcome::Good || line.detail.contains("demo/p"), "{line:?}");
    }
    let mut starting = container(running, json!({}));
    starting["started"] = json!(false);
    assert_eq!(line(starting).outcome, Outcome::Warning);
}

#[test]
fn the_log_to_read_is_named() {
    let crashed = container(json!({"waiting": {"reason": "CrashLoopBackOff"}}), json!({}));
    assert!(line(crashed).remedy.unwrap().contains("kubectl -n demo logs p -c sealane --previous"));
}

#[test]
fn memory_close_to_the_limit_is_seen_where_it_is_measured() {
    let pod = pod(container(json!({}), json!({})));
    let usage = |memory: &str| {
        let measured = json!({
            "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": "p", "namespace": "demo"},
            "containers": [{"name": "app", "usage": {"memory": "9Gi"}}, {"name": "sealane", "usage": {"memory": memory}}],
        });
        vec![serde_json::from_value::<DynamicObject>(measured).unwrap()]
    };
    assert!(memory(&[&pod], &usage("900000Ki")).is_none());
    assert!(memory(&[&pod], &usage("1000000Ki")).unwrap().detail.contains("demo/p (95 %)"));
    assert!(memory(&[&pod], &[]).is_none());
}

#[test]
fn a_lost_node_under_a_replica_is_found() {
    let pod = pod(container(json!({}), json!({})));
    let node = |name: &str, ready: &str| -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    };
    assert_eq!(
        nodes_line(&[&pod], &[node("node-1", "True"), node("node-2", "False")]).outcome,
        Outcome::Good
    );
    let line = nodes_line(&[&pod], &[node("node-1", "Unknown")]);
    assert_eq!(line.outcome, Outcome::Failed);
    assert!(line.detail.contains("demo/p on node-1"), "{line:?}");
}
