//! How fast tensors pass. Reported, never judged: run with `--ignored --nocapture`.

use std::time::Instant;

use bytes::Bytes;
use sealane_sidecar_api::door as wire;
use sealane_sidecar_api::door::put_request::Message as Ask;
use sealane_sidecar_api::door::take_response::Message as News;
use tonic::transport::Channel;

use crate::grpc::client::{Putter, Taker, tensor};
use crate::grpc::served::{MIB, Served};

const TOTAL: usize = 1 << 30;

/// What one size reached: GB/s from the first message to the last one taken, and the processor's seconds for each GB,
/// clients and sidecars together. On a busy machine only the latter says something.
async fn measure(from: &Channel, to: &Channel, session: &str, length: usize) -> String {
    let count = (TOTAL / length).min(40_000);
    let mut putter = Putter::open(from, session).await.unwrap();
    let mut taker = Taker::open(to, session).await.unwrap();
    let asks = putter.asks();
    let data = Bytes::from(vec![7; length]);
    let (began, spent) = (Instant::now(), processor_seconds());
    let putting = tokio::spawn(async move {
        for _ in 0..count {
            let shape = vec![length as u64];
            let first = data.slice(..length.min(1 << 20));
            let head = wire::PutTensor { shape, ..tensor(first) };
            asks.send(wire::PutRequest { message: Some(Ask::Tensor(head)) }).await.unwrap();
            for offset in (1 << 20..length).step_by(1 << 20) {
                let part = data.slice(offset..length.min(offset + (1 << 20)));
                let chunk = wire::Chunk { offset: offset as u64, data: part };
                asks.send(wire::PutRequest { message: Some(Ask::Chunk(chunk)) }).await.unwrap();
            }
        }
    });
    let taking = tokio::spawn(async move {
        for _ in 0..count {
            let News::Tensor(tensor) = taker.hear().await.unwrap() else { panic!("no tensor") };
            let mut offset = tensor.data.len();
            while offset < length {
                let News::Chunk(chunk) = taker.hear().await.unwrap() else { panic!("no chunk") };
                offset += chunk.data.len();
            }
            taker.take(tensor.delivery).await;
        }
        taker
    });
    while putter.settled.len() < count {
        putter.hear().await.unwrap();
    }
    let (seconds, spent) = (began.elapsed().as_secs_f64(), processor_seconds() - spent);
    putting.await.unwrap();
    putter.close().await;
    taking.await.unwrap().finish().await;
    let gigabytes = (count * length) as f64 / 1e9;
    format!("{:.2} GB/s, {:.2} s of processor for each GB", gigabytes / seconds, spent / gigabytes)
}

/// User and system time of this process so far.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
    ticks / 100.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures; takes a while"]
#[expect(clippy::print_stdout, reason = "figures are for whoever runs it")]
async fn speed() {
    let door = Served::looping(512 * MIB);
    for (name, length) in [("64 KiB", 64 << 10), ("1 MiB", 1 << 20), ("16 MiB", 16 << 20)] {
        let (from, to) = (door.channel().await, door.channel().await);
        let session = format!("speed-{length}");
        let rate = measure(&from, &to, &session, length).await;
        println!("one door, looped back, {name}: {rate}");
    }
    for (name, length) in [("64 KiB", 64 << 10), ("1 MiB", 1 << 20), ("16 MiB", 16 << 20)] {
        let (from, to) = Served::pair();
        let (sending, receiving) = (from.channel().await, to.channel().await);
        let rate = measure(&sending, &receiving, "activations", length).await;
        println!("two sidecars, {name}: {rate}");
    }
}
