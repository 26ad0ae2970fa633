//! The control channel: an operator that configures, goes away, and comes back.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::Stream;
use prost::Message as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sealane_sidecar::config::Control as Channel;
use sealane_sidecar_api::control as wire;
use sealane_sidecar_api::control::from_operator::Message as FromOperator;
use sealane_sidecar_api::control::from_sidecar::Message as FromSidecar;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{TcpListenerStream, WatchStream};
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::device::metric;
use crate::key::{KeyFile, key, listing, under};
use crate::path::Path;
use crate::support::{Plan, Sidecar, document, loopback, roots, signed, until, within};

pub(crate) const TOKEN: &str = "a token of this test";

/// The messages of the release before changes.
#[path = "../../api/src/generated/older.rs"]
mod older;

/// What the operator has heard.
#[derive(Debug, Default)]
struct Heard {
    registered: Vec<wire::Register>,
    report: wire::Report,
}

/// An operator of the release before changes: it has only the messages of that release, and so do all tests of this file and
/// those that use it.
#[derive(Debug)]
struct Operator {
    heard: Arc<Mutex<Heard>>,
    configuration: watch::Receiver<wire::Configuration>,
}

#[tonic::async_trait]
impl older::control_server::Control for Operator {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<older::FromOperator, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<older::FromSidecar>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        assert_eq!(request.metadata().get("authorization").unwrap(), &format!("Bearer {TOKEN}"));
        let mut messages = request.into_inner();
        let heard = Arc::clone(&self.heard);
        tokio::spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                let mut heard = heard.lock().unwrap();
                let message = wire::FromSidecar::decode(message.encode_to_vec().as_slice()).unwrap();
                match message.message {
                    Some(FromSidecar::Register(register)) => heard.registered.push(register),
                    Some(FromSidecar::Report(report)) => heard.report = report,
                    Some(FromSidecar::Resend(_)) | None => panic!("what an older operator does not know"),
                }
            }
        });
        let configurations = WatchStream::new(self.configuration.clone()).map(|configuration| {
            let message = wire::FromOperator { message: Some(FromOperator::Configuration(configuration)) };
            Ok(older::FromOperator::decode(message.encode_to_vec().as_slice()).unwrap())
        });
        Ok(Response::new(Box::pin(configurations)))
    }
}

/// What the operator is called in its cluster.
const NAME: &str = "sealane-control.sealane-system.svc";

/// An operator that can be killed and started again at the same address.
pub(crate) struct Cluster {
    authority: CertifiedIssuer<'static, KeyPair>,
    heard: Arc<Mutex<Heard>>,
    pub(crate) configuration: watch::Sender<wire::Configuration>,
    address: SocketAddr,
    server: tokio::task::JoinHandle<()>,
}

