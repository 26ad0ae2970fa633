use clap::Parser;
use serde_json::{Value, json};

use super::*;
use crate::config::Arguments;
use crate::reconcile::fixture;
use crate::testing::{Asked, cluster, failure, list};
use crate::webhook::caches::tests::{empty, holding};

fn config() -> Arc<Config> {
    let arguments = [
        "sealane-operator",
        "--namespace",
        "sealane-system",
        "--pod-name",
        "o",
        "--sidecar-image",
        "sidecar:1",
    ];
    Arc::new(Config::new(Arguments::parse_from(arguments)).unwrap())
}

/// A namespace with Peer `embedder` and, if so, TrustPolicy `demo`.
fn demo(policy: bool) -> impl Fn(&Asked) -> (u16, Value) {
    move |asked| match asked.path.split('?').next().unwrap_or_default() {
        "/apis/sealane.dev/v1alpha1/namespaces/demo/peers" => list(json!([fixture::peer("embedder")])),
        "/apis/sealane.dev/v1alpha1/namespaces/demo/trustpolicies/demo" if policy => {
            (200, json!(fixture::policy(&fixture::document(1, |_| ()))))
        }
        _ => failure(404, "NotFound"),
    }
}

async fn review(
    answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static,
    labels: Value,
) -> AdmissionResponse {
    review_of(answer, &labels, false).await.0
}

/// The answer, and what was asked of the cluster.
async fn review_of(
    answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static,
    labels: &Value,
    host_network: bool,
) -> (AdmissionResponse, Vec<String>) {
    answered(answer, &review_request(labels, host_network)).await
}

async fn answered(
    answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static,
    request: &AdmissionRequest<Pod>,
) -> (AdmissionResponse, Vec<String>) {
    let (client, log) = cluster(answer);
    let (bundle, authorities) = watch::channel(Arc::from("PEM"));
    let mutator = Mutator::new(Cluster::holding(client, empty()), config(), authorities, Arc::default());
    let response = mutator.review(request).await;
    drop(bundle);
    let asked = log.lock().unwrap().iter().map(|asked| asked.path.clone()).collect();
    (response, asked)
}

fn review_request(labels: &Value, host_network: bool) -> AdmissionRequest<Pod> {
    let review: kube::core::admission::AdmissionReview<Pod> = serde_json::from_value(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "operation": "CREATE", "namespace": "demo", "name": "", "userInfo": {}, "dryRun": false,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels},
                       "spec": {"hostNetwork": host_network, "containers": [{"name": "app"}]}},
        },
    }))
    .unwrap();
    review.try_into().unwrap()
}

fn patch(response: &AdmissionResponse) -> String {
    String::from_utf8(response.patch.clone().unwrap_or_default()).unwrap()
}

#[tokio::test]
async fn a_pod_of_a_peer_gets_the_roots_of_its_policy() {
    let response = review(demo(true), json!({"app": "embedder"})).await;
    assert!(response.allowed);
    let added = patch(&response);
    assert!(added.contains("SEALANE_ROOTS") && added.contains("minimumEpoch"), "{added}");
    // Before there is a policy the sidecar starts without roots and pins the first it is sent.
    let response = review(demo(false), json!({"app": "embedder"})).await;
    assert!(response.allowed && !patch(&response).contains("SEALANE_ROOTS"));
}

#[tokio::test]
async fn a_pod_of_a_peer_with_a_key_gets_its_secret() {
    let peers = |provider: &'static str| {
        let mut peer = json!(fixture::peer("embedder"));
        peer["spec"]["attestation"] = json!({"provider": provider, "keySecretRef": {"name": "embedder-key"}});
        let external = json!({"addresses": ["203.0.113.7:14710"], "publicKey": "0a".repeat(32)});
        let mut laptop = json!(fixture::peer("laptop"));
        laptop["spec"] = json!({"external": external, "trustPolicyRef": {"name": "demo"}});
        move |asked: &Asked| match asked.path.contains("/peers") {
            true => list(json!([peer, laptop])),
            false => failure(404, "NotFound"),
        }
    };
    let response = review(peers("Key"), json!({"app": "embedder"})).await;
    let added = patch(&response);
    assert!(
        added.contains(r#""secretName":"embedder-key""#) && added.contains("SEALANE_KEY_FILE"),
        "{added}"
    );
    let added = patch(&review(peers("Auto"), json!({"app": "embedder"})).await);
    assert!(added.contains("SEALANE_CONTROL_CA") && !added.contains("embedder-key"), "{added}");
    // A Peer outside of the cluster selects no pod, and keeps none from being admitted.
    let response = review(peers("Key"), json!({"app": "laptop"})).await;
    assert!(response.allowed && response.patch.is_none());
}

