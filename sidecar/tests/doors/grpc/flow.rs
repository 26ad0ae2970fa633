//! Tensors from client to client, through two attested sidecars.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sealane_sidecar_api::door as wire;
use sealane_types::Dtype;
use tonic::Code;

use crate::grpc::client::{Came, Putter, Taker, assert_failed, bytes, put, tensor, word};
use crate::grpc::served::{MIB, Served};
use crate::support::{LIMIT, Plan, at_rest, within};

const SESSION: &str = "activations";

#[tokio::test]
async fn every_dtype_and_shape_arrives_as_it_was_put() {
    let (from, to) = Served::pair();
    let mut putter = Putter::open(&from.channel().await, SESSION).await.unwrap();
    let mut taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    let shapes: [&[u64]; 5] = [&[], &[0], &[3, 5], &[1 << 40, 0, 7], &[2; 11]];
    let mut tensors = Vec::new();
    for dtype in Dtype::ALL {
        for shape in shapes {
            let elements: u64 = if shape.contains(&0) { 0 } else { shape.iter().product() };
            let sequence = tensors.len() as u64;
            let length = (elements * dtype.size_bytes()) as usize;
            tensors.push(wire::PutTensor {
                dtype: i32::from(dtype.code()) + 1,
                shape: shape.to_vec(),
                name: format!("{dtype} é {}", shape.len()),
                ..tensor(bytes(sequence, length))
            });
        }
    }
    for put in &tensors {
        putter.say(wire::put_request::Message::Tensor(put.clone())).await;
    }
    for (sequence, put) in tensors.iter().enumerate() {
        let came = taker.tensor().await;
        assert_eq!((came.sequence, came.dtype, &came.shape), (sequence as u64, put.dtype, &put.shape));
        assert_eq!((&came.name, came.length), (&put.name, put.data.len() as u64));
        assert_eq!(came.sender, "embedder/embedder-0");
        taker.take(came.delivery).await;
    }
    assert_eq!(putter.flush().await, 0);
    let count = tensors.len() as u64;
    assert_eq!((putter.accepted, putter.settled.len() as u64), (count, count));
    let settled = putter.close().await;
    assert!(settled.values().all(|taken| *taken));
    taker.finish().await;
}

#[tokio::test]
async fn many_small_tensors_keep_their_order() {
    const COUNT: u64 = 5000;
    let (from, to) = Served::pair();
    let mut putter = Putter::open(&from.channel().await, SESSION).await.unwrap();
    let mut taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    let asks = putter.asks();
    let putting = tokio::spawn(async move {
        for sequence in 0..COUNT {
            put(&asks, sequence, 1 + (sequence % 700) as usize).await;
        }
    });
    let taking = tokio::spawn(async move {
        for sequence in 0..COUNT {
            assert_eq!(taker.taken().await, sequence);
        }
        taker
    });
    while (putter.settled.len() as u64) < COUNT {
        putter.hear().await.unwrap();
    }
    within("putting", putting).await.unwrap();
    putter.close().await;
    within("taking", taking).await.unwrap().finish().await;
}

#[tokio::test]
async fn a_tensor_of_300_megabytes_passes_in_chunks() {
    const LENGTH: usize = 300_000_001;
    let (from, to) = Served::pair();
    let mut putter = Putter::open(&from.channel().await, SESSION).await.unwrap();
    let mut taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    let asks = putter.asks();
    let putting = tokio::spawn(async move { put(&asks, 0, LENGTH).await });
    let taking = tokio::spawn(async move {
        assert_eq!(taker.taken().await, 0);
        taker
    });
    putting.await.unwrap();
    let taker = taking.await.unwrap();
    assert_eq!(putter.flush().await, 0);
    putter.close().await;
    taker.finish().await;
}

/// What the sending sidecar keeps of a lane until it is taken, and what windows and this test's own buffers hold.
const UNDER_WAY_MAX: u64 = 64 + 8;

