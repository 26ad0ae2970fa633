//! Clients that break the rules of `door.proto`: each learns which, and nobody else is disturbed.

use bytes::Bytes;
use sealane_sidecar_api::door as wire;
use sealane_sidecar_api::door::put_request::Message as Ask;
use sealane_sidecar_api::door::take_request::Message as TakeAsk;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tonic::Code;

use crate::grpc::client::{Putter, Taker, assert_failed, bytes, client, tensor};
use crate::grpc::served::{MIB, Served};
use crate::support::within;

fn chunk(offset: u64, data: &'static [u8]) -> Ask {
    Ask::Chunk(wire::Chunk { offset, data: Bytes::from_static(data) })
}

fn shaped(shape: &[u64], data: &'static [u8]) -> Ask {
    Ask::Tensor(wire::PutTensor { shape: shape.to_vec(), ..tensor(Bytes::from_static(data)) })
}

#[tokio::test]
async fn broken_rules_end_the_call_with_their_name() {
    let door = Served::looping(128 * MIB);
    let channel = door.channel().await;
    let malformed = (Code::InvalidArgument, "FrameMalformed");
    let limit = (Code::InvalidArgument, "LimitExceeded");
    let too_large = (Code::ResourceExhausted, "LimitExceeded");
    let reopened = Ask::Open(wire::PutOpen { session: "a".to_owned(), ..Default::default() });
    let unknown = Ask::Tensor(wire::PutTensor { dtype: 99, ..tensor(Bytes::new()) });
    let unset = Ask::Tensor(wire::PutTensor { dtype: 0, ..tensor(Bytes::new()) });
    let late = Ask::Tensor(wire::PutTensor { sequence: Some(3), ..tensor(Bytes::new()) });
    let late_again = Ask::Tensor(wire::PutTensor { sequence: Some(3), ..tensor(Bytes::new()) });
    let named = Ask::Tensor(wire::PutTensor { name: "n".repeat(256), ..tensor(Bytes::new()) });
    let cases: Vec<(&str, Vec<Ask>, (Code, &str))> = vec![
        ("`open` comes once", vec![reopened], malformed),
        ("dtype 99", vec![unknown], malformed),
        ("dtype 0", vec![unset], malformed),
        ("does not grow", vec![late, late_again], malformed),
        ("255 bytes of name", vec![named], limit),
        ("32 dimensions", vec![shaped(&[1; 33], b"1")], limit),
        ("can be counted", vec![shaped(&[1 << 40, 1 << 40], b"1")], limit),
        ("sealane.dev/memory-limit", vec![shaped(&[97 * MIB], b"1")], too_large),
        ("sealane.dev/memory-limit", vec![shaped(&[u64::MAX], b"1")], too_large),
        ("beyond the 2 bytes", vec![shaped(&[2], b"123")], malformed),
        ("beyond the 0 bytes", vec![shaped(&[0], b"1")], malformed),
        ("beyond the 3 bytes", vec![shaped(&[3], b"12"), chunk(2, b"34")], malformed),
        ("begins at 1", vec![shaped(&[3], b"12"), chunk(1, b"3")], malformed),
        ("begins at 3", vec![shaped(&[4], b"12"), chunk(3, b"4")], malformed),
        ("no bytes", vec![shaped(&[3], b"12"), chunk(2, b"")], malformed),
        ("belongs to no tensor", vec![shaped(&[2], b"12"), chunk(2, b"3")], malformed),
        ("1 bytes of the tensor", vec![shaped(&[3], b"12"), shaped(&[1], b"1")], malformed),
        ("1 bytes of the tensor", vec![shaped(&[3], b"12"), Ask::Close(wire::Close {})], malformed),
    ];
    for (expected, asks, (code, reason)) in cases {
        let mut putter = Putter::open(&channel, "hostile").await.unwrap();
        for ask in asks {
            putter.say(ask).await;
        }
        let status = putter.failure().await;
        assert_failed(&status, code, reason);
        assert!(status.message().contains(expected), "{expected}: {status:?}");
    }
    let mut putter = Putter::open(&channel, "hostile").await.unwrap();
    putter.say_nothing().await;
    assert_failed(&putter.failure().await, Code::InvalidArgument, "FrameMalformed");
}

#[tokio::test]
async fn calls_begin_with_open() {
    let door = Served::looping(64 * MIB);
    let channel = door.channel().await;
    let mut putter = Putter::call(&channel).await.unwrap();
    putter.say(shaped(&[1], b"1")).await;
    assert_failed(&putter.failure().await, Code::InvalidArgument, "FrameMalformed");
    let mut taker = Taker::call(&channel).await.unwrap();
    taker.say(TakeAsk::Taken(wire::Taken { deliveries: vec![1] })).await;
    assert_failed(&taker.failure().await, Code::InvalidArgument, "FrameMalformed");
    for session in ["", "Not_A_Name", &"n".repeat(300)] {
        let status = Putter::open(&channel, session).await.err().unwrap();
        assert_failed(&status, Code::InvalidArgument, "FrameMalformed");
    }
    let short =
        wire::PutOpen { session: "a".to_owned(), incarnation: vec![1; 15].into(), ..Default::default() };
    let status = Putter::open_with(&channel, short).await.err().unwrap();
    assert!(status.message().contains("16 bytes, this one 15"), "{status:?}");
    let odd = wire::TakeOpen { session: "a".to_owned(), acknowledge: 9, ..Default::default() };
    let status = Taker::open_with(&channel, odd).await.err().unwrap();
    assert!(status.message().contains("acknowledge 9"), "{status:?}");
}