/// [`demo`] in a namespace with this LimitRange and this ResourceQuota.
fn bounded(range: Value, quota: Value) -> impl Fn(&Asked) -> (u16, Value) {
    move |asked| match asked.path.split('?').next().unwrap_or_default() {
        "/api/v1/namespaces/demo/limitranges" => list(json!([{"metadata": {"name": "r"}, "spec": range}])),
        "/api/v1/namespaces/demo/resourcequotas" => list(json!([{"metadata": {"name": "q"}, "spec": quota}])),
        _ => demo(true)(asked),
    }
}

#[tokio::test]
async fn a_sidecar_fits_into_its_namespace_or_says_what_does_not() {
    let range = json!({"limits": [{"type": "Container", "max": {"cpu": "200m"}}]});
    let quota = json!({"hard": {"limits.cpu": "4"}});
    let cluster = || bounded(range.clone(), quota.clone());
    let mut request = review_request(&json!({"app": "embedder"}), false);
    let (response, _) = answered(cluster(), &request).await;
    assert!(response.allowed && patch(&response).contains(r#""limits":{"cpu":"200m""#), "{response:?}");
    let warnings = response.warnings.unwrap();
    assert!(warnings[0].starts_with("sealane: ") && warnings[0].contains("CpuThrottled"), "{warnings:?}");

    let annotation = ("sealane.dev/cpu-limit".to_owned(), "1".to_owned());
    request.object.as_mut().unwrap().metadata.annotations = Some([annotation].into());
    let (response, _) = answered(cluster(), &request).await;
    assert!(!response.allowed && response.patch.is_none());
    assert!(response.result.message.contains("sealane.dev/cpu-limit"), "{}", response.result.message);
}

#[tokio::test]
async fn a_pod_that_cannot_look_up_the_operator_is_given_its_address() {
    let with_service = |asked: &Asked| match asked.path.split('?').next().unwrap_or_default() {
        "/api/v1/namespaces/sealane-system/services/sealane-control" => (
            200,
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sealane-control"},
                   "spec": {"clusterIP": "10.96.0.7"}}),
        ),
        "/apis/sealane.dev/v1alpha1/namespaces/demo/transfersessions" => list(json!([])),
        _ => demo(true)(asked),
    };
    let (response, _) = review_of(with_service, &json!({"app": "embedder"}), true).await;
    assert!(response.allowed && patch(&response).contains("https://10.96.0.7:14712"));
    let warnings = response.warnings.unwrap();
    assert!(warnings[0].contains("10.96.0.7") && warnings[0].contains("ClusterFirstWithHostNet"));
    // Nobody else needs to know.
    let (response, asked) = review_of(with_service, &json!({"app": "embedder"}), false).await;
    assert!(response.warnings.is_none() && !asked.iter().any(|path| path.contains("/services/")));
}

#[tokio::test]
async fn a_pod_that_is_made_before_its_peer_is_warned_of() {
    let asks = json!({"app": "other", "sealane.dev/inject": "true"});
    let response = review(demo(true), asks).await;
    assert!(response.allowed && patch(&response).contains("SEALANE_CONTROL_CA"));
    assert!(response.warnings.unwrap()[0].contains("make the pod again once its Peer is there"));
    assert_eq!(review(demo(true), json!({"app": "embedder"})).await.warnings, None);
}

#[test]
fn ports_for_metrics_are_spread_and_below_those_that_kernels_give_away() {
    let ports: std::collections::BTreeSet<u16> =
        (0..100).map(|review| admin_port(&format!("6f1c8c0e-9d5e-4a51-8d6f-{review:012}"))).collect();
    assert!(ports.len() > 90 && ports.iter().all(|port| (20_000..30_000).contains(port)), "{ports:?}");
}

#[tokio::test]
async fn bounds_that_cannot_be_read_keep_nobody_out() {
    let forbidden = |asked: &Asked| match asked.path.as_str() {
        path if path.contains("limitranges") || path.contains("resourcequotas") => failure(403, "Forbidden"),
        _ => demo(true)(asked),
    };
    let response = review(forbidden, json!({"app": "embedder"})).await;
    assert!(response.allowed && patch(&response).contains("SEALANE_CONTROL_CA"));
    assert_eq!(response.warnings, None);
}

#[tokio::test]
async fn other_pods_are_left_alone() {
    let response = review(demo(true), json!({"app": "other"})).await;
    assert!(response.allowed && response.patch.is_none());
}

#[tokio::test]
async fn when_the_cluster_cannot_be_asked_the_pod_is_refused() {
    for code in [403, 500] {
        let response = review(move |_| failure(code, "broken"), json!({"app": "embedder"})).await;
        assert!(!response.allowed && response.patch.is_none());
        assert!(response.result.message.contains("try again"), "{}", response.result.message);
    }
}

