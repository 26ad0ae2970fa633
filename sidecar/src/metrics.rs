//! Metrics, prefix `sealane_`. No label ever names a tensor, a pod or a key.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Labels of a session's series.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct SessionLabels {
    pub(crate) session: String,
    pub(crate) direction: &'static str,
}

/// Labels of a handshake.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct HandshakeLabels {
    /// `initiator` or `responder`.
    pub(crate) role: &'static str,
    /// `established` or `refused`.
    pub(crate) outcome: &'static str,
    /// A word of [`sealane_types::Reason`]; empty when established.
    pub(crate) reason: &'static str,
}

/// A word that explains something.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ReasonLabel {
    pub(crate) reason: &'static str,
}

/// Every series of this process.
pub(crate) struct Metrics {
    registry: Registry,
    pub(crate) connections: Family<SessionLabels, Gauge>,
    pub(crate) handshakes: Family<HandshakeLabels, Counter>,
    pub(crate) handshake_seconds: Histogram,
    pub(crate) tensors: Family<SessionLabels, Counter>,
    pub(crate) bytes: Family<SessionLabels, Counter>,
    pub(crate) uncertain: Family<SessionLabels, Counter>,
    pub(crate) refused_connections: Family<ReasonLabel, Counter>,
    pub(crate) degraded: Family<ReasonLabel, Gauge>,
    pub(crate) evidence_age: Gauge<f64, AtomicU64>,
    pub(crate) policy_epoch: Gauge,
    pub(crate) control_connected: Gauge,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    #[must_use]
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("sealane");
        let connections = Family::default();
        registry.register("connections", "Attested connections", connections.clone());
        let handshakes = Family::default();
        registry.register("handshakes", "Handshakes by outcome", handshakes.clone());
        // From 100 µs, where the cryptography is, to three seconds, where only the platform's quote can be.
        let handshake_seconds = Histogram::new(exponential_buckets(1e-4, 2.0, 16));
        let help = "Handshakes that were established, evidence included";
        registry.register_with_unit("handshake", help, Unit::Seconds, handshake_seconds.clone());
        let tensors = Family::default();
        registry.register("tensors", "Tensors taken by receivers' applications", tensors.clone());
        let bytes = Family::default();
        registry.register_with_unit("payload", "Bytes of those tensors", Unit::Bytes, bytes.clone());
        let uncertain = Family::default();
        registry.register("uncertain_tensors", "Tensors whose taking cannot be known", uncertain.clone());
        let refused_connections = Family::default();
        let help = "Connections refused before a handshake";
        registry.register("refused_connections", help, refused_connections.clone());
        let degraded = Family::default();
        registry.register("degraded", "Degradations in effect, 1 each", degraded.clone());
        let evidence_age = Gauge::default();
        let help = "Age of this replica's evidence";
        registry.register_with_unit("evidence_age", help, Unit::Seconds, evidence_age.clone());
        let policy_epoch = Gauge::default();
        registry.register(
            "policy_epoch",
            "Epoch of the policy in force, 0 without one",
            policy_epoch.clone(),
        );
        let control_connected = Gauge::default();
        registry.register(
            "control_connected",
            "Whether the operator is connected",
            control_connected.clone(),
        );
        Self {
            registry,
            connections,
            handshakes,
            handshake_seconds,
            tensors,
            bytes,
            uncertain,
            refused_connections,
            degraded,
            evidence_age,
            policy_epoch,
            control_connected,
        }
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

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_carry_the_prefix() {
        let metrics = Metrics::new();
        metrics.policy_epoch.set(7);
        let labels = HandshakeLabels { role: "initiator", outcome: "refused", reason: "TcbTooLow" };
        metrics.handshakes.get_or_create(&labels).inc();
        let text = metrics.render().unwrap();
        assert!(text.contains("sealane_policy_epoch 7"), "{text}");
        let line = r#"sealane_handshakes_total{role="initiator",outcome="refused",reason="TcbTooLow"} 1"#;
        assert!(text.contains(line), "{text}");
    }
}
