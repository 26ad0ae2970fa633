//! A crowd of strangers: connections from many addresses at a steady rate, each of which gets as far into a handshake as
//! it can and proves nothing. It runs as a process of its own, so that what it costs is not counted as the sidecar's.

mod attempt;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sealane_types::Digest;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use attempt::{Ending, Kind, Plan};

/// Loopback addresses that connections come from.
const SOURCES: u32 = 64;
/// Connections that are held at one time; more than the sidecar admits.
const HELD_MAX: usize = 2_000;
/// Files beside connections.
const FILES_SPARE: u64 = 200;

/// What the process is told.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Who is flooded
    #[arg(long)]
    pub target: SocketAddr,
    /// Connections per second
    #[arg(long)]
    pub rate: u32,
    /// For how long
    #[arg(long)]
    pub milliseconds: u64,
    /// Epoch of the policy that strangers know, as anyone may
    #[arg(long)]
    pub epoch: u64,
    /// Its digest
    #[arg(long)]
    pub digest: Digest,
}

/// What became of the connections.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tally {
    /// Connections that were begun.
    pub begun: u64,
    /// The other side accepted the TCP connection.
    pub connected: u64,
    /// It closed before any answer.
    pub closed_at_once: u64,
    /// It shook hands, and asked for evidence.
    pub asked_for_evidence: u64,
    /// It refused the evidence, or lost patience.
    pub closed_later: u64,
    /// Still held when the flood ended.
    pub held: u64,
    /// Nothing may ever come here: a stranger was taken for a peer.
    pub established: u64,
}

#[derive(Debug, Default)]
struct Counters([AtomicU64; 7]);

impl Counters {
    fn add(&self, field: usize) {
        self.0[field].fetch_add(1, Ordering::Relaxed);
    }

    fn tally(&self) -> Tally {
        let [begun, connected, closed_at_once, asked_for_evidence, closed_later, held, established] =
            std::array::from_fn(|field| self.0[field].load(Ordering::Relaxed));
        Tally { begun, connected, closed_at_once, asked_for_evidence, closed_later, held, established }
    }
}

const BEGUN: usize = 0;
const CONNECTED: usize = 1;
const CLOSED_AT_ONCE: usize = 2;
const ASKED: usize = 3;
const CLOSED_LATER: usize = 4;
const HELD: usize = 5;
const ESTABLISHED: usize = 6;

/// Floods `options.target`, and tells what became of it.
///
/// # Errors
/// An environment in which nothing can be opened.
pub fn flood(options: &Options) -> Result<Tally> {
    raise_file_limit(HELD_MAX as u64 + FILES_SPARE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(crowd(options))
}

async fn crowd(options: &Options) -> Result<Tally> {
    let plan = Arc::new(Plan::new(options.epoch, options.digest).context("making a stranger's keys")?);
    let counters = Arc::new(Counters::default());
    let places = Arc::new(Semaphore::new(HELD_MAX));
    let began = Instant::now();
    let length = Duration::from_millis(options.milliseconds);
    let step = Duration::from_secs(1) / options.rate.max(1);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0_u32.. {
        let due = step * number;
        if due >= length {
            break;
        }
        tokio::time::sleep_until((began + due).into()).await;
        // Without a place, the crowd is as large as it gets; the missed connection shows in the tally.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (plan, counters, target) = (Arc::clone(&plan), Arc::clone(&counters), options.target);
        let left = length.saturating_sub(due);
        tasks.spawn(async move {
            let _place = place;
            one(&plan, &counters, target, number, left).await;
        });
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
    Ok(counters.tally())
}

async fn one(plan: &Plan, counters: &Counters, target: SocketAddr, number: u32, left: Duration) {
    counters.add(BEGUN);
    let source = Ipv4Addr::new(127, 77, 0, u8::try_from(1 + number % SOURCES).unwrap_or(1));
    let attempt = plan.attempt(source, target, Kind::of(number), |step| match step {
        attempt::Step::Connected => counters.add(CONNECTED),
        attempt::Step::AskedForEvidence => counters.add(ASKED),
    });
    match tokio::time::timeout(left, attempt).await {
        Err(_) => counters.add(HELD),
        Ok(Ending::ClosedAtOnce) => counters.add(CLOSED_AT_ONCE),
        Ok(Ending::ClosedLater) => counters.add(CLOSED_LATER),
        Ok(Ending::Established) => counters.add(ESTABLISHED),
        Ok(Ending::NotConnected) => {}
    }
}

/// Every held connection is a file. What the system does not grant is missing in what comes of them. Programs that are
/// started later inherit it.
pub(crate) fn raise_file_limit(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let current = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum });
    }
}
