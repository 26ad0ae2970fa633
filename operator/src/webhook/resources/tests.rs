use serde_json::{Value, json};

use super::*;
use crate::reconcile::fixture;
use crate::testing::{Asked, cluster, failure, list};

fn object(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession",
           "metadata": {"name": name, "namespace": "demo"}, "spec": spec})
}

fn forward(listen: u16) -> Value {
    json!({"from": {"peer": "embedder"}, "to": [{"peer": "ranker"}],
           "forward": {"listen": listen, "target": 8001}})
}

/// One Peer, and one session that listens on 18001.
fn demo(asked: &Asked) -> (u16, Value) {
    match asked.path.split('?').next().unwrap_or_default() {
        "/apis/sealane.dev/v1alpha1/namespaces/demo/transfersessions" => {
            list(json!([object("first", &forward(18001))]))
        }
        "/apis/sealane.dev/v1alpha1/namespaces/demo/peers" => list(json!([fixture::peer("embedder")])),
        "/api/v1/namespaces/demo/pods" => list(json!([{
            "metadata": {"name": "embedder-0"},
            "spec": {"containers": [{"name": "app", "ports": [{"containerPort": 18009}]}]},
        }])),
        _ => failure(404, "NotFound"),
    }
}

async fn review(
    answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static,
    spec: &Value,
    old: Option<&Value>,
) -> (AdmissionResponse, Vec<String>) {
    let (client, log) = cluster(answer);
    let review: kube::core::admission::AdmissionReview<DynamicObject> = serde_json::from_value(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": if old.is_some() { "UPDATE" } else { "CREATE" }, "namespace": "demo",
            "name": "second", "userInfo": {}, "dryRun": false,
            "kind": {"group": "sealane.dev", "version": "v1alpha1", "kind": "TransferSession"},
            "resource": {"group": "sealane.dev", "version": "v1alpha1", "resource": "transfersessions"},
            "object": object("second", spec), "oldObject": old.map(|old| object("second", old)),
        },
    }))
    .unwrap();
    let request: AdmissionRequest<DynamicObject> = review.try_into().unwrap();
    let response = Validator::new(client).review(&request).await;
    let asked = log.lock().unwrap().iter().map(|asked| asked.path.clone()).collect();
    (response, asked)
}

#[tokio::test]
async fn a_taken_port_is_refused() {
    let (response, asked) = review(demo, &forward(18001), None).await;
    assert!(!response.allowed);
    assert!(response.result.message.contains("TransferSession `first`"), "{}", response.result.message);
    assert!(asked.iter().any(|path| path.contains("labelSelector=app%3Dembedder")), "{asked:?}");
    let (response, _) = review(demo, &forward(18002), None).await;
    assert!(response.allowed && response.warnings.is_none());
}

#[tokio::test]
async fn warnings_reach_the_user() {
    let (response, _) = review(demo, &forward(18009), None).await;
    assert!(response.allowed);
    assert!(response.warnings.unwrap()[0].starts_with("sealane: spec.forward.listen"));
}

#[tokio::test]
async fn who_changes_something_else_is_not_bothered() {
    let mut suspended = forward(18001);
    suspended["suspend"] = json!(true);
    let (response, asked) = review(demo, &suspended, Some(&forward(18001))).await;
    assert!(response.allowed && asked.is_empty());
    let stream = json!({"from": {"peer": "a"}, "to": [{"peer": "b"}], "stream": {}});
    let (response, asked) = review(demo, &stream, None).await;
    assert!(response.allowed && asked.is_empty());
}

#[tokio::test]
async fn when_neighbours_cannot_be_read_the_condition_has_to_do() {
    let (response, _) = review(|_| failure(500, "broken"), &forward(18001), None).await;
    assert!(response.allowed);
    assert!(response.warnings.unwrap()[0].contains("PortConflict"));
}

#[tokio::test]
async fn what_the_object_itself_gets_wrong_needs_no_look_around() {
    let (response, asked) = review(demo, &forward(14710), None).await;
    assert!(!response.allowed && asked.is_empty());
    assert!(response.result.message.contains("spec.forward.listen"), "{}", response.result.message);
}

