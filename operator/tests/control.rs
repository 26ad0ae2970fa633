//! The control channel over real TLS on loopback: a sidecar's client, the operator's server, a cluster of words.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at once")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::TokenReviewStatus;
use k8s_openapi::api::core::v1::Pod;
use sealane_operator::certificates::{Material, Resolver};
use sealane_operator::control::authenticate::Cluster;
use sealane_operator::control::{Listener, Registry, Server, serve};
use sealane_operator::desired::{Desired, Membership, PolicyWire};
use sealane_operator::queue::Queue;
use sealane_sidecar_api::control::control_client::ControlClient;
use sealane_sidecar_api::control::{
    Configuration, FromOperator, FromSidecar, Register, Report, Resend, SessionReport, from_operator,
    from_sidecar,
};
use sealane_sidecar_api::delta::{FEATURE, Follower};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status, Streaming};

/// The messages of the release before changes.
#[path = "../../sidecar/api/src/generated/older.rs"]
mod older;

const NAME: &str = "sealane-control.sealane-system.svc";

/// Knows one pod, whose token is `good`.
struct OnePod;

impl Cluster for OnePod {
    async fn review(&self, token: &str) -> Result<TokenReviewStatus, kube::Error> {
        Ok(serde_json::from_value(json!({
            "authenticated": token == "good", "audiences": ["sealane.dev/control"],
            "user": {"username": "system:serviceaccount:demo:default", "extra": {
                "authentication.kubernetes.io/pod-name": ["embedder-0"],
                "authentication.kubernetes.io/pod-uid": ["6b5e"],
            }},
        }))
        .unwrap())
    }

    async fn pod(&self, _: &str, _: &str) -> Result<Option<Pod>, kube::Error> {
        Ok(Some(serde_json::from_value(json!({"metadata": {"uid": "6b5e"}})).unwrap()))
    }
}

struct Running {
    address: SocketAddr,
    authorities: String,
    registry: Arc<Registry>,
    queue: Arc<Queue>,
    stop: CancellationToken,
}

async fn start() -> Running {
    let now = time::OffsetDateTime::now_utc();
    let (material, _) = Material::advance(None, &[NAME.to_owned()], now).unwrap();
    let resolver = Arc::new(Resolver::default());
    resolver.install(&material).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = Listener::new(listener, resolver.server(b"h2").unwrap());
    let (registry, queue, stop) =
        (Arc::new(Registry::default()), Arc::new(Queue::default()), CancellationToken::new());
    let server = Server::new(OnePod, Arc::clone(&registry), Arc::clone(&queue), Arc::default());
    tokio::spawn(serve(listener, server, stop.clone()));
    Running { address, authorities: material.bundle(), registry, queue, stop }
}

fn register() -> Register {
    Register {
        version: "0.1.0".to_owned(),
        namespace: "demo".to_owned(),
        pod: "embedder-0".to_owned(),
        uid: "6b5e".to_owned(),
        node: "node-1".to_owned(),
        addresses: vec!["10.0.0.7".to_owned()],
        data_port: 14710,
        static_key: vec![1; 32],
        incarnation: vec![2; 16],
        features: Vec::new(),
    }
}

struct Sidecar {
    says: mpsc::Sender<FromSidecar>,
    hears: Streaming<FromOperator>,
}

impl Running {
    async fn channel(&self) -> Result<Channel, tonic::transport::Error> {
        let tls =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.authorities)).domain_name(NAME);
        Endpoint::from_shared(format!("https://{}", self.address)).unwrap().tls_config(tls)?.connect().await
    }

    async fn attach(&self, token: &str, first: from_sidecar::Message) -> Result<Sidecar, Status> {
        let (says, messages) = mpsc::channel(4);
        says.send(FromSidecar { message: Some(first) }).await.unwrap();
        let mut request = Request::new(ReceiverStream::new(messages));
        request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let hears = ControlClient::new(self.channel().await.unwrap()).attach(request).await?.into_inner();
        Ok(Sidecar { says, hears })
    }

    async fn registered(&self) -> Result<Sidecar, Status> {
        self.attach("good", from_sidecar::Message::Register(register())).await
    }
}

