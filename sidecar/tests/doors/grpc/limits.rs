//! How many of everything there may be, and that lanes which stand still hold up no others.

use sealane_sidecar::config::ARENA_BYTES;
use sealane_sidecar_api::door as wire;
use sealane_sidecar_api::door::put_request::Message as PutAsk;
use sealane_sidecar_api::door::put_response::Message as PutNews;
use tonic::Code;

use crate::grpc::client::{Putter, Taker, assert_failed, client, put};
use crate::grpc::served::{MIB, Served};
use crate::support::within;

const CLIENTS_MAX: usize = 32;
const TURNED_AWAY_MAX: usize = 8;
const LANES_PER_CLIENT_MAX: usize = 16;

#[tokio::test]
async fn one_client_too_many_is_told_so_and_many_too_many_are_not_served() {
    let door = Served::looping(64 * MIB);
    let mut channels = Vec::new();
    for _ in 0..CLIENTS_MAX {
        let channel = door.channel().await;
        client(&channel).health(wire::HealthRequest {}).await.unwrap();
        channels.push(channel);
    }
    let mut turned_away = Vec::new();
    for _ in 0..TURNED_AWAY_MAX {
        let channel = door.channel().await;
        let status = client(&channel).health(wire::HealthRequest {}).await.err().unwrap();
        assert_failed(&status, Code::ResourceExhausted, "LimitExceeded");
        let status = Putter::open(&channel, "full").await.err().unwrap();
        assert_failed(&status, Code::ResourceExhausted, "LimitExceeded");
        turned_away.push(channel);
    }
    let mut stream = tokio::net::UnixStream::connect(door.path()).await.unwrap();
    let mut answer = Vec::new();
    let read = within("the end", tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer)).await;
    assert!(read.is_err() || answer.is_empty(), "it is hung up on");
    drop(turned_away);
    // A seat that becomes free is given to the next.
    channels.pop();
    within("a free seat", async {
        loop {
            // The door may still be busy with those that it turned away.
            if let Ok(channel) = door.try_channel().await
                && client(&channel).health(wire::HealthRequest {}).await.is_ok()
            {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_has_so_many_lanes_and_no_more() {
    let door = Served::looping(512 * MIB);
    let channel = door.channel().await;
    let mut lanes = Vec::new();
    for number in 0..LANES_PER_CLIENT_MAX {
        lanes.push(Taker::open(&channel, &format!("lane-{number}")).await.unwrap());
    }
    let status = Taker::open(&channel, "lane-more").await.err().unwrap();
    assert_failed(&status, Code::ResourceExhausted, "LimitExceeded");
    assert!(status.message().contains("16 lanes of this connection"), "{status:?}");
    // Asking is still possible, and so is another connection.
    client(&channel).health(wire::HealthRequest {}).await.unwrap();
    Taker::open(&door.channel().await, "lane-more").await.unwrap();
    lanes.pop();
    within("a free seat", async { while Taker::open(&channel, "lane-again").await.is_err() {} }).await;
}

#[tokio::test]
async fn lanes_pay_from_the_memory_of_the_pod() {
    let door = Served::looping(32 * MIB);
    let channel = door.channel().await;
    let mut lanes = Vec::new();
    let status = loop {
        match Putter::call(&channel).await {
            Ok(putter) => lanes.push(putter),
            Err(status) => break status,
        }
    };
    assert_failed(&status, Code::ResourceExhausted, "LimitExceeded");
    assert!((2..5).contains(&lanes.len()), "{} lanes in 24 MiB", lanes.len());
    lanes.clear();
    within("memory again", async { while Putter::open(&channel, "paid").await.is_err() {} }).await;
}

#[tokio::test]
async fn sixty_four_lanes_of_each_side_work_with_the_memory_of_the_defaults() {
    let door = Served::looping(ARENA_BYTES);
    let (mut putters, mut takers) = (Vec::new(), Vec::new());
    for first in (0..64).step_by(LANES_PER_CLIENT_MAX) {
        let (from, to) = (door.channel().await, door.channel().await);
        for number in first..first + LANES_PER_CLIENT_MAX {
            let session = format!("lane-{number}");
            putters.push(Putter::open(&from, &session).await.unwrap());
            takers.push(Taker::open(&to, &session).await.unwrap());
        }
    }
    for round in 0..3 {
        for (putter, taker) in putters.iter_mut().zip(&mut takers) {
            assert_eq!(putter.put(300 << 10).await, round);
            assert_eq!(taker.taken().await, round);
        }
    }
    for (putter, taker) in putters.into_iter().zip(takers) {
        putter.close().await;
        taker.finish().await;
    }
}

#[tokio::test]
async fn the_largest_tensor_that_a_lane_is_told_of_fits_beside_the_lane() {
    // Not a multiple of what segments are made of.
    let door = Served::looping(64 * MIB + 12_345);
    let channel = door.channel().await;
    let mut putter = Putter::call(&channel).await.unwrap();
    let open = wire::PutOpen { session: "largest".to_owned(), ..Default::default() };
    putter.say(PutAsk::Open(open)).await;
    let PutNews::Opened(opened) = putter.hear().await.unwrap() else { panic!("not opened") };
    let bytes = opened.tensor_bytes_max;
    assert!(bytes < 48 * MIB && bytes > 40 * MIB, "{bytes}");
    let asks = putter.asks();
    tokio::spawn(async move { put(&asks, 0, usize::try_from(bytes).unwrap()).await });
    within("room for it", async { while !matches!(putter.hear().await.unwrap(), PutNews::Accepted(_)) {} })
        .await;
}

#[tokio::test]
async fn lanes_that_stand_still_hold_up_no_others_of_their_connection() {
    let door = Served::looping(512 * MIB);
    let channel = door.channel().await;
    // Nobody takes: each fills its memory, then its window.
    let mut still = Vec::new();
    for number in 0..3 {
        let putter = Putter::open(&channel, &format!("still-{number}")).await.unwrap();
        let asks = putter.asks();
        still.push((
            putter,
            tokio::spawn(async move {
                for sequence in 0..200 {
                    put(&asks, sequence, 1 << 20).await;
                }
            }),
        ));
    }
    let mut putter = Putter::open(&channel, "moving").await.unwrap();
    let mut taker = Taker::open(&door.channel().await, "moving").await.unwrap();
    for _ in 0..100 {
        let sequence = putter.put(1 << 20).await;
        assert_eq!(taker.taken().await, sequence);
        while !putter.settled.contains_key(&sequence) {
            putter.hear().await.unwrap();
        }
    }
    assert!(still.iter().all(|(_, putting)| !putting.is_finished()), "they stand still");
    still.iter().for_each(|(_, putting)| putting.abort());
}
