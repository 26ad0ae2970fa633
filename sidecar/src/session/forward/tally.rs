//! What one side of a forward counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use sealane_types::Reason;
use tokio::sync::Notify;

use crate::context::Context;
use crate::desired::SessionKey;
use crate::metrics::Metrics;
use crate::metrics::labels::{SessionLabels, Way};

/// Totals since the session began here, and the series of its name.
#[derive(Debug)]
pub(super) struct Tally {
    labels: SessionLabels,
    metrics: Arc<Metrics>,
    opened: AtomicU64,
    bytes: AtomicU64,
    pipes: AtomicU64,
    pipes_gauge: Gauge,
    /// Why the last TCP connection was not forwarded.
    problem: Mutex<Option<(Reason, String)>>,
    /// Told when the problem is another one.
    changed: Arc<Notify>,
    sent: Counter,
    received: Counter,
}

impl Tally {
    pub(super) fn new(key: &SessionKey, context: &Context) -> Arc<Self> {
        let metrics = &context.metrics;
        let labels = SessionLabels::of(key);
        let way = |way| metrics.pipes.bytes.get_or_create_owned(&labels.clone().way(way));
        Arc::new(Self {
            opened: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            pipes: AtomicU64::new(0),
            pipes_gauge: metrics.pipes.open.get_or_create_owned(&labels),
            problem: Mutex::default(),
            changed: Arc::clone(&context.changed),
            sent: way(Way::Sent),
            received: way(Way::Received),
            labels,
            metrics: Arc::clone(metrics),
        })
    }

    /// A pipe whose local socket is there.
    pub(super) fn open(self: &Arc<Self>) -> Counted {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.metrics.pipes.opened.get_or_create(&self.labels).inc();
        self.pipes.fetch_add(1, Ordering::Relaxed);
        self.pipes_gauge.inc();
        Counted(Arc::clone(self))
    }

    /// A TCP connection that is not forwarded.
    pub(super) fn refused(&self, reason: Reason) {
        self.metrics.pipes.refused.get_or_create(&self.labels.clone().because(reason)).inc();
    }

    /// A pipe that is over without both ends.
    pub(super) fn reset(&self, reason: Reason) {
        self.metrics.pipes.reset.get_or_create(&self.labels.clone().because(reason)).inc();
    }

    pub(super) fn sent(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.sent.inc_by(bytes);
    }

    pub(super) fn received(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.received.inc_by(bytes);
    }

    /// Whether TCP connections can be forwarded at this end, as far as the last one showed.
    pub(super) fn tell_problem(&self, problem: Option<(Reason, String)>) {
        let mut known = self.lock();
        if *known == problem {
            return;
        }
        if let Some((reason, message)) = &problem {
            tracing::warn!(%reason, "{message}");
        }
        *known = problem;
        drop(known);
        self.changed.notify_one();
    }

    pub(super) fn problem(&self) -> Option<(Reason, String)> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Reason, String)>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Payload of both ways.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// TCP connections carried so far.
    pub(super) fn forwarded(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Whether no TCP connection is carried now.
    pub(super) fn is_idle(&self) -> bool {
        self.pipes.load(Ordering::Relaxed) == 0
    }
}

/// One pipe among those that are open.
#[derive(Debug)]
pub(super) struct Counted(Arc<Tally>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.pipes.fetch_sub(1, Ordering::Relaxed);
        self.0.pipes_gauge.dec();
    }
}
