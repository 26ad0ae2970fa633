//! What a connection that carries nothing costs in memory, by the allocator's own count.
//!
//! A process of its own: what other tests allocate would be counted with it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "sidecars/support.rs"]
#[expect(dead_code, reason = "shared with the tests that this was written for")]
mod support;

use std::cell::Cell;
use std::time::{Duration, Instant};

use sealane_fixtures::allowed;
use sealane_types::Carrier;
use serde_json::json;

use crate::support::{Plan, Sidecar, carrier, document, signed, tell, until, until_or};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// What was measured over one carrier; [`allowed`] says how much more is permitted.
struct Measured {
    /// Bytes of two sidecars with [`FEW`] connections between them.
    few: u64,
    /// Bytes at one end of an idle connection more, its session and its streams' state included.
    each: u64,
}

/// 11,300 to 11,700 of each.
const TCP: Measured = Measured { few: 367_700, each: 11_700 };
/// Most of the few are buffers for datagrams; 15,700 to 16,200 of each: what the kernel has of a TCP connection
/// is ours, and the path is told.
const UDP: Measured = Measured { few: 4_742_000, each: 16_200 };
/// How long it is looked for the quiet at least: buffers go back when nothing was sent for a second, and between two
/// keep-alives there are five.
const LOOKS_FOR: Duration = Duration::from_secs(8);
const FEW: u64 = 8;
const MANY: u64 = 72;

/// Two sidecars and a connection between them for each of `count` sessions.
fn connected(count: u64) -> (Sidecar, Sidecar) {
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

fn connections(sidecar: &Sidecar) -> u64 {
    let metrics = sidecar.node.render_metrics().unwrap();
    metrics.lines().filter(|line| line.starts_with("sealane_connections{") && line.ends_with(" 1")).count()
        as u64
}

fn live() -> u64 {
    dhat::HeapStats::get().curr_bytes as u64
}

/// The least that is live, once that is no more than `most`: looked for until then, and for some seconds at least.
async fn quiet(most: u64) -> u64 {
    let (least, began) = (Cell::new(live()), Instant::now());
    let found = || {
        least.set(least.get().min(live()));
        least.get() <= most && began.elapsed() >= LOOKS_FOR
    };
    until_or(found, || format!("{} bytes are live, more than {most}", least.get())).await;
    least.get()
}

#[tokio::test]
async fn an_idle_connection_holds_little_memory() {
    let measured = if carrier() == Some(Carrier::Udp) { UDP } else { TCP };
    let _counting = dhat::Profiler::builder().testing().build();
    // What the first sidecars of a process make for all: keys of the simulated platform, and the like.
    let first = connected(1);
    until("the first connection", || connections(&first.0) == 1 && connections(&first.1) == 1).await;
    let before = live();
    let few = connected(FEW);
    until("few connections", || connections(&few.0) == FEW && connections(&few.1) == FEW).await;
    // Both are looked at in the quiet: what few hold too much would be taken for what many need not.
    let of_few = quiet(before + allowed(measured.few)).await - before;
    let before = live();
    let many = connected(MANY);
    until("many connections", || connections(&many.0) == MANY && connections(&many.1) == MANY).await;
    let ends = 2 * (MANY - FEW);
    let least = quiet(before + of_few + ends * allowed(measured.each)).await;
    tell(&format!(
        "{of_few} bytes of few, {} bytes of each more",
        least.saturating_sub(before + of_few) / ends
    ));
}
