//! Configurations as changes: a sidecar follows them, and asks for the whole of what it cannot apply.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures::Stream;
use prost::Message as _;
use sealane_sidecar::config::Control as Channel;
use sealane_sidecar_api::control as wire;
use sealane_sidecar_api::control::control_server::{Control, ControlServer};
use sealane_sidecar_api::control::from_operator::Message as FromOperator;
use sealane_sidecar_api::control::from_sidecar::Message as FromSidecar;
use sealane_sidecar_api::delta::{Bytes, FEATURE, Part, Sequence, diff, parts, split};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::control::{TOKEN, authority, configuration, tls};
use crate::support::{Plan, loopback, until};

#[derive(Debug, Default)]
struct Heard {
    features: Vec<String>,
    report: wire::Report,
    resends: usize,
}

/// Says what it is given.
#[derive(Debug)]
struct Operator {
    heard: Arc<Mutex<Heard>>,
    says: Mutex<Option<mpsc::Receiver<Result<wire::FromOperator, Status>>>>,
}

#[tonic::async_trait]
impl Control for Operator {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<wire::FromOperator, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<wire::FromSidecar>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let mut messages = request.into_inner();
        let heard = Arc::clone(&self.heard);
        tokio::spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                let mut heard = heard.lock().unwrap();
                match message.message {
                    Some(FromSidecar::Register(register)) => heard.features = register.features,
                    Some(FromSidecar::Report(report)) => heard.report = report,
                    Some(FromSidecar::Resend(_)) => heard.resends += 1,
                    None => panic!("an empty message"),
                }
            }
        });
        let says = self.says.lock().unwrap().take().ok_or_else(|| Status::unavailable("one stream"))?;
        Ok(Response::new(Box::pin(ReceiverStream::new(says))))
    }
}

fn sequence(configuration: &wire::Configuration) -> Sequence {
    split(configuration.clone(), Bytes::from).unwrap()
}

/// The messages that tell `next` as a change of `base`.
fn change(base: Option<&Sequence>, next: &Sequence, generation: u64) -> Vec<wire::Delta> {
    let changes = Bytes::from(diff(base.unwrap_or(&Sequence::default()), next));
    let base = base.map(|base| base.digest().to_vec()).unwrap_or_default();
    let digest = next.digest().to_vec();
    let delta = |Part { changes, offset, more }| {
        let (base, digest) = (base.clone(), digest.clone());
        wire::Delta { generation, base, digest, changes, offset, more }
    };
    parts(&changes).map(delta).collect()
}

#[tokio::test]
async fn a_sidecar_follows_changes_and_asks_for_the_whole_of_what_it_cannot_apply() {
    let directory = tempfile::tempdir().unwrap();
    let to = Plan::receiver().start();
    let (authority, heard) = (authority(), Arc::<Mutex<Heard>>::default());
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let tls = tls(&listener, &authority);
    let (says, receiver) = mpsc::channel(64);
    let operator = Operator { heard: Arc::clone(&heard), says: Mutex::new(Some(receiver)) };
    tokio::spawn(async move {
        let server = Server::builder().tls_config(tls).unwrap().add_service(ControlServer::new(operator));
        server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
    });
    let token = directory.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let channel = Channel { address, server_name: None, authorities: authority.pem(), token };
    let plan = Plan { control: Some(channel), door: directory.path().join("door.sock"), ..Plan::sender(&[]) };
    let _from = plan.start();
    let tell = async |changes: Vec<wire::Delta>| {
        for delta in changes {
            says.send(Ok(wire::FromOperator { message: Some(FromOperator::Delta(delta)) })).await.unwrap();
        }
    };
    let in_effect = |generation, sessions| {
        let heard = heard.lock().unwrap();
        heard.report.generation == generation && heard.report.sessions.len() == sessions
    };

    // The whole, in more than one part: pods that nobody dials yet.
    let mut first = configuration(to.address);
    let awaited = |number: usize| wire::Replica {
        pod: format!("ranker-{number}"),
        uid: format!("{number:0100}"),
        ..wire::Replica::default()
    };
    first.sessions[0].remotes[0].replicas.extend((1..500).map(awaited));
    let whole = change(None, &sequence(&first), 1);
    assert!(whole.len() > 1);
    tell(whole).await;
    until("the whole", || in_effect(1, 1)).await;
    assert_eq!(heard.lock().unwrap().features, [FEATURE]);

    let mut second = first.clone();
    second.sessions[0].remotes[0].replicas.truncate(1);
    let changes = change(Some(&sequence(&first)), &sequence(&second), 2);
    assert!(changes[0].encoded_len() < 200, "what is left out is not sent");
    tell(changes).await;
    until("the change", || in_effect(2, 1)).await;

    // A change of what it was never told leaves what is in effect as it is.
    let mut never = second.clone();
    never.reason = "Draining".to_owned();
    let none = wire::Configuration { sessions: Vec::new(), ..second.clone() };
    tell(change(Some(&sequence(&never)), &sequence(&none), 3)).await;
    until("the request for the whole", || heard.lock().unwrap().resends == 1).await;
    assert!(in_effect(2, 1));
    tell(change(None, &sequence(&none), 3)).await;
    until("the whole again", || in_effect(3, 0)).await;
    tell(change(Some(&sequence(&none)), &sequence(&second), 4)).await;
    until("one more change", || in_effect(4, 1)).await;
    assert_eq!(heard.lock().unwrap().resends, 1);
}