#[tokio::test]
async fn a_review_looks_at_the_pods_of_so_many_peers_and_says_so() {
    let crowd = |others: usize| {
        let name = |index: usize| format!("replicas-{index}");
        let sessions: Vec<_> = (0..others)
            .map(|index| {
                let forward = json!({"listen": 20_000 + index, "target": 8001, "perReplica": true});
                let to = json!([{"peer": name(index)}]);
                object(&name(index), &json!({"from": {"peer": "embedder"}, "to": to, "forward": forward}))
            })
            .collect();
        let others = (0..others).map(|index| fixture::peer(&name(index)));
        let peers: Vec<_> = ["embedder", "ranker"].map(fixture::peer).into_iter().chain(others).collect();
        move |asked: &Asked| match asked.path.split('?').next().unwrap_or_default() {
            "/apis/sealane.dev/v1alpha1/namespaces/demo/transfersessions" => list(json!(sessions)),
            "/apis/sealane.dev/v1alpha1/namespaces/demo/peers" => list(json!(peers)),
            "/api/v1/namespaces/demo/pods" => list(json!([])),
            _ => failure(404, "NotFound"),
        }
    };
    let all = neighbours::POD_LISTS_MAX;
    for (others, partial) in [(all - 2, false), (3 * all, true)] {
        let (response, asked) = review(crowd(others), &forward(18001), None).await;
        let lists: Vec<_> = asked.iter().filter(|path| path.starts_with("/api/v1/")).collect();
        assert_eq!(lists.len(), all, "{lists:?}");
        for own in ["app%3Dembedder", "app%3Dranker"] {
            assert!(lists.iter().any(|path| path.contains(own)), "{own}: {lists:?}");
        }
        assert!(response.allowed);
        let warned = response.warnings.iter().flatten().any(|warning| warning.contains("PortConflict"));
        assert_eq!(warned, partial, "{others}");
    }
}

/// A review of Peer `twin`, which selects what `embedder` does, in a namespace with one pod of it.
async fn review_peer(labels: Value, old: Option<Value>, pods: bool) -> (AdmissionResponse, Vec<String>) {
    let answer = move |asked: &Asked| match asked.path.split('?').next().unwrap_or_default() {
        "/apis/sealane.dev/v1alpha1/namespaces/demo/peers" => list(json!([fixture::peer("embedder")])),
        "/api/v1/namespaces/demo/pods" if pods => list(json!([{
            "metadata": {"name": "embedder-0", "uid": "u", "labels": {"app": "embedder", "gpu": "yes"}},
            "status": {"phase": "Running"},
        }])),
        "/api/v1/namespaces/demo/pods" => list(json!([])),
        _ => failure(404, "NotFound"),
    };
    let (client, log) = cluster(answer);
    let peer = |labels: &Value| {
        let mut peer = json!(fixture::peer("twin"));
        peer["spec"]["selector"] = json!({"matchLabels": labels});
        peer
    };
    let review: kube::core::admission::AdmissionReview<DynamicObject> = serde_json::from_value(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": if old.is_some() { "UPDATE" } else { "CREATE" }, "namespace": "demo",
            "name": "twin", "userInfo": {}, "dryRun": false,
            "kind": {"group": "sealane.dev", "version": "v1alpha1", "kind": "Peer"},
            "resource": {"group": "sealane.dev", "version": "v1alpha1", "resource": "peers"},
            "object": peer(&labels), "oldObject": old.as_ref().map(peer),
        },
    }))
    .unwrap();
    let response = Validator::new(client).review(&review.try_into().unwrap()).await;
    let asked = log.lock().unwrap().iter().map(|asked| asked.path.clone()).collect();
    (response, asked)
}

#[tokio::test]
async fn a_second_peer_of_the_same_pods_is_refused_where_there_are_pods() {
    for labels in [json!({"app": "embedder"}), json!({"gpu": "yes"})] {
        let (response, _) = review_peer(labels, None, true).await;
        assert!(!response.allowed);
        let message = response.result.message;
        assert!(message.contains("`embedder-0` belongs to Peer `embedder`"), "{message}");
    }
    let (response, _) = review_peer(json!({"app": "embedder"}), None, false).await;
    assert!(response.allowed && response.warnings.unwrap()[0].contains("Peer `embedder` selects the same"));
    let (response, _) = review_peer(json!({"gpu": "yes"}), None, false).await;
    assert!(response.allowed && response.warnings.is_none());
}

#[tokio::test]
async fn who_leaves_the_selector_of_a_peer_as_it_is_is_not_bothered() {
    let labels = json!({"app": "embedder"});
    let (response, asked) = review_peer(labels.clone(), Some(labels.clone()), true).await;
    assert!(response.allowed && asked.is_empty(), "{asked:?}");
    let (response, _) = review_peer(labels, Some(json!({"app": "other"})), true).await;
    assert!(!response.allowed);
}