#[tokio::test]
async fn more_peers_than_can_be_looked_at_admit_nobody() {
    let response = review(
        |_| (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": "more"}, "items": []})),
        json!({}),
    )
    .await;
    assert!(!response.allowed);
}

#[tokio::test]
async fn a_peer_that_cannot_be_read_keeps_its_own_pods_out_and_no_others() {
    type Change = fn(&mut Value);
    let peer = |change: Change| {
        let mut peer = json!(fixture::peer("ranker"));
        change(&mut peer);
        move |asked: &Asked| match asked.path.contains("/peers") {
            true => list(json!([fixture::peer("embedder"), peer])),
            false => failure(404, "NotFound"),
        }
    };
    // What it selects can be read, or enough of it.
    let selecting: [(Change, &str); 4] = [
        (|peer| peer["spec"]["attestation"] = json!({"provider": "Quantum"}), "Quantum"),
        (|peer| peer["spec"]["trustPolicyRef"] = json!(7), "invalid type"),
        (|peer| peer["metadata"]["name"] = json!("Ranker"), "metadata.name"),
        (
            |peer| {
                peer["spec"]["selector"]["matchExpressions"] = json!([{"key": "tier", "operator": "Like"}])
            },
            "spec.selector",
        ),
    ];
    for (change, words) in selecting {
        let response = review(peer(change), json!({"app": "ranker", "tier": "x"})).await;
        assert!(!response.allowed && response.patch.is_none(), "{words}");
        let message = response.result.message;
        assert!(message.contains(words) && message.contains("Correct or delete that Peer"), "{message}");
        assert!(message.to_lowercase().contains("peer `ranker`"), "{message}");
        let response = review(peer(change), json!({"app": "ranker", "sealane.dev/inject": "false"})).await;
        assert!(response.allowed && response.patch.is_none());
    }
    // Nothing can be read, or nothing that any pod could meet: it names no pod.
    let nameless: [(Change, &str); 4] = [
        (|peer| peer["spec"] = json!({"selector": 7}), "a number"),
        (|peer| peer["spec"]["selector"] = json!({}), "all of them"),
        (|peer| peer["spec"]["selector"] = Value::Null, "nothing"),
        (|peer| peer["spec"]["selector"] = json!({"matchLabels": {"a b": "c"}}), "a label that is none"),
    ];
    for (change, words) in selecting.into_iter().chain(nameless) {
        let response = review(peer(change), json!({"app": "embedder"})).await;
        assert!(response.allowed && response.patch.is_some(), "{words}: {}", response.result.message);
        let response = review(peer(change), json!({})).await;
        assert!(response.allowed && response.patch.is_none(), "{words}: {}", response.result.message);
    }
}

/// [`demo`] with a session from `embedder` by `carrier`, in a namespace that enforces `level` unless it is empty.
fn carried(carrier: &str, level: &'static str) -> impl Fn(&Asked) -> (u16, Value) {
    let mut session = json!(fixture::session());
    session["spec"]["carrier"] = json!(carrier);
    move |asked| match asked.path.split('?').next().unwrap_or_default() {
        "/apis/sealane.dev/v1alpha1/namespaces/demo/transfersessions" => list(json!([session])),
        "/api/v1/namespaces/demo" => {
            let labels = if level.is_empty() {
                json!({})
            } else {
                json!({"pod-security.kubernetes.io/enforce": level})
            };
            (
                200,
                json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                         "metadata": {"name": "demo", "labels": labels}}),
            )
        }
        _ => demo(true)(asked),
    }
}

#[tokio::test]
async fn a_pod_on_the_hosts_network_gets_what_af_xdp_takes() {
    for level in ["", "privileged"] {
        let (response, _) = review_of(carried("AfXdp", level), &json!({"app": "embedder"}), true).await;
        let added = patch(&response);
        assert!(added.contains("SEALANE_AF_XDP") && added.contains("NET_ADMIN"), "{level}: {added}");
    }
}

#[tokio::test]
async fn no_other_pod_gets_a_capability() {
    let cases = [("AfXdp", false), ("Udp", true), ("Tcp", true), ("Auto", true)];
    for (carrier, host_network) in cases {
        let (response, asked) =
            review_of(carried(carrier, "restricted"), &json!({"app": "embedder"}), host_network).await;
        let added = patch(&response);
        assert!(added.contains("SEALANE_CONTROL_CA"), "{carrier}: {added}");
        for word in ["AF_XDP", "NET_ADMIN", "BPF"] {
            assert!(!added.contains(word), "{carrier}: {added}");
        }
        let namespace = |path: &String| path.split('?').next() == Some("/api/v1/namespaces/demo");
        assert!(!asked.iter().any(namespace), "{asked:?}");
        assert_eq!(asked.iter().any(|path| path.contains("transfersessions")), host_network, "{asked:?}");
    }
    // One that asks for the sidecar and is no Peer's.
    let asking = json!({"sealane.dev/inject": "true"});
    let (response, _) = review_of(carried("AfXdp", ""), &asking, true).await;
    assert!(response.allowed && !patch(&response).contains("AF_XDP"));
}

