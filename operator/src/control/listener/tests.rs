use std::net::Ipv4Addr;

use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::TokenReviewStatus;
use k8s_openapi::api::core::v1::Pod;
use sealane_http::Caps;
use sealane_sidecar_api::control::control_client::ControlClient;
use sealane_sidecar_api::control::{FromSidecar, Register, from_sidecar};
use serde_json::json;
use tonic::Request;
use tonic::transport::Endpoint;

use super::*;
use crate::control::authenticate::Cluster;
use crate::control::{Registry, Server, serve as serve_control};
use crate::testing::{HostileClient, flood};

fn place() -> (Arc<Places>, Place) {
    let places = Places::new(Caps { total: 1, per_source: 1 });
    let place = places.admit(Ipv4Addr::LOCALHOST.into(), 1).unwrap();
    (places, place)
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_registration_has_a_time() {
    let ((places, place), admission, began) = (place(), Admission::default(), Instant::now());
    unregistered(async { Ok(()) }, place, &admission).await.unwrap_err();
    assert_eq!((began.elapsed(), places.taken()), (UNREGISTERED_TIME, 0));
    assert!(admission.over.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_registered_one_gives_its_place_back_and_stays() {
    let ((places, place), admission) = (place(), Admission::default());
    admission.registered();
    unregistered(async { Ok(()) }, place, &admission).await.unwrap();
    assert_eq!(places.taken(), 0);
    tokio::time::sleep(2 * UNREGISTERED_TIME).await;
    assert!(!admission.over.is_cancelled());
    let began = Instant::now();
    admission.over().await;
    assert_eq!(began.elapsed(), UNREGISTERED_TIME, "time to tell the sidecar");
    assert!(admission.over.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_another_gets_ends_the_connection() {
    let ((places, place), admission) = (place(), Admission::default());
    let ending = unregistered(std::future::pending(), place, &admission);
    let other = async {
        tokio::task::yield_now().await;
        places.admit([10, 0, 0, 1].into(), 1).unwrap_err()
    };
    // Equals do not drive each other out; it ends by its time.
    let (ended, refused) = tokio::join!(ending, other);
    assert_eq!((ended.is_err(), refused), (true, Refused::Full));
    let places = Places::new(Caps { total: 2, per_source: 2 });
    let [first, _second] = [(); 2].map(|()| places.admit(Ipv4Addr::LOCALHOST.into(), 1).unwrap());
    let _other = places.admit([10, 0, 0, 1].into(), 1).unwrap();
    let (admission, began) = (Admission::default(), Instant::now());
    unregistered(std::future::pending(), first, &admission).await.unwrap_err();
    assert!(began.elapsed().is_zero() && admission.over.is_cancelled());
}

/// Every token is one pod's.
struct OnePod;

impl Cluster for OnePod {
    async fn review(&self, _: &str) -> Result<TokenReviewStatus, kube::Error> {
        Ok(serde_json::from_value(json!({
            "authenticated": true, "audiences": ["sealane.dev/control"],
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

/// A frame of HTTP/2 (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A field of a header, without compression (RFC 7541 §6.2.2).
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// The first message of a client, and the frames after it.
fn client(frames: &[Vec<u8>]) -> Vec<u8> {
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
    [hello, frames.concat()].concat()
}

/// Five kinds: no handshake, a header without an end, a header letter by letter, a message without an end, and one that
/// says nothing after it has connected.
fn hostile() -> Vec<HostileClient> {
    const END_HEADERS: u8 = 4;
    let fields = [
        field(":method", "POST"),
        field(":scheme", "https"),
        field(":path", "/sealane.control.v1.Control/Attach"),
        field("te", "trailers"),
        field("content-type", "application/grpc"),
        field("authorization", "Bearer good"),
    ]
    .concat();
    let endless = vec![frame(9, 0, 1, &field("x", &"a".repeat(100)).repeat(150)); 25];
    let mut message = vec![0; 16 << 10];
    message[..5].copy_from_slice(&[0, 0, 0x0f, 0xff, 0xff]);
    let data = [frame(0, 0, 1, &message), frame(0, 0, 1, &vec![0; (16 << 10) - 1])].concat();
    vec![
        HostileClient::Silent,
        HostileClient::Says(client(&[frame(1, 0, 1, &fields), endless.concat()])),
        HostileClient::Trickles(client(&[frame(1, 0, 1, &fields), vec![0, 0x3f, 0xff, 9, 0, 0, 0, 0, 1]])),
        HostileClient::Says(client(&[frame(1, END_HEADERS, 1, &fields), data])),
        HostileClient::Says(client(&[])),
    ]
}

fn registration() -> from_sidecar::Message {
    from_sidecar::Message::Register(Register {
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
    })
}

#[test]
fn two_thousand_hostile_connections_keep_no_sidecar_out_and_take_little_memory() {
    flood(
        "control::listener::tests::two_thousand_hostile_connections_keep_no_sidecar_out_and_take_little_memory",
        b"h2",
        hostile(),
        |listener, tls| async {
            let server = Server::new(OnePod, Arc::<Registry>::default(), Arc::default(), Arc::default());
            serve_control(Listener::new(listener, tls), server, CancellationToken::new()).await.unwrap();
        },
        |connection| async {
            let mut connection = Some(TokioIo::new(connection));
            let connect = tower::service_fn(move |_| {
                let connection = connection.take().ok_or_else(|| io::Error::other("used"));
                async { connection }
            });
            let channel = Endpoint::from_static("http://sealane.test").connect_with_connector(connect).await;
            let (says, messages) = mpsc::channel(1);
            says.send(FromSidecar { message: Some(registration()) }).await.unwrap();
            let mut request = Request::new(tokio_stream::wrappers::ReceiverStream::new(messages));
            request.metadata_mut().insert("authorization", "Bearer good".parse().unwrap());
            ControlClient::new(channel.unwrap()).attach(request).await.unwrap();
        },
    );
}