#[tokio::test]
async fn what_was_not_delivered_cannot_be_taken() {
    let door = Served::looping(64 * MIB);
    let channel = door.channel().await;
    let mut putter = Putter::open(&channel, "claims").await.unwrap();
    let mut taker = Taker::open(&channel, "claims").await.unwrap();
    putter.put(10).await;
    let delivery = taker.tensor().await.delivery;
    taker.take(delivery).await;
    taker.take(delivery).await;
    let status = taker.failure().await;
    assert_failed(&status, Code::InvalidArgument, "FrameMalformed");
    assert!(status.message().contains(&format!("delivery {delivery}")), "{status:?}");
}

#[tokio::test]
async fn a_stream_that_stops_without_close_is_an_interruption() {
    let door = Served::looping(64 * MIB);
    let channel = door.channel().await;
    let mut taker = Taker::open(&channel, "stops").await.unwrap();
    let asks = tokio_stream::iter([
        Ask::Open(wire::PutOpen { session: "stops".to_owned(), ..Default::default() }),
        Ask::Tensor(tensor(bytes(0, 10))),
    ]);
    let asks = tokio_stream::StreamExt::map(asks, |message| wire::PutRequest { message: Some(message) });
    let mut news = client(&channel).put(asks).await.unwrap().into_inner();
    let status = loop {
        if let Err(status) = within("news", news.message()).await {
            break status;
        }
    };
    assert_failed(&status, Code::Aborted, "LinkLost");
    // The tensor was handed over before or not; half of it never comes.
    loop {
        match taker.next().await.unwrap() {
            crate::grpc::client::Came::Tensor(tensor) => taker.take(tensor.delivery).await,
            other => break assert!(matches!(other, crate::grpc::client::Came::Interrupted(_)), "{other:?}"),
        }
    }
}

#[tokio::test]
async fn messages_that_are_too_long_are_refused_before_they_come() {
    let door = Served::looping(64 * MIB);
    let channel = door.channel().await;
    let mut putter = Putter::open(&channel, "long").await.unwrap();
    putter.say(Ask::Tensor(tensor(Bytes::from(vec![0; (4 << 20) + (64 << 10)])))).await;
    let status = putter.failure().await;
    assert_failed(&status, Code::ResourceExhausted, "LimitExceeded");
    assert!(status.message().contains("split tensors into chunks"), "{status:?}");
    // Other calls have small messages.
    let mut taker = Taker::open(&channel, "long").await.unwrap();
    taker.say(TakeAsk::Taken(wire::Taken { deliveries: vec![u64::MAX; 10_000] })).await;
    assert_failed(&taker.failure().await, Code::ResourceExhausted, "LimitExceeded");
    let note = wire::NoteRequest { incarnation: vec![0; 40_000].into(), batch: 0 };
    let status = client(&channel).note(note).await.err().unwrap();
    assert_failed(&status, Code::ResourceExhausted, "LimitExceeded");
    // And the connection is as good as before.
    let mut putter = Putter::open(&channel, "long-after").await.unwrap();
    let mut taker = Taker::open(&channel, "long-after").await.unwrap();
    let sequence = putter.put(5 << 20).await;
    assert_eq!(taker.taken().await, sequence);
}

#[tokio::test]
async fn a_message_of_nothing_but_list_entries_is_refused_by_their_number() {
    let door = Served::looping(64 * MIB);
    let channel = door.channel().await;
    let limit = (Code::InvalidArgument, "LimitExceeded");
    let shape = Ask::Tensor(wire::PutTensor { shape: vec![1; 4 << 20], ..tensor(Bytes::new()) });
    let replicas =
        Ask::Tensor(wire::PutTensor { replicas: vec![Bytes::new(); 2 << 20], ..tensor(Bytes::new()) });
    for (expected, ask) in [("at most 32 dimensions", shape), ("at most 256 replicas", replicas)] {
        let mut putter = Putter::open(&channel, "entries").await.unwrap();
        putter.say(ask).await;
        let status = putter.failure().await;
        assert_failed(&status, limit.0, limit.1);
        assert!(status.message().contains(expected), "{status:?}");
    }
    let status = Putter::open(&channel, &"n".repeat(4 << 20)).await.err().unwrap();
    assert_failed(&status, Code::InvalidArgument, "FrameMalformed");
    assert!(status.message().len() < 200, "{} bytes", status.message().len());
}

#[tokio::test]
async fn what_is_not_http_2_is_hung_up_on() {
    let door = Served::looping(64 * MIB);
    for words in [&b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"[..], &[0; 1000], &[0xff; 70_000]] {
        let mut stream = UnixStream::connect(door.path()).await.unwrap();
        // It may hang up before everything was written.
        let _ = stream.write_all(words).await;
        let mut answer = Vec::new();
        let _ = within("the end", stream.read_to_end(&mut answer)).await;
    }
    let mut client = client(&door.channel().await);
    client.health(wire::HealthRequest {}).await.unwrap();
}