#[tokio::test]
async fn a_receiver_that_takes_nothing_stops_the_sender() {
    let (from, to) = Served::pair();
    let mut putter = Putter::open(&from.channel().await, SESSION).await.unwrap();
    let mut taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    let asks = putter.asks();
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let putting = tokio::spawn(async move {
        for sequence in 0..400 {
            put(&asks, sequence, MIB as usize).await;
            counted.store(sequence + 1, Ordering::SeqCst);
        }
    });
    // Standing still is what is waited for: a busy machine may be taken for it, and then less is under way.
    let stalled = at_rest("what is under way", || count.load(Ordering::SeqCst)).await;
    assert!(stalled <= UNDER_WAY_MAX, "{stalled} MiB are under way to a receiver that takes nothing");
    let hearing = tokio::spawn(async move {
        while putter.settled.len() < 400 {
            putter.hear().await.unwrap();
        }
        putter.close().await;
    });
    for sequence in 0..400 {
        assert_eq!(taker.taken().await, sequence);
    }
    putting.await.unwrap();
    hearing.await.unwrap();
    taker.finish().await;
}

#[tokio::test]
async fn a_client_that_dies_in_the_middle_of_a_tensor_delivers_none_of_it() {
    let (from, to) = Served::pair();
    let channel = from.channel().await;
    let mut putter = Putter::open(&channel, SESSION).await.unwrap();
    let mut taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    putter.put(100).await;
    assert_eq!(taker.taken().await, 0);
    let half = wire::PutTensor { shape: vec![9 * MIB], ..tensor(bytes(1, 3 << 20)) };
    putter.say(wire::put_request::Message::Tensor(half)).await;
    drop((putter, channel));
    assert_eq!(taker.next().await.unwrap(), Came::Interrupted("embedder/embedder-0".to_owned()));
    // The session goes on with the next client.
    let mut putter = Putter::open(&from.channel().await, SESSION).await.unwrap();
    let sequence = putter.put(5).await;
    assert_eq!(taker.taken().await, sequence);
    putter.close().await;
    taker.finish().await;
}

#[tokio::test]
async fn what_a_lost_receiver_had_and_did_not_take_is_uncertain() {
    let (from, to) = Served::pair();
    let mut putter = Putter::open(&from.channel().await, SESSION).await.unwrap();
    let mut taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    for _ in 0..3 {
        putter.put(1000).await;
    }
    let first = taker.tensor().await;
    let _second = taker.tensor().await;
    let _third = taker.tensor().await;
    taker.take(first.delivery).await;
    while putter.settled.is_empty() {
        putter.hear().await.unwrap();
    }
    drop(taker);
    assert_eq!(putter.flush().await, 2);
    assert_eq!(putter.settled.values().copied().collect::<Vec<_>>(), [true, false, false]);
    // What comes afterwards goes to the next receiver.
    let mut taker = Taker::open(&to.channel().await, SESSION).await.unwrap();
    let sequence = putter.put(1000).await;
    assert_eq!(taker.taken().await, sequence);
    assert_eq!(putter.flush().await, 0, "each is counted once");
    putter.close().await;
    taker.finish().await;
}

#[tokio::test]
async fn what_is_handed_over_counts_as_taken_if_the_client_says_so() {
    let (from, to) = Served::pair();
    let putter = Putter::open(&from.channel().await, SESSION).await.unwrap();
    let open = wire::TakeOpen {
        session: SESSION.to_owned(),
        acknowledge: wire::Acknowledge::Automatic as i32,
        ..Default::default()
    };
    let mut taker = Taker::open_with(&to.channel().await, open).await.unwrap();
    let asks = putter.asks();
    let closing = tokio::spawn(async move {
        for sequence in 0..20 {
            put(&asks, sequence, (sequence as usize) << 18).await;
        }
        putter.close().await
    });
    for sequence in 0..20 {
        assert_eq!(taker.tensor().await.sequence, sequence);
    }
    taker.finish().await;
    assert!(closing.await.unwrap().values().all(|taken| *taken));
}

