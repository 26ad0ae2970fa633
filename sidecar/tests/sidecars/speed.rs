//! How fast two sidecars in one process are, clients' memory included. Not a benchmark: a way to see a step backwards.
//! `cargo test -p sealane-sidecar --release --test sidecars -- --ignored --nocapture speed`

use std::time::Instant;

use sealane_sidecar::handoff::Turn;

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::support::pair;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, and takes a few seconds"]
#[expect(clippy::print_stdout, reason = "its only result is what it prints")]
async fn speed_of_one_stream() {
    let (from, to) = pair();
    let mut sequence = 0;
    for (length, count) in [(1536_u64, 200_000_u64), (64 << 10, 20_000), (1 << 20, 2_000), (8 << 20, 300)] {
        let (lane, events) = sender(&from.lanes).await;
        passing_on(events);
        let mut receiver = Receiver::open(&to.lanes, 256 << 20).await;
        let first = sequence;
        sequence += count;
        let template = parcel(0, length);
        let began = Instant::now();
        let put = tokio::spawn(async move {
            for number in first..first + count {
                let mut parcel = template.clone();
                parcel.sequence.0 = number;
                lane.offer(parcel).await.unwrap();
            }
            lane.close().await.unwrap();
        });
        for _ in 0..count {
            let Turn::Tensor(delivery) = receiver.turn().await else { panic!("no tensor") };
            receiver.take(&delivery);
        }
        put.await.unwrap();
        assert_eq!(receiver.turn().await, Turn::End);
        let seconds = began.elapsed().as_secs_f64();
        let rate = (length * count) as f64 / seconds / 1e9;
        println!("{length:>8} B: {rate:.2} GB/s, {:.0} tensors/s", count as f64 / seconds);
    }
}
