//! What the operator counts, for Prometheus; `docs/metrics.md` lists it all. No label names a namespace or an object:
//! whoever may create those could make series without end. Benchmarks alone are named, since they are followed only in
//! namespaces that the chart lists; their series go when they do.

use std::fmt::Error;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::EncodeLabelValue;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::config::Role;
use crate::queue::Queue;

/// What became of a pod at admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Injection {
    Injected,
    Left,
    Refused,
    Failed,
}

/// How a reconciliation or a control-channel registration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Outcome {
    Success,
    Failure,
}

/// Which webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Webhook {
    Pod,
    Resource,
}

/// What the API server was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Verdict {
    Allowed,
    /// Allowed, with a warning for whoever asked.
    Warned,
    Denied,
    /// Too many reviews at once.
    Overloaded,
    TimedOut,
}

/// What became of a status that differed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum StatusWrite {
    Written,
    /// The object is gone, another one has its name, or it has changed since the status was made.
    Gone,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InjectionLabels {
    outcome: Injection,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    webhook: Webhook,
    verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    kind: String,
    outcome: StatusWrite,
}

/// How a benchmark's run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum RunEnd {
    Succeeded,
    Failed,
    Replaced,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BenchmarkLabels {
    /// `NAMESPACE/NAME`: a label `namespace` would be the operator's own where it is scraped.
    benchmark: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    outcome: RunEnd,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
    role: Role,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

/// Every metric, registered once.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    build: Family<BuildLabels, Gauge>,
    injections: Family<InjectionLabels, Counter>,
    reviews: Family<ReviewLabels, Counter>,
    reconciles: Family<OutcomeLabels, Counter>,
    reconcile_seconds: Histogram,
    queue_depth: Gauge,
    status_writes: Family<StatusLabels, Counter>,
    attachments: Family<OutcomeLabels, Counter>,
    attached: Gauge,
    pushes: Counter,
    push_seconds: Histogram,
    leader: Gauge,
    certificate_expires: Family<NoLabels, Gauge<f64, AtomicU64>>,
    benchmark_runs: Family<RunLabels, Counter>,
    benchmark_regressions: Family<BenchmarkLabels, Gauge>,
    benchmark_success: Family<BenchmarkLabels, Gauge<f64, AtomicU64>>,
    /// Of the term, if there is one.
    queue: Mutex<Weak<Queue>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("sealane_operator"),
            build: Family::default(),
            injections: Family::default(),
            reviews: Family::default(),
            reconciles: Family::default(),
            reconcile_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 7)),
            queue_depth: Gauge::default(),
            status_writes: Family::default(),
            attachments: Family::default(),
            attached: Gauge::default(),
            pushes: Counter::default(),
            // From a few milliseconds to a sidecar whose stream is stuck.
            push_seconds: Histogram::new(exponential_buckets(0.004, 4.0, 8)),
            leader: Gauge::default(),
            certificate_expires: Family::default(),
            benchmark_runs: Family::default(),
            benchmark_regressions: Family::default(),
            benchmark_success: Family::default(),
            queue: Mutex::default(),
        };
        metrics.register();
        // Counters start at zero: a rate does not see the event with which a series appears.
        for outcome in [Injection::Injected, Injection::Left, Injection::Refused, Injection::Failed] {
            drop(metrics.injections.get_or_create(&InjectionLabels { outcome }));
        }
        for outcome in [Outcome::Success, Outcome::Failure] {
            drop(metrics.reconciles.get_or_create(&OutcomeLabels { outcome }));
            drop(metrics.attachments.get_or_create(&OutcomeLabels { outcome }));
        }
        for outcome in [RunEnd::Succeeded, RunEnd::Failed, RunEnd::Replaced] {
            drop(metrics.benchmark_runs.get_or_create(&RunLabels { outcome }));
        }
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("build_info", "Version of this process, always 1", self.build.clone());
        registry.register("injections", "Pods reviewed by the injecting webhook", self.injections.clone());
        registry.register("reviews", "Reviews that the API server asked for", self.reviews.clone());
        registry.register(
            "reconciles",
            "Reconciliations of a namespace; one that failed is tried again",
            self.reconciles.clone(),
        );
        registry.register_with_unit(
            "reconcile",
            "Time of one reconciliation",
            Unit::Seconds,
            self.reconcile_seconds.clone(),
        );
        registry.register(
            "queue_depth",
            "Namespaces that are due and not being reconciled",
            self.queue_depth.clone(),
        );
        registry.register(
            "status_writes",
            "Statuses that differed from what was live",
            self.status_writes.clone(),
        );
        registry.register("attachments", "Registrations on the control channel", self.attachments.clone());
        registry.register("attached_sidecars", "Sidecars with an open control stream", self.attached.clone());
        registry.register("pushes", "Configurations pushed to sidecars", self.pushes.clone());
        registry.register_with_unit(
            "push",
            "Time from a push until the sidecar reported that it is in effect",
            Unit::Seconds,
            self.push_seconds.clone(),
        );
        registry.register("leader", "1 on the replica that leads", self.leader.clone());
        registry.register_with_unit(
            "certificate_expires_timestamp",
            "When the serving certificate expires, in seconds since 1970",
            Unit::Seconds,
            self.certificate_expires.clone(),
        );
        registry.register("benchmark_runs", "Runs of Benchmarks that are over", self.benchmark_runs.clone());
        registry.register(
            "benchmark_regressions",
            "Rows of the last run that are worse than they were, beyond doubt and tolerance",
            self.benchmark_regressions.clone(),
        );
        registry.register_with_unit(
            "benchmark_success_timestamp",
            "When the last run that succeeded was complete, in seconds since 1970",
            Unit::Seconds,
            self.benchmark_success.clone(),
        );
    }

    /// Which of the release's processes this is: without one of a kind something else is missing.
    pub fn started(&self, role: Role) {
        self.build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION"), role }).set(1);
    }

    pub fn injected(&self, outcome: Injection) {
        self.injections.get_or_create(&InjectionLabels { outcome }).inc();
    }

    pub fn reviewed(&self, webhook: Webhook, verdict: Verdict) {
        self.reviews.get_or_create(&ReviewLabels { webhook, verdict }).inc();
    }

    pub fn reconciled(&self, outcome: Outcome, took: Duration) {
        self.reconciles.get_or_create(&OutcomeLabels { outcome }).inc();
        self.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// Whose depth is shown from now on, for as long as it lives.
    pub fn watch(&self, queue: &Arc<Queue>) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(queue);
    }

    /// `kind` is one of our own custom resources.
    pub fn status_written(&self, kind: &str, outcome: StatusWrite) {
        self.status_writes.get_or_create(&StatusLabels { kind: kind.to_owned(), outcome }).inc();
    }

    pub fn registered(&self, outcome: Outcome) {
        self.attachments.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    pub fn attached(&self, sidecars: usize) {
        self.attached.set(i64::try_from(sidecars).unwrap_or(i64::MAX));
    }

    pub fn pushed(&self, configurations: usize) {
        self.pushes.inc_by(configurations as u64);
    }

    /// A run of a Benchmark is over.
    pub fn ran(&self, end: RunEnd) {
        self.benchmark_runs.get_or_create(&RunLabels { outcome: end }).inc();
    }

    /// How a Benchmark stands: rows that are worse, and when its last run succeeded, in seconds since 1970.
    /// `benchmark` is `NAMESPACE/NAME`.
    pub fn benchmark(&self, benchmark: &str, regressions: usize, success: Option<i64>) {
        let labels = BenchmarkLabels { benchmark: benchmark.to_owned() };
        let regressions = i64::try_from(regressions).unwrap_or(i64::MAX);
        self.benchmark_regressions.get_or_create(&labels).set(regressions);
        if let Some(success) = success {
            // Dates stay far below 2^53 seconds.
            self.benchmark_success.get_or_create(&labels).set(success as f64);
        }
    }

    /// This replica leads no longer: another one tells how Benchmarks stand.
    pub fn no_benchmarks(&self) {
        self.benchmark_regressions.clear();
        self.benchmark_success.clear();
    }

    /// A Benchmark is gone.
    pub fn benchmark_gone(&self, benchmark: &str) {
        let labels = BenchmarkLabels { benchmark: benchmark.to_owned() };
        self.benchmark_regressions.remove(&labels);
        self.benchmark_success.remove(&labels);
    }

    /// A sidecar reported that what it was told is in effect.
    pub fn applied(&self, after: Duration) {
        self.push_seconds.observe(after.as_secs_f64());
    }

    pub fn leading(&self, leading: bool) {
        self.leader.set(i64::from(leading));
    }

    /// Of the certificate in use, in seconds since 1970; none while there is none.
    pub fn certificate(&self, expires: Option<i64>) {
        if let Some(expires) = expires {
            // Dates stay far below 2^53 seconds.
            self.certificate_expires.get_or_create(&NoLabels {}).set(expires as f64);
        }
    }

    /// The exposition text.
    ///
    /// # Errors
    /// Never in practice: writing to a string cannot fail.
    pub fn expose(&self) -> Result<String, Error> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let depth = queue.map_or(0, |queue| queue.depth());
        self.queue_depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
