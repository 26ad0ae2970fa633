use axum::body::{Body, to_bytes};
use axum::http::{Request, header::CONTENT_TYPE};
use clap::Parser;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::ServiceExt;

use super::*;
use crate::certificates::{Material, Resolver};
use crate::config::{Arguments, Config};
use crate::testing::{HostileClient, cluster, flood, list};
use crate::tls::Tls;
use crate::webhook::ClientAuthorities;
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
        // Of a few bytes each, which would be a thousand times that once they are decoded.
        let containers = vec![json!({}); 20_000];
        let wide = review("Pod", &json!({"metadata": {}, "spec": {"containers": containers}}));
        assert_eq!(post_to(&webhooks, path, wide).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    }
}

#[tokio::test]
async fn a_flood_of_one_kind_leaves_room_for_the_other() {
    let webhooks = webhooks();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": []}});
    let resource = json!({"apiVersion": "sealane.dev/v1alpha1", "kind": "Peer", "metadata": {}, "spec": {}});
    let asked = [("/mutate-pod", review("Pod", &pod)), ("/validate", review("Peer", &resource))];
    for (full, shares) in [(0, &webhooks.pods.running), (1, &webhooks.resources.running)] {
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
    let serving = tokio::spawn(serve(listener, Plain, Vec::new(), webhooks(), stop));
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(pod_review().as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serving.await.unwrap();
}

/// HTTP without TLS.
#[derive(Clone)]
struct Plain;

impl Secure for Plain {
    type Io = TcpStream;

    async fn secure(&self, stream: TcpStream) -> std::io::Result<TcpStream> {
        Ok(stream)
    }
}

fn pod_review() -> String {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": []}});
    let body = review("Pod", &pod);
    let head =
        "POST /mutate-pod HTTP/1.1\r\nHost: webhook\r\nConnection: close\r\nContent-Type: application/json";
    format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Five kinds, as far as they get; whoever never ends a body has sent as much of it as is taken.
fn hostile() -> Vec<HostileClient> {
    let head = "POST /mutate-pod HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n";
    let body = format!("{head}Content-Length: {}\r\n\r\n", REVIEW_BYTES_MAX);
    vec![
        HostileClient::Silent,
        HostileClient::Says(format!("{head}X: {}", "a".repeat(400_000)).into_bytes()),
        HostileClient::Trickles(format!("{head}X: a").into_bytes()),
        HostileClient::Says([body.into_bytes(), vec![b' '; REVIEW_BYTES_MAX - 1]].concat()),
        HostileClient::Says(b"GET / HTTP/1.1\r\nHost: webhook\r\n\r\n".to_vec()),
    ]
}

#[test]
fn two_thousand_hostile_connections_keep_no_review_out_and_take_little_memory() {
    flood(
        "webhook::serve::tests::two_thousand_hostile_connections_keep_no_review_out_and_take_little_memory",
        b"http/1.1",
        hostile(),
        |listener, tls| serve(listener, Tls::new(tls), Vec::new(), webhooks(), CancellationToken::new()),
        |mut connection| async move {
            connection.write_all(pod_review().as_bytes()).await.unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        },
    );
}

/// An authority of its own, and a certificate by it.
fn client_certificate() -> (String, CertificateDer<'static>, PrivateKeyDer<'static>) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let mut client = CertificateParams::new(Vec::new()).unwrap();
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = client.signed_by(&key, &issuer).unwrap();
    (pem, certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).unwrap())
}

#[tokio::test]
async fn whoever_has_no_certificate_is_let_in_only_where_none_is_asked_for() {
    let (material, _) =
        Material::advance(None, &["webhook".to_owned()], time::OffsetDateTime::now_utc()).unwrap();
    let resolver = Arc::new(Resolver::default());
    resolver.install(&material).unwrap();
    let (authorities, certificate, key) = client_certificate();
    let (_, foreign, foreign_key) = client_certificate();
    let verifier = ClientAuthorities::parse(&authorities).unwrap().verifier().unwrap();
    let asking = resolver.server_for(verifier, b"http/1.1").unwrap();
    let open = resolver.server(b"http/1.1").unwrap();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(material.bundle().as_bytes()).flatten());
    let client = || ClientConfig::builder().with_root_certificates(roots.clone());
    let own = || client().with_client_auth_cert(vec![certificate.clone()], key.clone_key()).unwrap();
    let other = || client().with_client_auth_cert(vec![foreign.clone()], foreign_key.clone_key()).unwrap();
    for (server, client, answered) in [
        (&open, client().with_no_client_auth(), true),
        (&asking, client().with_no_client_auth(), false),
        (&asking, other(), false),
        (&asking, own(), true),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stop = CancellationToken::new();
        let _ends = stop.clone().drop_guard();
        tokio::spawn(serve(listener, Tls::new(Arc::clone(server)), Vec::new(), webhooks(), stop));
        let connected =
            TlsConnector::from(Arc::new(client)).connect("webhook".try_into().unwrap(), stream).await;
        let mut answer = String::new();
        if let Ok(mut connection) = connected {
            // TLS 1.3 tells a client only afterwards that its certificate will not do.
            let _ = connection.write_all(pod_review().as_bytes()).await;
            let _ = connection.read_to_string(&mut answer).await;
        }
        assert_eq!(answer.starts_with("HTTP/1.1 200 "), answered, "{answer}");
    }
}