impl Cluster {
    pub(crate) async fn start(configuration: wire::Configuration) -> Self {
        let authority = authority();
        let heard = Arc::default();
        let configuration = watch::Sender::new(configuration);
        // Nobody dials from its host, whose ports stay free while it is away.
        let listener = TcpListener::bind(loopback()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = serve(listener, &authority, &heard, &configuration);
        Self { authority, heard, configuration, address, server }
    }

    /// Ends every connection, as the loss of its node would.
    async fn lose(&mut self) {
        self.server.abort();
        let _ = (&mut self.server).await;
    }

    async fn return_again(&mut self) {
        let listener = within("the port", async {
            loop {
                if let Ok(listener) = TcpListener::bind(self.address).await {
                    return listener;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        self.server = serve(listener.await, &self.authority, &self.heard, &self.configuration);
    }

    pub(crate) fn channel(&self, directory: &std::path::Path) -> Channel {
        let token = directory.join("token");
        std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
        let address = format!("https://{}", self.address);
        Channel { address, server_name: None, authorities: self.authority.pem(), token }
    }

    pub(crate) fn report(&self) -> wire::Report {
        self.heard.lock().unwrap().report.clone()
    }
}

fn serve(
    listener: TcpListener,
    authority: &CertifiedIssuer<'static, KeyPair>,
    heard: &Arc<Mutex<Heard>>,
    configuration: &watch::Sender<wire::Configuration>,
) -> tokio::task::JoinHandle<()> {
    let tls = tls(&listener, authority);
    let operator = Operator { heard: Arc::clone(heard), configuration: configuration.subscribe() };
    let service = older::control_server::ControlServer::new(operator);
    tokio::spawn(async move {
        let server = Server::builder().tls_config(tls).unwrap().add_service(service);
        server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
    })
}

/// For the address of `listener` and for [`NAME`].
pub(crate) fn tls(listener: &TcpListener, authority: &CertifiedIssuer<'static, KeyPair>) -> ServerTlsConfig {
    let key = KeyPair::generate().unwrap();
    let host = listener.local_addr().unwrap().ip().to_string();
    let leaf =
        CertificateParams::new(vec![host, NAME.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    ServerTlsConfig::new().identity(Identity::from_pem(leaf.pem(), key.serialize_pem()))
}

/// Who signs what operators show.
pub(crate) fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

pub(crate) fn configuration(to: SocketAddr) -> wire::Configuration {
    let replica = wire::Replica {
        pod: "ranker-0".to_owned(),
        uid: "r".to_owned(),
        addresses: vec![to.ip().to_string()],
        port: to.port().into(),
        incarnation: vec![0; 16],
        ordinal: None,
    };
    let session = wire::Session {
        name: "activations".to_owned(),
        uid: "1".to_owned(),
        sending: true,
        delivery: "RoundRobin".to_owned(),
        fanout: 16,
        carrier: "Auto".to_owned(),
        cipher: "Auto".to_owned(),
        remotes: vec![wire::Remote { peer: "ranker".to_owned(), replicas: vec![replica] }],
        ..wire::Session::default()
    };
    let policy = wire::Policy {
        name: "demo".to_owned(),
        chain: serde_json::to_string(&signed(&document(1), &[1, 2])).unwrap(),
        roots: serde_json::to_string(&roots()).unwrap(),
    };
    wire::Configuration {
        generation: 1,
        peer: "embedder".to_owned(),
        provider: "Simulated".to_owned(),
        policy: Some(policy),
        sessions: vec![session],
        ..wire::Configuration::default()
    }
}

#[tokio::test]
async fn an_operator_configures_hears_and_may_be_lost() {
    let directory = tempfile::tempdir().unwrap();
    let to = Plan::receiver().start();
    let mut cluster = Cluster::start(configuration(to.address)).await;
    let control = Some(cluster.channel(directory.path()));
    let from = Plan { control, door: directory.path().join("door.sock"), ..Plan::sender(&[]) }.start();

    // Configured: it connects before any lane is open, and says so.
    until("the report of a connection", || {
        let report = cluster.report();
        report.sessions.first().is_some_and(|session| session.connections == 1)
    })
    .await;
    until("the report of its own evidence", || {
        cluster.report().evidence.is_some_and(|evidence| evidence.verified)
    })
    .await;
    let report = cluster.report();
    let policy = report.policy.unwrap();
    assert!((policy.verified, policy.epoch, policy.root_source.as_str()) == (true, 1, "File"), "{policy:?}");
    let evidence = report.evidence.unwrap();
    assert_eq!((evidence.platform.as_str(), evidence.assurance.as_str()), ("Simulated", "Simulated"));
    assert!(report.sessions[0].post_quantum);
    let registered = cluster.heard.lock().unwrap().registered[0].clone();
    assert_eq!((registered.pod.as_str(), registered.static_key.len()), ("embedder-0", 32));
    assert_eq!(registered.data_port, u32::from(from.address.port()));

    // Lost: lanes open and tensors flow all the same.
    cluster.lose().await;
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut receiver = Receiver::open(&to.lanes, 8 << 20).await;
    lane.offer(parcel(0, 1000)).await.unwrap();
    assert_eq!(receiver.next_taken().await, 0);

    // A restart without the operator goes on with the configuration that was kept.
    drop(lane);
    let from = from.kill().start();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    lane.offer(parcel(0, 1000)).await.unwrap();

    // Back: it hears of what happened meanwhile.
    cluster.return_again().await;
    until("a second registration", || cluster.heard.lock().unwrap().registered.len() == 2).await;
    let registered = cluster.heard.lock().unwrap().registered.clone();
    assert_ne!(registered[0].incarnation, registered[1].incarnation);
    let mut changed = configuration(to.address);
    changed.generation = 2;
    changed.sessions.clear();
    cluster.configuration.send_replace(changed);
    until("the report of the change", || {
        let report = cluster.report();
        report.generation == 2 && report.sessions.is_empty()
    })
    .await;
}

/// A node that is cut off ends no connection: what was sent is not answered, and nothing comes.
#[tokio::test]
async fn an_operator_that_falls_silent_is_left_for_one_that_answers() {
    let directory = tempfile::tempdir().unwrap();
    let to = Plan::receiver().start();
    let cluster = Cluster::start(configuration(to.address)).await;
    let path = Path::to(cluster.address).await;
    let address = format!("https://{}", path.address);
    let control =
        Channel { address, server_name: Some(NAME.to_owned()), ..cluster.channel(directory.path()) };
    let door = directory.path().join("door.sock");
    let from = Plan { control: Some(control), door, ..Plan::sender(&[]) }.start();
    until("a report", || cluster.report().generation == 1).await;
    let registered = || cluster.heard.lock().unwrap().registered.len();
    let before = registered();
    path.fall_silent();
    until("another registration", || registered() > before).await;
    let (lane, _events) = sender(&from.lanes).await;
    drop(lane);
}

#[tokio::test]
async fn a_preferred_cipher_counts_from_the_next_connection_on() {
    let directory = tempfile::tempdir().unwrap();
    let to = Plan::receiver().start();
    let preferring = |generation, cipher: &str| {
        let mut told = configuration(to.address);
        told.generation = generation;
        cipher.clone_into(&mut told.sessions[0].preferred_cipher);
        told
    };
    let cluster = Cluster::start(preferring(1, "ChaCha20Poly1305")).await;
    let control = Some(cluster.channel(directory.path()));
    let plan = Plan { control, door: directory.path().join("door.sock"), ..Plan::sender(&[]) };
    let from = plan.start();
    let uses = |generation, cipher: &str| {
        let report = cluster.report();
        let session = report.sessions.first();
        report.generation == generation
            && session.is_some_and(|session| session.connections == 1 && session.cipher == cipher)
    };
    until("a connection that is sealed as preferred", || uses(1, "ChaCha20Poly1305")).await;
    // What is open stays open, as it is.
    cluster.configuration.send_replace(preferring(2, "Aes256Gcm"));
    until("the other preference", || uses(2, "ChaCha20Poly1305")).await;
    // The policy does not list this one.
    cluster.configuration.send_replace(preferring(3, "Aes128Gcm"));
    until("a preference that counts for nothing", || uses(3, "ChaCha20Poly1305")).await;
    // Kept for a start without the operator, too.
    cluster.configuration.send_replace(preferring(4, "Aes256Gcm"));
    until("the last preference", || uses(4, "ChaCha20Poly1305")).await;
    let from = from.kill().start();
    until("the next connection", || uses(4, "Aes256Gcm")).await;
    drop(from);
}

/// The other side is outside of the cluster: an address without a pod.
fn outside(address: SocketAddr, document: &serde_json::Value) -> wire::Configuration {
    let mut told = configuration(address);
    let replica = &mut told.sessions[0].remotes[0].replicas[0];
    (replica.pod, replica.uid) = (address.to_string(), String::new());
    replica.incarnation.clear();
    told.policy.as_mut().unwrap().chain = serde_json::to_string(&signed(document, &[1, 2])).unwrap();
    told
}

#[tokio::test]
async fn what_is_met_outside_of_the_cluster_is_reported_and_so_is_what_was_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = KeyFile::of(1);
    let listed = listing(1, "ranker", &[1]);
    let to = under(Plan::receiver(), "ranker", &[1], Some(&file)).start();
    let cluster = Cluster::start(outside(to.address, &listed)).await;
    let control = Some(cluster.channel(directory.path()));
    let plan = Plan { control, door: directory.path().join("door.sock"), ..Plan::sender(&[]) };
    let from = plan.start();
    let said = |accept: fn(&wire::ExternalReport) -> bool| {
        let externals = cluster.report().externals;
        externals.iter().all(|external| external.peer == "ranker") && externals.iter().any(accept)
    };
    until("the replica is met", || {
        said(|met| (met.pod.as_str(), met.assurance.as_str()) == ("demo/ranker-0/r", "Key"))
    })
    .await;
    let met = cluster.report().externals[0].clone();
    assert_eq!((met.public_key, met.platform.as_str()), (key(1).public_key().to_string(), "Key"));
    // Another epoch, another key: it is met no longer, and the operator hears why.
    let mut told = outside(to.address, &listing(2, "ranker", &[2]));
    told.generation = 2;
    cluster.configuration.send_replace(told);
    until("the refusal", || said(|missed| missed.pod.is_empty() && missed.reason == "KeyMismatch")).await;
    until("nobody is met", || !said(|met| !met.pod.is_empty())).await;
    drop(from);
}

/// Streams to an operator that ended, or never began.
fn attempts(sidecar: &Sidecar) -> u64 {
    metric(sidecar, r#"sealane_control_streams_total{outcome="ended"}"#).unwrap_or_default()
}

#[tokio::test]
async fn an_operator_under_another_authority_is_not_listened_to() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(configuration("127.0.0.1:9".parse().unwrap())).await;
    let other = Cluster::start(wire::Configuration::default()).await;
    let channel = Channel { authorities: other.authority.pem(), ..cluster.channel(directory.path()) };
    let from = Plan { control: Some(channel), door: directory.path().join("door.sock"), ..Plan::sender(&[]) }
        .start();
    let session = "activations".parse().unwrap();
    // It has tried, more than once.
    until("attempts to reach it", || attempts(&from) >= 2).await;
    let incarnation = crate::client::INCARNATION;
    let now = tokio::time::Instant::now();
    let opened = from.lanes.open_sender(session, incarnation, sealane_sidecar::handoff::Sequence(0), now);
    let error = opened.await.unwrap_err();
    assert_eq!(error.reason, sealane_types::Reason::NotConfigured, "{error}");
    assert!(cluster.heard.lock().unwrap().registered.is_empty());
}

#[tokio::test]
async fn an_operator_that_is_dialled_by_its_address_is_known_by_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(configuration("127.0.0.1:9".parse().unwrap())).await;
    let started = |name: &str, door: &str| {
        let channel = Channel { server_name: Some(name.to_owned()), ..cluster.channel(directory.path()) };
        Plan { control: Some(channel), door: directory.path().join(door), ..Plan::sender(&[]) }.start()
    };
    let deceived = started("sealane-control.another.svc", "deceived.sock");
    until("attempts to reach it", || attempts(&deceived) >= 2).await;
    assert!(cluster.heard.lock().unwrap().registered.is_empty());
    let _known = started(NAME, "known.sock");
    until("its registration", || !cluster.heard.lock().unwrap().registered.is_empty()).await;
}