impl Sidecar {
    async fn hear(&mut self) -> Option<from_operator::Message> {
        let heard = tokio::time::timeout(Duration::from_secs(120), self.hears.message()).await.unwrap();
        heard.ok().flatten()?.message
    }

    async fn configuration(&mut self) -> Configuration {
        match self.hear().await {
            Some(from_operator::Message::Configuration(configuration)) => configuration,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_sidecar_registers_is_configured_and_reports() {
    let running = start().await;
    let mut sidecar = running.registered().await.unwrap();
    assert_eq!(
        running.queue.next(&std::collections::BTreeSet::new()).await,
        "demo",
        "its namespace is reconciled"
    );
    running.registry.push("6b5e", &Desired::NoPeer);
    let told = sidecar.configuration().await;
    assert_eq!((told.peer.as_str(), told.reason.as_str(), told.generation), ("", "PeerUnknown", 1));

    let session = SessionReport { uid: "s".to_owned(), tensors: 3, ..Default::default() };
    let report = Report { generation: 1, sessions: vec![session], ..Default::default() };
    let message = Some(from_sidecar::Message::Report(report.clone()));
    sidecar.says.send(FromSidecar { message }).await.unwrap();
    assert_eq!(running.queue.next(&std::collections::BTreeSet::new()).await, "demo");
    assert_eq!(running.registry.in_namespace("demo")[0].report.as_deref(), Some(&report));

    drop(sidecar);
    running.queue.next(&std::collections::BTreeSet::new()).await;
    assert!(running.registry.in_namespace("demo")[0].detached.is_some());
}

#[tokio::test]
async fn who_is_not_who_it_says_hears_why() {
    let running = start().await;
    let refused = running.attach("bad", from_sidecar::Message::Register(register())).await;
    assert_eq!(refused.err().map(|status| status.code()), Some(Code::Unauthenticated));

    let early = running.attach("good", from_sidecar::Message::Report(Report::default())).await;
    assert_eq!(early.err().map(|status| status.code()), Some(Code::InvalidArgument));

    let other = Register { pod: "ranker-0".to_owned(), ..register() };
    let mut other = running.attach("good", from_sidecar::Message::Register(other)).await.unwrap();
    let Some(from_operator::Message::Refusal(refusal)) = other.hear().await else { panic!("no refusal") };
    assert!(refusal.message.contains("demo/embedder-0/6b5e"), "{}", refusal.message);
    assert!(other.hear().await.is_none(), "the stream ends after a refusal");
    assert_eq!(running.registry.attached(), 0);
}

#[tokio::test]
async fn a_report_out_of_bounds_ends_the_stream() {
    let running = start().await;
    let mut sidecar = running.registered().await.unwrap();
    let report = Report { sessions: vec![SessionReport::default(); 2000], ..Default::default() };
    let message = Some(from_sidecar::Message::Report(report));
    sidecar.says.send(FromSidecar { message }).await.unwrap();
    assert!(sidecar.hear().await.is_none());
    assert_eq!(running.registry.attached(), 0);
}

#[tokio::test]
async fn a_message_of_many_empty_words_is_not_decoded() {
    let running = start().await;
    let wide = Register { features: vec![String::new(); 70_000], ..register() };
    let refused = running.attach("good", from_sidecar::Message::Register(wide)).await.err().unwrap();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("features in one message"), "{refused}");
    assert_eq!(running.registry.attached(), 0);
}

#[tokio::test]
async fn when_leadership_ends_so_do_the_streams() {
    let running = start().await;
    let mut sidecar = running.registered().await.unwrap();
    running.stop.cancel();
    running.registry.close();
    assert!(sidecar.hear().await.is_none());
}

#[tokio::test]
async fn a_client_that_trusts_another_authority_is_not_served() {
    let mut running = start().await;
    let now = time::OffsetDateTime::now_utc();
    running.authorities = Material::advance(None, &[NAME.to_owned()], now).unwrap().0.bundle();
    assert!(running.channel().await.is_err());
}

/// A replica of a Peer under a policy with this chain.
fn member(chain: &str) -> Desired {
    let wire = PolicyWire { chain: chain.to_owned(), roots: String::new() };
    Desired::Member(Membership {
        peer: "embedder".parse().unwrap(),
        provider: sealane_types::Provider::Auto,
        reattest_seconds: 600,
        policy: Some(("demo".parse().unwrap(), Arc::new(wire))),
        sessions: Arc::default(),
    })
}

#[tokio::test]
async fn a_sidecar_that_announces_it_is_told_changes_and_the_whole_when_it_asks() {
    let running = start().await;
    let register = Register { features: vec![FEATURE.to_owned()], ..register() };
    let mut sidecar = running.attach("good", from_sidecar::Message::Register(register)).await.unwrap();
    let mut follower = Follower::default();
    let mut told = Vec::new();
    for (round, chain) in [(0, "1"), (1, "2"), (2, "3"), (3, "3")] {
        if round == 2 {
            // It loses what the next change is based on.
            follower.forget();
        }
        if round < 3 {
            running.registry.push("6b5e", &member(chain));
        } else {
            assert!(follower.wants_whole());
            let message = Some(from_sidecar::Message::Resend(Resend {}));
            sidecar.says.send(FromSidecar { message }).await.unwrap();
            follower.asked();
        }
        let Some(from_operator::Message::Delta(delta)) = sidecar.hear().await else { panic!("no change") };
        let whole = delta.base.is_empty();
        let taken = follower.take(delta).ok().flatten();
        told.push((whole, taken.and_then(|taken| Some((taken.generation, taken.policy?.chain)))));
    }
    let text = |text: &str| text.to_owned();
    assert_eq!(
        told,
        [
            (true, Some((1, text("1")))),
            (false, Some((2, text("2")))),
            (false, None),
            (true, Some((3, text("3"))))
        ]
    );
}

#[tokio::test]
async fn a_sidecar_of_an_older_release_is_told_the_whole_each_time() {
    let running = start().await;
    let Register {
        version, namespace, pod, uid, node, addresses, data_port, static_key, incarnation, ..
    } = register();
    let register =
        older::Register { version, namespace, pod, uid, node, addresses, data_port, static_key, incarnation };
    let (says, messages) = mpsc::channel(4);
    let message = Some(older::from_sidecar::Message::Register(register));
    says.send(older::FromSidecar { message }).await.unwrap();
    let mut request = Request::new(ReceiverStream::new(messages));
    request.metadata_mut().insert("authorization", "Bearer good".parse().unwrap());
    let mut client = older::control_client::ControlClient::new(running.channel().await.unwrap());
    let mut hears = client.attach(request).await.unwrap().into_inner();
    for (generation, chain) in [(1, "1"), (2, "2")] {
        running.registry.push("6b5e", &member(chain));
        let heard = tokio::time::timeout(Duration::from_secs(120), hears.message()).await.unwrap();
        let Some(older::from_operator::Message::Configuration(told)) = heard.unwrap().unwrap().message else {
            panic!("not the whole")
        };
        assert_eq!((told.generation, told.peer.as_str()), (generation, "embedder"));
        assert_eq!(told.policy.unwrap().chain, chain);
    }
    // What it says is heard as before.
    let report = older::Report { generation: 2, finished: true, ..Default::default() };
    says.send(older::FromSidecar { message: Some(older::from_sidecar::Message::Report(report)) })
        .await
        .unwrap();
    while running.registry.in_namespace("demo")[0].report.is_none() {
        running.queue.next(&std::collections::BTreeSet::new()).await;
    }
}
