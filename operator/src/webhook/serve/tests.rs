use axum::body::{Body, to_bytes};
use axum::http::{Request, header::CONTENT_TYPE};
use clap::Parser;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use super::*;
use crate::config::{Arguments, Config};
use crate::testing::{cluster, list};
use crate::webhook::caches::tests::empty;
use crate::webhook::cluster::Cluster;

/// The webhooks in front of a cluster without Peers.
fn webhooks() -> Arc<Webhooks> {
    let arguments = [
        "sealane-operator",
        "--namespace",
        "sealane-system",
        "--pod-name",
        "o",
        "--sidecar-image",
        "sidecar:1",
    ];
    let config = Arc::new(Config::new(Arguments::parse_from(arguments)).unwrap());
    let (_, authorities) = tokio::sync::watch::channel(Arc::from("PEM"));
    let (client, _) = cluster(|_| list(json!([])));
    Arc::new(Webhooks::new(
        Mutator::new(Cluster::holding(client.clone(), empty()), config, authorities, Arc::default()),
        Validator::new(client),
    ))
}

async fn post_to(webhooks: &Arc<Webhooks>, path: &str, body: impl Into<Body>) -> (StatusCode, Value) {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json").body(body.into()).unwrap();
    let response = router(Arc::clone(webhooks)).oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn review(kind: &str, object: &Value) -> String {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "42", "operation": "CREATE", "namespace": "demo", "name": "", "userInfo": {}, "dryRun": true,
            "kind": {"group": "", "version": "v1", "kind": kind},
            "resource": {"group": "", "version": "v1", "resource": "x"}, "object": object,
        },
    })
    .to_string()
}

#[tokio::test]
async fn reviews_are_answered_under_their_own_uid() {
    let webhooks = webhooks();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"sealane.dev/inject": "true"}},
                     "spec": {"containers": [{"name": "app"}]}});
    let (status, answer) = post_to(&webhooks, "/mutate-pod", review("Pod", &pod)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&answer["response"]["uid"], &answer["response"]["allowed"]), (&json!("42"), &json!(true)));
    assert_eq!(answer["response"]["patchType"], "JSONPatch");

    let peer = json!({"apiVersion": "sealane.dev/v1alpha1", "kind": "Peer", "metadata": {"name": "p"},
                      "spec": {"selector": {}, "trustPolicyRef": {"name": "t"}}});
    let (status, answer) = post_to(&webhooks, "/validate", review("Peer", &peer)).await;
    assert_eq!((status, &answer["response"]["allowed"]), (StatusCode::OK, &json!(false)));
    assert!(answer["response"]["status"]["message"].as_str().unwrap().starts_with("sealane: spec.selector"));
}

#[tokio::test]
async fn nonsense_and_floods_are_turned_away() {
    let webhooks = webhooks();
    for path in ["/mutate-pod", "/validate"] {
        assert!(post_to(&webhooks, path, "{").await.0.is_client_error());
        assert!(post_to(&webhooks, path, "{}").await.0.is_client_error());
        let large = vec![b' '; REVIEW_BYTES_MAX + 1];
        assert_eq!(post_to(&webhooks, path, large).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    }
}

#[tokio::test]
async fn a_flood_of_one_kind_leaves_room_for_the_other() {
    let webhooks = webhooks();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": []}});
    let resource = json!({"apiVersion": "sealane.dev/v1alpha1", "kind": "Peer", "metadata": {}, "spec": {}});
    let asked = [("/mutate-pod", review("Pod", &pod)), ("/validate", review("Peer", &resource))];
    for (full, shares) in [(0, &webhooks.pods), (1, &webhooks.resources)] {
        assert!(shares.available_permits() <= 96, "each may hold a body of 4 MiB");
        let all = shares.acquire_many(u32::try_from(shares.available_permits()).unwrap()).await.unwrap();
        for (index, (path, body)) in asked.iter().enumerate() {
            let (status, _) = post_to(&webhooks, path, body.clone()).await;
            let expected = if index == full { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
            assert_eq!(status, expected, "{path}: a full house answers nobody, so the API server refuses");
        }
        drop(all);
    }
}

#[tokio::test]
async fn a_replica_that_ends_answers_for_as_long_as_it_is_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    let serving = tokio::spawn(serve(listener, webhooks(), stop));
    let mut connection = TcpStream::connect(address).await.unwrap();
    let body = review(
        "Pod",
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": []}}),
    );
    let head =
        "POST /mutate-pod HTTP/1.1\r\nHost: webhook\r\nConnection: close\r\nContent-Type: application/json";
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serving.await.unwrap().unwrap();
}
