//! What a connection that carries nothing costs in memory, by the allocator's own count.
//!
//! A process of its own: what other tests allocate would be counted with it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "sidecars/support.rs"]
#[expect(dead_code, reason = "shared with the tests that this was written for")]
mod support;

use std::time::Duration;

use sealane_types::Carrier;
use serde_json::json;

use crate::support::{Plan, Sidecar, carrier, document, signed, until};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Bytes at one end of an idle connection, its session and its streams' state included: 11.2 KB over TCP, and 15.5 to 16.1
/// KB over UDP, where what the kernel has of a TCP connection is ours, and the path is told. What comes and goes meanwhile
/// has half a KiB.
const BYTES_MAX: usize = 12 << 10;
const UDP_BYTES_MAX: usize = (16 << 10) + 512;
/// Of how long it is looked for the quiet.
const LOOKS: u32 = 80;
const LOOK: Duration = Duration::from_millis(100);
const FEW: usize = 8;
const MANY: usize = 72;

/// Two sidecars and a connection between them for each of `count` sessions.
fn connected(count: usize) -> (Sidecar, Sidecar) {
    let names: Vec<&'static str> = (1..count).map(|number| &*format!("session-{number}").leak()).collect();
    let names: &'static [&'static str] = names.leak();
    let mut policy = document(1);
    let session = policy["sessions"][0].clone();
    for name in names {
        let mut more = session.clone();
        more["name"] = json!(name);
        policy["sessions"].as_array_mut().unwrap().push(more);
    }
    let chain = signed(&policy, &[1, 2]);
    let receiver = Plan { chain: chain.clone(), more: names, ..Plan::receiver() }.start();
    let sender = Plan { chain, more: names, ..Plan::sender(&[receiver.address]) }.start();
    (sender, receiver)
}

fn connections(sidecar: &Sidecar) -> usize {
    let metrics = sidecar.node.render_metrics().unwrap();
    metrics.lines().filter(|line| line.starts_with("sealane_connections{") && line.ends_with(" 1")).count()
}

fn live() -> usize {
    dhat::HeapStats::get().curr_bytes
}

/// The least that is live within some seconds: buffers go back when nothing was sent for a second, and between two
/// keep-alives there are five.
async fn quiet() -> usize {
    let mut least = live();
    for _ in 0..LOOKS {
        tokio::time::sleep(LOOK).await;
        least = least.min(live());
    }
    least
}

#[tokio::test]
async fn an_idle_connection_holds_little_memory() {
    let _counting = dhat::Profiler::builder().testing().build();
    // What the first sidecars of a process make for all: keys of the simulated platform, and the like.
    let first = connected(1);
    until("the first connection", || connections(&first.0) == 1 && connections(&first.1) == 1).await;
    let before = live();
    let few = connected(FEW);
    until("few connections", || connections(&few.0) == FEW && connections(&few.1) == FEW).await;
    // Both are looked at in the quiet: what few hold too much would be taken for what many need not.
    let of_few = quiet().await - before;
    let before = live();
    let many = connected(MANY);
    until("many connections", || connections(&many.0) == MANY && connections(&many.1) == MANY).await;
    let each = quiet().await.saturating_sub(before + of_few) / (2 * (MANY - FEW));
    let most = if carrier() == Some(Carrier::Udp) { UDP_BYTES_MAX } else { BYTES_MAX };
    assert!(each <= most, "{each} bytes");
}
