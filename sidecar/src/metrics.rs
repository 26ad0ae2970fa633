//! Metrics, prefix `sealane_`; `docs/metrics.md` lists them all. What may be a label is said in [`labels`].

mod collateral;
mod door;
mod handshake;
pub(crate) mod labels;
mod path;
mod process;
mod register;
mod session;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sealane_types::UnixSeconds;

pub(crate) use self::collateral::Collateral;
pub(crate) use self::door::Door;
pub(crate) use self::handshake::{Handshakes, Proofs};
use self::labels::{BuildLabels, SessionLabels};
pub(crate) use self::path::{Paths, Watched};
pub(crate) use self::session::{Connections, Lanes, Pipes, Traffic};
pub(crate) use self::state::{Control, Spans, State, tell};

/// How long connections and lanes of a session that is gone may still count something: each of them ends within seconds.
const LATE_COUNTS: Duration = Duration::from_secs(60);

/// Every series of this process.
pub(crate) struct Metrics {
    registry: Registry,
    /// Sessions that have series, and since which look they are gone.
    sessions: Mutex<BTreeMap<SessionLabels, Option<Instant>>>,
    pub(crate) connections: Connections,
    pub(crate) handshakes: Handshakes,
    pub(crate) proofs: Proofs,
    pub(crate) collateral: Collateral,
    pub(crate) state: State,
    pub(crate) control: Control,
    pub(crate) lanes: Lanes,
    pub(crate) traffic: Traffic,
    pub(crate) pipes: Pipes,
    pub(crate) paths: Paths,
    pub(crate) door: Door,
    pub(crate) spans: Spans,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Of a process that started at `started`.
    #[must_use]
    pub(crate) fn new(started: UnixSeconds) -> Self {
        let mut registry = Registry::with_prefix("sealane");
        let build: Family<BuildLabels, Gauge> =
            register::register(&mut registry, "build_info", "Version of this sidecar, always 1");
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register_collector(Box::new(process::Process { started }));
        Self {
            sessions: Mutex::default(),
            connections: Connections::new(&mut registry),
            handshakes: Handshakes::new(&mut registry),
            proofs: Proofs::new(&mut registry),
            collateral: Collateral::new(&mut registry),
            state: State::new(&mut registry),
            control: Control::new(&mut registry),
            lanes: Lanes::new(&mut registry),
            traffic: Traffic::new(&mut registry),
            pipes: Pipes::new(&mut registry),
            paths: Paths::new(&mut registry),
            door: Door::new(&mut registry),
            spans: Spans::new(&mut registry),
            registry,
        }
    }

    /// Drops the series of sessions that are gone, so that names which come and go do not pile up. A session that has
    /// just ended keeps them for one more look: its connections and lanes still have something to count. What they count
    /// later would make a series anew, which each look drops until none of them can be left.
    pub(crate) fn keep_sessions(&self, present: &[SessionLabels], now: Instant) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|labels, gone| {
            if present.contains(labels) {
                return true;
            }
            let Some(since) = *gone else {
                *gone = Some(now);
                return true;
            };
            self.forget(labels);
            now.duration_since(since) < LATE_COUNTS
        });
        present.iter().for_each(|labels| self.connections.begin(labels));
        sessions.extend(present.iter().map(|labels| (labels.clone(), None)));
    }

    fn forget(&self, labels: &SessionLabels) {
        self.connections.forget(labels);
        self.lanes.forget(labels);
        self.traffic.forget(labels);
        self.pipes.forget(labels);
        self.paths.forget(labels);
    }

    /// The OpenMetrics text.
    ///
    /// # Errors
    /// When a value cannot be written, which would be a fault of the library.
    pub(crate) fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
