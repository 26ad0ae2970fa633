//! Resumable lanes: a client that kept its tensors goes on after its sidecar was killed.

use std::collections::BTreeMap;

use bytes::Bytes;
use sealane_sidecar_api::door as wire;
use sealane_sidecar_api::door::put_request::Message as Ask;
use sealane_sidecar_api::door::put_response::Message as News;
use tonic::Code;
use tonic::transport::Channel;

use crate::grpc::client::{Putter, Taker, assert_failed, bytes, client, tensor};
use crate::grpc::served::{MIB, Served};
use crate::support::within;

const SESSION: &str = "activations";
const NAME: [u8; 16] = [42; 16];

fn open(base: u64) -> wire::PutOpen {
    wire::PutOpen {
        session: SESSION.to_owned(),
        incarnation: Bytes::from_static(&NAME),
        base,
        resumable: true,
        ..Default::default()
    }
}

async fn note(channel: &Channel, batch: u64) {
    let note = wire::NoteRequest { incarnation: Bytes::from_static(&NAME), batch };
    within("a note", client(channel).note(note)).await.unwrap();
}

#[tokio::test]
async fn nothing_leaves_before_the_client_has_noted_where_it_goes() {
    let (from, to) = Served::pair();
    let channel = from.channel().await;
    let mut putter = Putter::open_with(&channel, open(0)).await.unwrap();
    let mut taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    putter.put(10).await;
    let assigned = loop {
        if let News::Assigned(assigned) = putter.hear().await.unwrap() {
            break assigned;
        }
    };
    assert_eq!((assigned.batch, assigned.assignments.len()), (1, 1));
    assert_eq!(assigned.assignments[0].replicas[0].len(), 16);
    // What another client puts afterwards comes first, over the same connection.
    let mut other = Putter::open(&from.channel().await, SESSION).await.unwrap();
    other.put(20).await;
    let first = taker.tensor().await;
    assert_eq!(first.length, 20);
    taker.take(first.delivery).await;
    other.close().await;
    note(&channel, 1).await;
    let second = taker.tensor().await;
    assert_eq!((second.sequence, second.length), (0, 10));
    taker.take(second.delivery).await;
    putter.close().await;
    taker.finish().await;
    let late = wire::NoteRequest { incarnation: Bytes::from_static(&NAME), batch: 2 };
    let status = within("no lane", async {
        loop {
            if let Err(status) = client(&channel).note(late.clone()).await {
                break status;
            }
        }
    })
    .await;
    assert_failed(&status, Code::NotFound, "SessionUnknown");
}

#[tokio::test]
async fn a_client_that_kept_its_tensors_goes_on_after_its_sidecar_was_killed() {
    const COUNT: u64 = 12;
    let (from, to) = Served::pair();
    let channel = from.channel().await;
    let mut putter = Putter::open_with(&channel, open(0)).await.unwrap();
    let mut taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    for _ in 0..COUNT {
        putter.put(50_000).await;
    }
    let mut assigned: BTreeMap<u64, Vec<Bytes>> = BTreeMap::new();
    let mut seen = Vec::new();
    while putter.settled.len() < 3 {
        if let News::Assigned(news) = putter.hear().await.unwrap() {
            assigned.extend(news.assignments.into_iter().map(|one| (one.sequence, one.replicas)));
            note(&channel, news.batch).await;
        }
        while assigned.len() as u64 == COUNT && seen.len() < 3 {
            seen.push(taker.taken().await);
        }
    }
    let settled = putter.settled.clone();
    let from = Served::real(from.kill(), 512 * MIB);
    let status = putter.failure().await;
    assert!(matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Internal), "{status:?}");
    let kept: Vec<u64> = (0..COUNT).filter(|sequence| !settled.contains_key(sequence)).collect();
    let channel = from.channel().await;
    let mut putter = Putter::open_with(&channel, open(kept[0])).await.unwrap();
    for sequence in &kept {
        let again = wire::PutTensor {
            sequence: Some(*sequence),
            replicas: assigned.get(sequence).cloned().unwrap_or_default(),
            ..tensor(bytes(*sequence, 50_000))
        };
        putter.say(Ask::Tensor(again)).await;
    }
    let left = kept.len();
    let hearing = tokio::spawn(async move {
        while putter.settled.len() < left {
            if let News::Assigned(news) = putter.hear().await.unwrap() {
                note(&channel, news.batch).await;
            }
        }
        putter
    });
    while (seen.len() as u64) < COUNT {
        match taker.next().await.unwrap() {
            crate::grpc::client::Came::Tensor(tensor) => {
                taker.take(tensor.delivery).await;
                seen.push(tensor.sequence);
            }
            // The sidecar was away for long enough to be missed.
            crate::grpc::client::Came::Interrupted(_) => {}
            crate::grpc::client::Came::Ended => panic!("the end, after {seen:?}"),
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..COUNT).collect::<Vec<_>>(), "each comes once");
    let putter = within("the last word", hearing).await.unwrap();
    assert!(putter.close().await.values().all(|taken| *taken));
    taker.finish().await;
}
