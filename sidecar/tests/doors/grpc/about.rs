//! What the door says about itself: health, reflection, sessions, and how it drains.

use sealane_sidecar_api::door as wire;
use tokio_stream::StreamExt;
use tonic::Code;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus};
use tonic_reflection::pb::v1 as reflection;

use crate::grpc::client::{Putter, Taker, assert_failed, client};
use crate::grpc::served::{MIB, Served};
use crate::support::{Plan, document, signed, within};

#[tokio::test]
async fn health_is_told_in_both_ways() {
    let door = Served::looping(64 * MIB);
    let channel = door.channel().await;
    let mut own = client(&channel);
    let first = own.health(wire::HealthRequest {}).await.unwrap().into_inner();
    assert_eq!(first.status(), wire::health_response::Status::Serving);
    assert_eq!((first.version.as_str(), first.process.len()), (env!("CARGO_PKG_VERSION"), 16));
    for service in ["", "sealane.door.v1.Door"] {
        let asked = HealthCheckRequest { service: service.to_owned() };
        let answer = HealthClient::new(channel.clone()).check(asked).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    let other = Served::looping(64 * MIB);
    let second = client(&other.channel().await).health(wire::HealthRequest {}).await.unwrap().into_inner();
    assert_ne!(first.process, second.process);
}

#[tokio::test]
async fn reflection_lists_the_services_and_describes_them() {
    use reflection::server_reflection_request::MessageRequest;
    use reflection::server_reflection_response::MessageResponse;
    let door = Served::looping(64 * MIB);
    let mut client = reflection::server_reflection_client::ServerReflectionClient::new(door.channel().await);
    let ask = |message_request| reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message_request),
    };
    let asks = tokio_stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("sealane.door.v1.PutTensor".to_owned())),
    ]);
    let answers = client.server_reflection_info(asks).await.unwrap().into_inner();
    let answers: Vec<_> = within("answers", answers.collect()).await;
    let answers: Vec<_> =
        answers.into_iter().map(|answer| answer.unwrap().message_response.unwrap()).collect();
    let [MessageResponse::ListServicesResponse(list), MessageResponse::FileDescriptorResponse(file)] =
        &answers[..]
    else {
        panic!("{answers:?}")
    };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["sealane.door.v1.Door", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(!file.file_descriptor_proto.is_empty());
}

#[tokio::test]
async fn sessions_are_listed_with_reason_and_remedy() {
    let door = Served::looping(64 * MIB);
    let mut client = client(&door.channel().await);
    let mut answers = client.sessions(wire::SessionsRequest { watch: false }).await.unwrap().into_inner();
    let sessions = within("sessions", answers.message()).await.unwrap().unwrap().sessions;
    assert!(within("the end", answers.message()).await.unwrap().is_none());
    let [ready, refused] = &sessions[..] else { panic!("{sessions:?}") };
    assert!(ready.ready && !ready.refused && ready.reason.is_empty());
    assert_eq!((ready.direction(), ready.kind()), (wire::Direction::Receiving, wire::Kind::Stream));
    assert!(!refused.ready && refused.refused);
    assert_eq!((refused.reason.as_str(), refused.message.as_str()), ("PolicyExpired", "the policy expired"));
    assert!(refused.remedy.contains("next epoch"), "{refused:?}");
}

#[tokio::test]
async fn who_watches_sessions_sees_them_become_ready_and_be_refused() {
    let receiver = Served::real(Plan::receiver(), 64 * MIB);
    let mut client = client(&receiver.channel().await);
    let mut answers = client.sessions(wire::SessionsRequest { watch: true }).await.unwrap().into_inner();
    let mut next = async || within("sessions", answers.message()).await.unwrap().unwrap().sessions;
    let before = next().await;
    assert_eq!((before[0].name.as_str(), before[0].ready), ("activations", false));
    assert_eq!(before[0].reason, "NoReplicas");
    let address = receiver.sidecar.as_ref().unwrap().address;
    let _sender = Served::real(Plan::sender(&[address]), 64 * MIB);
    while !next().await[0].ready {}
    let mut without = document(2);
    without["sessions"] = serde_json::json!([]);
    receiver.sidecar.as_ref().unwrap().propose(signed(&without, &[1, 2]));
    loop {
        let session = next().await.remove(0);
        if session.refused {
            assert_eq!(session.reason, "SessionNotInPolicy");
            break;
        }
    }
}

#[tokio::test]
async fn draining_lets_lanes_finish_and_admits_no_more() {
    let door = Served::looping(128 * MIB);
    let channel = door.channel().await;
    let mut putter = Putter::open(&channel, "drains").await.unwrap();
    let mut taker = Taker::open(&channel, "drains").await.unwrap();
    let sequence = putter.put(1000).await;
    door.drain.cancel();
    assert_eq!(taker.taken().await, sequence);
    putter.close().await;
    taker.finish().await;
    let refused = Putter::open(&channel, "drains").await.err().unwrap();
    // The door says so, or the connection ended with its last call and the library says that, in words that depend on
    // how far the call had come (`Status` of the library has it as its source).
    let ended =
        std::error::Error::source(&refused).is_some_and(|source| source.is::<tonic::transport::Error>());
    assert!(refused.code() == Code::Unavailable || ended, "{refused:?}");
}

#[tokio::test]
async fn refusals_of_a_session_reach_the_client_with_their_reason() {
    let door = Served::looping(64 * MIB);
    let channel = door.channel().await;
    let refused = Putter::open(&channel, crate::loopback::REFUSED).await.err().unwrap();
    assert_failed(&refused, Code::PermissionDenied, "PeerNotInPolicy");
    let open = wire::TakeOpen {
        session: crate::loopback::NEVER_READY.to_owned(),
        timeout_ms: 50,
        ..Default::default()
    };
    let waited = Taker::open_with(&channel, open).await.err().unwrap();
    assert_failed(&waited, Code::Unavailable, "NoReplicas");
}
