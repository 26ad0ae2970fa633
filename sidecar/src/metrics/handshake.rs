//! What handshakes and evidence count.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use sealane_types::Reason;

use super::labels::{HandshakeLabels, KindLabel, OutcomeLabel, SourceLabel, TurnedAwayLabels, VerdictLabels};
use super::register::{begin, register};

/// Handshakes of either role.
#[derive(Debug)]
pub(crate) struct Handshakes {
    pub(crate) ended: Family<HandshakeLabels, Counter>,
    pub(crate) seconds: Histogram,
    pub(crate) under_way: Family<SourceLabel, Gauge>,
    pub(crate) turned_away: Family<TurnedAwayLabels, Counter>,
    pub(crate) dials: Family<OutcomeLabel, Counter>,
    /// Of those, the ones that began with a ticket.
    pub(crate) resumed: Family<HandshakeLabels, Counter>,
    pub(crate) tickets: Family<KindLabel, Gauge>,
}

impl Handshakes {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let ended = register(registry, "handshakes", "Handshakes by outcome");
        // From 100 µs, where the cryptography is, to three seconds, where only the platform's quote can be.
        let seconds = Histogram::new(exponential_buckets(1e-4, 2.0, 16));
        let help = "Handshakes that were established, evidence included";
        registry.register_with_unit("handshake", help, Unit::Seconds, seconds.clone());
        begin(&ended, ["initiator", "responder"].map(HandshakeLabels::established));
        let under_way = register(registry, "handshakes_under_way", "Accepted handshakes that are not over");
        let help = "Connections refused before a handshake, by reason";
        let turned_away = register(registry, "refused_connections", help);
        let causes = ["Rate", "HalfOpen"];
        begin(&turned_away, causes.map(|cause| TurnedAwayLabels::new(Reason::LimitExceeded, cause)));
        let dials = register(
            registry,
            "dials",
            "Attempts to reach a replica; over UDP one that was answered is connected",
        );
        begin(&dials, ["connected", "failed"].map(|outcome| OutcomeLabel { outcome }));
        let resumed = register(registry, "resumptions", "Handshakes that began with a ticket, by outcome");
        begin(&resumed, ["initiator", "responder"].map(HandshakeLabels::established));
        let tickets = register(
            registry,
            "tickets",
            "Tickets that this replica gave out or got, and that are not spent",
        );
        Self { ended, seconds, under_way, turned_away, dials, resumed, tickets }
    }

    /// A replica was dialled, and is there or not.
    pub(crate) fn dialled(&self, connected: bool) {
        let outcome = if connected { "connected" } else { "failed" };
        self.dials.get_or_create(&OutcomeLabel { outcome }).inc();
    }
}

/// Quotes that this replica made, and verdicts on those of others.
#[derive(Debug, Clone)]
pub(crate) struct Proofs {
    pub(crate) quotes: Family<OutcomeLabel, Counter>,
    pub(crate) quote_seconds: Histogram,
    /// How many handshakes one quote served.
    pub(crate) quote_handshakes: Histogram,
    pub(crate) verdicts: Family<VerdictLabels, Counter>,
    pub(crate) verification_seconds: Histogram,
}

impl Proofs {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let quotes = register(registry, "quotes", "Quotes that the platform was asked for");
        begin(&quotes, ["made", "failed"].map(|outcome| OutcomeLabel { outcome }));
        // A simulated quote takes milliseconds, a hardware one up to seconds.
        let quote_seconds = Histogram::new(exponential_buckets(1e-3, 2.0, 14));
        let help = "Time that the platform took for a quote";
        registry.register_with_unit("quote", help, Unit::Seconds, quote_seconds.clone());
        let quote_handshakes = Histogram::new(exponential_buckets(1.0, 2.0, 13));
        registry.register("quote_handshakes", "Handshakes that one quote served", quote_handshakes.clone());
        let verdicts = register(registry, "verifications", "Verdicts on other replicas' evidence, by reason");
        begin(&verdicts, [VerdictLabels::of(&Ok(()))]);
        let verification_seconds = Histogram::new(exponential_buckets(1e-4, 2.0, 14));
        let help = "Time that the verification of a replica's evidence took, waiting included";
        registry.register_with_unit("verification", help, Unit::Seconds, verification_seconds.clone());
        Self { quotes, quote_seconds, quote_handshakes, verdicts, verification_seconds }
    }
}