#[tokio::test]
async fn a_namespace_that_forbids_capabilities_is_named_in_a_refusal() {
    for level in ["baseline", "restricted"] {
        let (response, _) = review_of(carried("AfXdp", level), &json!({"app": "embedder"}), true).await;
        assert!(!response.allowed && response.patch.is_none());
        let message = response.result.message;
        for part in ["TransferSession `activations`", "namespace `demo`", level, "to Udp"] {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[tokio::test]
async fn a_session_that_cannot_be_read_gives_no_capability_and_keeps_nobody_out() {
    let unreadable = |asked: &Asked| match asked.path.contains("/transfersessions") {
        true => list(json!([{"apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession",
                             "metadata": {"name": "newer"}, "spec": {"carrier": "WebSocket"}}])),
        false => demo(true)(asked),
    };
    let (response, _) = review_of(unreadable, &json!({"app": "embedder"}), true).await;
    assert!(response.allowed && !patch(&response).contains("AF_XDP"));
    // One that cannot be asked for is another matter.
    let (response, _) = review_of(demo(true), &json!({"app": "embedder"}), true).await;
    assert!(!response.allowed && response.result.message.contains("try again"));
}

/// What a review of a pod of `embedder` asks, if caches hold the Peer and its policy in version `cached` and the API server
/// has `current`.
async fn asked_with_caches(cached: &str, current: &'static str) -> (AdmissionResponse, Vec<String>) {
    let at = |version: &str, mut object: Value| {
        object["metadata"]["resourceVersion"] = json!(version);
        object
    };
    let peer = move |version: &str| at(version, json!(fixture::peer("embedder")));
    let policy = move |version: &str| at(version, json!(fixture::policy(&fixture::document(1, |_| ()))));
    let (client, log) = cluster(move |asked| match asked.path.split('?').next().unwrap_or_default() {
        "/apis/sealane.dev/v1alpha1/namespaces/demo/peers" => list(json!([peer(current)])),
        "/apis/sealane.dev/v1alpha1/namespaces/demo/peers/embedder" => (200, peer(current)),
        "/apis/sealane.dev/v1alpha1/namespaces/demo/trustpolicies/demo" => (200, policy(current)),
        _ => failure(404, "NotFound"),
    });
    let caches = holding(
        vec![serde_json::from_value(peer(cached)).unwrap()],
        vec![serde_json::from_value(policy(cached)).unwrap()],
        Bounds::default(),
    );
    let (bundle, authorities) = watch::channel(Arc::from("PEM"));
    let mutator = Mutator::new(Cluster::holding(client, caches), config(), authorities, Arc::default());
    let response = mutator.review(&review_request(&json!({"app": "embedder"}), false)).await;
    drop(bundle);
    let asked = log.lock().unwrap().iter().map(|asked| asked.path.clone()).collect();
    (response, asked)
}

#[tokio::test]
async fn what_a_cache_has_counts_while_it_is_current() {
    let (response, asked) = asked_with_caches("7", "7").await;
    assert!(response.allowed && patch(&response).contains("SEALANE_ROOTS"));
    let paths: Vec<&str> = asked.iter().map(|path| path.split('?').next().unwrap()).collect();
    let of = "/apis/sealane.dev/v1alpha1/namespaces/demo";
    assert_eq!(
        paths,
        [format!("{of}/peers/embedder"), format!("{of}/trustpolicies/demo")],
        "and nothing is listed"
    );

    let (response, asked) = asked_with_caches("6", "7").await;
    assert!(response.allowed && patch(&response).contains("SEALANE_ROOTS"));
    assert!(asked.iter().any(|path| path.split('?').next() == Some(&format!("{of}/peers"))), "{asked:?}");
}

#[tokio::test]
async fn a_peer_that_a_cache_has_not_heard_of_is_found() {
    let (client, _) = cluster(demo(true));
    let caches = holding(vec![], vec![], Bounds::default());
    let (_bundle, authorities) = watch::channel(Arc::from("PEM"));
    let mutator = Mutator::new(Cluster::holding(client, caches), config(), authorities, Arc::default());
    let response = mutator.review(&review_request(&json!({"app": "embedder"}), false)).await;
    assert!(response.allowed && patch(&response).contains("SEALANE_ROOTS"));
}
