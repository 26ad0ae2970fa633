//! How this replica stands: its evidence, its policy, its operator, and what is degraded.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{EvidenceLabels, FateLabel, ModeLabel, NoLabels, OutcomeLabel, ReasonLabel};
use super::register::{begin, register, register_in};

/// A value that is not always there; a zero in its place would be a lie.
pub(crate) type Known = Family<NoLabels, Gauge<f64, AtomicU64>>;

/// Sets a value that may be unknown.
pub(crate) fn tell(family: &Known, value: Option<f64>) {
    match value {
        Some(value) => drop(family.get_or_create(&NoLabels {}).set(value)),
        None => drop(family.remove(&NoLabels {})),
    }
}

/// Brought up to date when somebody looks.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) degraded: Family<ReasonLabel, Gauge>,
    pub(crate) evidence_verified: Gauge,
    pub(crate) evidence_age: Known,
    pub(crate) evidence_expires: Known,
    pub(crate) evidence: Family<EvidenceLabels, Gauge>,
    pub(crate) policy_verified: Gauge,
    pub(crate) policy_epoch: Gauge,
    pub(crate) policy_expires: Known,
    pub(crate) policy_refused: Family<ReasonLabel, Gauge>,
    pub(crate) device: Family<ModeLabel, Gauge>,
    pub(crate) device_packets: Family<FateLabel, Gauge>,
}

impl State {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            degraded: register(registry, "degraded", "Degradations in effect, 1 each"),
            evidence_verified: register(
                registry,
                "evidence_verified",
                "1 if this replica's own evidence passes its policy",
            ),
            evidence_age: register_in(
                registry,
                "evidence_age",
                Unit::Seconds,
                "Time since this replica appraised itself last",
            ),
            evidence_expires: register_in(
                registry,
                "evidence_expires_timestamp",
                Unit::Seconds,
                "When this replica's evidence is accepted no longer, in seconds since 1970",
            ),
            evidence: register(registry, "evidence_info", "What this replica's evidence says, always 1"),
            policy_verified: register(registry, "policy_verified", "1 if a verified policy is in force"),
            policy_epoch: register(registry, "policy_epoch", "Epoch of the policy in force, 0 without one"),
            policy_expires: register_in(
                registry,
                "policy_expires_timestamp",
                Unit::Seconds,
                "When the policy in force expires, in seconds since 1970",
            ),
            policy_refused: register(
                registry,
                "policy_refused",
                "1 if the newest policy that was proposed is refused, by reason",
            ),
            device: register(
                registry,
                "device_info",
                "How AF_XDP is used on this pod's network device, always 1",
            ),
            device_packets: register(
                registry,
                "device_packets",
                "Packets for the way past the kernel since the process began, by what became of them",
            ),
        }
    }
}

/// The channel to the operator.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) connected: Gauge,
    pub(crate) streams: Family<OutcomeLabel, Counter>,
    pub(crate) generation: Gauge,
    pub(crate) configurations: Family<OutcomeLabel, Counter>,
}

impl Control {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let streams = register(registry, "control_streams", "Attempts to reach the operator");
        begin(&streams, ["attached", "ended"].map(|outcome| OutcomeLabel { outcome }));
        Self {
            connected: register(registry, "control_connected", "Whether the operator is connected"),
            streams,
            generation: register(
                registry,
                "configuration_generation",
                "Number of the configuration in effect on its control stream",
            ),
            configurations: register(registry, "configurations", "Configurations received from the operator"),
        }
    }
}

/// Spans for a collector.
#[derive(Debug, Clone)]
pub(crate) struct Spans {
    pub(crate) ended: Family<OutcomeLabel, Counter>,
}

impl Spans {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let help =
            "Spans that were exported, that a collector did not take, or that had no place in the queue";
        Self { ended: register(registry, "trace_spans", help) }
    }
}