/// What buffers between a sidecar and its client may hold, in tensors of 1 MiB: this test's window, and the sidecar's.
const IN_BUFFERS_MAX: usize = 8 + 8;

#[tokio::test]
async fn a_client_that_left_has_taken_no_more_than_lay_in_buffers() {
    const COUNT: u64 = 40;
    let (from, to) = Served::pair();
    let mut putter = Putter::open(&from.channel().await, SESSION).await.unwrap();
    let open = wire::TakeOpen {
        session: SESSION.to_owned(),
        acknowledge: wire::Acknowledge::Automatic as i32,
        ..Default::default()
    };
    let leaves = Taker::open_with(&to.channel().await, open).await.unwrap();
    let asks = putter.asks();
    let putting = tokio::spawn(async move {
        for sequence in 0..COUNT {
            put(&asks, sequence, MIB as usize).await;
        }
    });
    while putter.accepted < COUNT {
        putter.hear().await.unwrap();
    }
    putting.await.unwrap();
    drop(leaves);
    let mut stays = Taker::open(&to.channel().await, SESSION).await.unwrap();
    let closing = tokio::spawn(putter.close());
    let mut seen = Vec::new();
    loop {
        match stays.next().await.unwrap() {
            Came::Tensor(tensor) => {
                stays.take(tensor.delivery).await;
                seen.push(tensor.sequence);
            }
            Came::Interrupted(sender) => panic!("{sender} was not lost"),
            Came::Ended => break,
        }
    }
    let settled = closing.await.unwrap();
    let taken = settled.values().filter(|taken| **taken).count();
    let uncertain = settled.len() - taken;
    assert_eq!(settled.len() as u64, COUNT);
    assert!(
        taken - seen.len() <= IN_BUFFERS_MAX,
        "{taken} taken, {} of them seen, {uncertain} uncertain",
        seen.len()
    );
}

#[tokio::test]
async fn without_the_other_side_lanes_are_not_ready_and_say_why() {
    let nobody = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
    let from = Served::real(Plan::sender(&[nobody]), 64 * MIB);
    let channel = from.channel().await;
    let open =
        |session: &str| wire::PutOpen { session: session.to_owned(), timeout_ms: 200, ..Default::default() };
    // Before the first dial failed, there only is no replica yet.
    let refused = within("a dial that failed", async {
        loop {
            let refused = Putter::open_with(&channel, open(SESSION)).await.err().unwrap();
            if word(&refused) == "Unreachable" {
                return refused;
            }
        }
    });
    assert_failed(&refused.await, Code::Unavailable, "Unreachable");
    let unknown = Putter::open_with(&channel, open("nowhere")).await.err().unwrap();
    assert_failed(&unknown, Code::Unavailable, "SessionUnknown");
    let take = wire::TakeOpen { session: SESSION.to_owned(), timeout_ms: 200, ..Default::default() };
    let wrong = Taker::open_with(&channel, take).await.err().unwrap();
    assert_failed(&wrong, Code::PermissionDenied, "SessionNotInPolicy");
}

#[tokio::test]
async fn an_impostor_gets_nothing() {
    let impostor = Served::real(Plan { proves: "other", ..Plan::receiver() }, 64 * MIB);
    let address = impostor.sidecar.as_ref().unwrap().address;
    let from = Served::real(Plan::sender(&[address]), 64 * MIB);
    let timeout_ms = LIMIT.as_millis() as u32;
    let open = wire::PutOpen { session: SESSION.to_owned(), timeout_ms, ..Default::default() };
    let refused = Putter::open_with(&from.channel().await, open).await.err().unwrap();
    assert_failed(&refused, Code::PermissionDenied, "HostDataMismatch");
}
