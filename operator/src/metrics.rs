//! What the operator counts, for Prometheus.

use std::fmt::Error;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::EncodeLabelValue;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InjectionLabels {
    outcome: Injection,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: Outcome,
}

/// Every metric, registered once.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    injections: Family<InjectionLabels, Counter>,
    reconciles: Family<OutcomeLabels, Counter>,
    reconcile_seconds: Histogram,
    attachments: Family<OutcomeLabels, Counter>,
    attached: Gauge,
    pushes: Counter,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("sealane_operator"),
            injections: Family::default(),
            reconciles: Family::default(),
            reconcile_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 7)),
            attachments: Family::default(),
            attached: Gauge::default(),
            pushes: Counter::default(),
            leader: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("injections", "Pods reviewed by the injecting webhook", self.injections.clone());
        registry.register("reconciles", "Reconciliations of a namespace", self.reconciles.clone());
        registry.register_with_unit(
            "reconcile",
            "Time of one reconciliation",
            Unit::Seconds,
            self.reconcile_seconds.clone(),
        );
        registry.register("attachments", "Registrations on the control channel", self.attachments.clone());
        registry.register("attached_sidecars", "Sidecars with an open control stream", self.attached.clone());
        registry.register("pushes", "Configurations pushed to sidecars", self.pushes.clone());
        registry.register("leader", "1 on the replica that leads", self.leader.clone());
    }

    pub fn injected(&self, outcome: Injection) {
        self.injections.get_or_create(&InjectionLabels { outcome }).inc();
    }

    pub fn reconciled(&self, outcome: Outcome, took: Duration) {
        self.reconciles.get_or_create(&OutcomeLabels { outcome }).inc();
        self.reconcile_seconds.observe(took.as_secs_f64());
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

    pub fn leading(&self, leading: bool) {
        self.leader.set(i64::from(leading));
    }

    /// The exposition text.
    ///
    /// # Errors
    /// Never in practice: writing to a string cannot fail.
    pub fn expose(&self) -> Result<String, Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_exposed_under_the_prefix() {
        let metrics = Metrics::default();
        metrics.injected(Injection::Injected);
        metrics.reconciled(Outcome::Success, Duration::from_millis(3));
        metrics.registered(Outcome::Failure);
        metrics.leading(true);
        let text = metrics.expose().unwrap();
        for line in [
            "sealane_operator_injections_total{outcome=\"Injected\"} 1",
            "sealane_operator_reconciles_total{outcome=\"Success\"} 1",
            "sealane_operator_reconcile_seconds_count 1",
            "sealane_operator_attachments_total{outcome=\"Failure\"} 1",
            "sealane_operator_leader 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
