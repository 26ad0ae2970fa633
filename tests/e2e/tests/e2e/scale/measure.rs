//! What the operator uses, and how often statuses are written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use sealane_e2e::Cluster;

use super::world::World;

/// Ticks of `/proc/PID/stat`: 100 a second on every Linux that Rust's std knows.
const TICKS_PER_SECOND: f64 = 100.0;
/// Nothing was written for this long: what was under way is over.
const QUIET: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(180);

/// The process of the operator that leads, on this machine.
pub(crate) struct Operator {
    process: PathBuf,
}

/// What a process has used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_mib: u64,
    pub(crate) peak_mib: u64,
}

impl Operator {
    pub(crate) async fn find(cluster: &Cluster) -> Result<Self> {
        let leader = cluster
            .kubectl(&[
                "-n",
                "sealane-system",
                "get",
                "pods",
                "-l",
                "sealane.dev/leader=true",
                "-o",
                "jsonpath={.items[0].metadata.name}",
            ])
            .await?;
        let named = format!("SEALANE_POD_NAME={leader}");
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let process = entry.path();
            let command = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            let is_leader = environment.split(|byte| *byte == 0).any(|variable| variable == named.as_bytes());
            if command.starts_with("sealane-operato") && is_leader {
                return Ok(Self { process });
            }
        }
        anyhow::bail!("no process of {leader} on this machine: the figures need the local cluster, and root")
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let stat = std::fs::read_to_string(self.process.join("stat")).context("the operator has ended")?;
        // The name in parentheses may hold blanks; after it, user and system time are the 12th and 13th field.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks =
            |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        let status = std::fs::read_to_string(self.process.join("status"))?;
        let mib = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            let kib =
                line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse::<u64>().ok());
            kib.unwrap_or(0) / 1024
        };
        Ok(Usage {
            cpu_seconds: (ticks(11) + ticks(12)) / TICKS_PER_SECOND,
            resident_mib: mib("VmRSS:"),
            peak_mib: mib("VmHWM:"),
        })
    }

    /// Cores used over `time`.
    pub(crate) async fn cpu_during(&self, time: Duration) -> Result<f64> {
        let before = self.usage()?;
        tokio::time::sleep(time).await;
        let used = self.usage()?.cpu_seconds - before.cpu_seconds;
        Ok((used / time.as_secs_f64() * 1000.0).round() / 1000.0)
    }
}

/// Changes of the custom resources of the namespace. Their specs do not change meanwhile, so each is a status write.
pub(crate) struct Writes {
    seen: Arc<AtomicU64>,
}

impl Writes {
    pub(crate) async fn watch(world: &World<'_>) -> Result<Self> {
        let seen = Arc::new(AtomicU64::new(0));
        for kind in ["Peer", "TransferSession", "TrustPolicy"] {
            let api = world.api(kind);
            let mut version = api.list(&ListParams::default().limit(1)).await?.metadata.resource_version;
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                // A watch ends every few minutes and goes on from where it was.
                while let Some(from) = version.clone() {
                    let Ok(events) = api.watch(&WatchParams::default(), &from).await else { return };
                    let mut events = std::pin::pin!(events);
                    while let Some(Ok(event)) = events.next().await {
                        if let WatchEvent::Modified(object) = event {
                            seen.fetch_add(1, Ordering::Relaxed);
                            version = DynamicObject::clone(&object).metadata.resource_version;
                        }
                    }
                }
            });
        }
        Ok(Self { seen })
    }

    pub(crate) async fn during(&self, time: Duration) -> u64 {
        let before = self.seen.load(Ordering::Relaxed);
        tokio::time::sleep(time).await;
        self.seen.load(Ordering::Relaxed) - before
    }

    /// Waits until what was under way is written.
    pub(crate) async fn settle(&self) {
        let begun = std::time::Instant::now();
        while self.during(QUIET).await > 0 && begun.elapsed() < PATIENCE {}
    }
}

/// The value below which `percent` of `values` lie.
pub(crate) fn percentile(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(0)
}
