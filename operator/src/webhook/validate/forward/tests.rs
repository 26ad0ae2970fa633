use serde_json::{Value, json};

use super::*;

fn session(name: &str, from: &str, to: &str, forward: Value) -> TransferSession {
    serde_json::from_value(json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession", "metadata": {"name": name},
        "spec": {"from": {"peer": from}, "to": [{"peer": to}], "forward": forward},
    }))
    .unwrap()
}

fn pod(ordinal: Option<u32>, ports: Value) -> Pod {
    let labels = ordinal.map(|ordinal| json!({"apps.kubernetes.io/pod-index": ordinal.to_string()}));
    serde_json::from_value(json!({
        "metadata": {"name": "p", "uid": "u", "labels": labels},
        "spec": {"containers": [{"name": "app", "ports": ports}]},
    }))
    .unwrap()
}

fn ask(asked: &TransferSession, neighbours: &Neighbours) -> Result<Vec<String>, String> {
    let name = asked.metadata.name.as_deref().unwrap();
    check(name, &asked.spec, neighbours).map_err(|invalid| invalid.to_string())
}

fn among(sessions: Vec<TransferSession>, pods: &[(&str, Pod)]) -> Neighbours {
    let mut neighbours = Neighbours { sessions, ..Default::default() };
    for (peer, pod) in pods {
        neighbours.pods.entry((*peer).to_owned()).or_default().push(pod.clone());
    }
    neighbours
}

#[test]
fn a_port_that_another_session_has_is_refused_and_a_free_one_named() {
    let asked = session("second", "client", "triton", json!({"listen": 18001, "target": 8001}));
    let other = |name: &str, from: &str, listen: i32| {
        session(name, from, "other", json!({"listen": listen, "target": 9000}))
    };
    assert_eq!(ask(&asked, &Neighbours::default()), Ok(vec![]));
    let beside = among(vec![other("first", "client", 18001), other("third", "client", 18002)], &[]);
    let words = ask(&asked, &beside).unwrap_err();
    for part in ["spec.forward.listen", "18001", "`first`", "`client`", "for example 18003"] {
        assert!(words.contains(part), "{part} is not in {words}");
    }
    // Itself, and other Peers' pods, are no conflict.
    assert_eq!(ask(&asked, &among(vec![other("second", "client", 18001)], &[])), Ok(vec![]));
    assert_eq!(ask(&asked, &among(vec![other("first", "embedder", 18001)], &[])), Ok(vec![]));
}

#[test]
fn a_forward_to_each_replica_holds_a_port_for_each() {
    let each =
        |name| session(name, "client", "set", json!({"listen": 18000, "target": 1, "perReplica": true}));
    let one = session("one", "client", "triton", json!({"listen": 18002, "target": 8001}));
    let replicas = |highest| among(vec![each("each")], &[("set", pod(Some(highest), json!([])))]);
    assert_eq!(ask(&one, &replicas(1)), Ok(vec![]));
    assert!(ask(&one, &replicas(2)).unwrap_err().contains("port 18002"));
    let beside = among(vec![one], &[("set", pod(Some(2), json!([])))]);
    assert!(ask(&each("each"), &beside).unwrap_err().contains("`one`"));
}

#[test]
fn what_pods_declare_is_worth_a_warning() {
    let asked = session("s", "client", "triton", json!({"listen": 18001, "target": 8001}));
    let client = |port: i32, protocol: &str| {
        ("client", pod(None, json!([{"containerPort": port, "protocol": protocol}])))
    };
    let triton = |port: i32| ("triton", pod(None, json!([{"containerPort": port}])));
    let warnings = |pods: &[(&str, Pod)]| ask(&asked, &among(vec![], pods)).unwrap();
    assert_eq!(warnings(&[client(80, "TCP"), triton(8001)]), Vec::<String>::new());
    assert_eq!(warnings(&[client(18001, "UDP")]), Vec::<String>::new());
    assert!(warnings(&[client(18001, "TCP")])[0].starts_with("spec.forward.listen: container `app`"));
    let words = warnings(&[triton(8000)]);
    assert!(words[0].starts_with("spec.forward.target: ") && words[0].contains("declare 8000"), "{words:?}");
}

#[test]
fn replicas_that_cannot_be_reached_one_by_one_are_worth_a_warning() {
    let asked = |listen: i32| {
        session("s", "client", "set", json!({"listen": listen, "target": 8001, "perReplica": true}))
    };
    let set = |ordinal| among(vec![], &[("set", pod(ordinal, json!([])))]);
    assert_eq!(ask(&asked(18000), &set(Some(1))), Ok(vec![]));
    assert!(ask(&asked(18000), &set(None)).unwrap()[0].contains("StatefulSet"));
    let words = ask(&asked(14709), &set(Some(1))).unwrap();
    assert!(words[0].contains("ordinal 1") && words[0].contains("14710"), "{words:?}");
}
