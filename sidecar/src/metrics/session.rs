//! What sessions count: connections, lanes, tensors and pipes.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use sealane_types::Reason;

use super::labels::{LaneFailureLabels, SessionLabels, SessionReasonLabels, SessionWayLabels, Way, WayLabel};
use super::register::{begin, register, register_in};

/// Connections of sessions.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) open: Family<SessionLabels, Gauge>,
    pub(crate) desired: Family<SessionLabels, Gauge>,
    pub(crate) established: Family<SessionLabels, Counter>,
    pub(crate) ended: Family<SessionReasonLabels, Counter>,
    pub(crate) reattested: Family<SessionLabels, Counter>,
    pub(crate) rekeys: Family<WayLabel, Counter>,
}

impl Connections {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let rekeys = register(registry, "rekeys", "Keys replaced within established connections");
        begin(&rekeys, Way::ALL.map(WayLabel::from));
        Self {
            open: register(registry, "connections", "Attested connections"),
            desired: register(
                registry,
                "connections_desired",
                "Replicas that the session should be connected to",
            ),
            established: register(
                registry,
                "connections_established",
                "Connections on which both sides were verified",
            ),
            ended: register(
                registry,
                "connections_ended",
                "Established connections that are over, by reason",
            ),
            reattested: register(
                registry,
                "connections_reattested",
                "Times that both sides of a connection proved themselves again",
            ),
            rekeys,
        }
    }

    /// A session is there.
    pub(super) fn begin(&self, labels: &SessionLabels) {
        begin(&self.established, [labels.clone()]);
        begin(&self.reattested, [labels.clone()]);
        // What nobody meant.
        begin(&self.ended, [labels.clone().because(Reason::LinkLost)]);
    }

    pub(super) fn forget(&self, labels: &SessionLabels) {
        let Self { open, desired, established, ended, reattested, rekeys: _ } = self;
        open.remove(labels);
        desired.remove(labels);
        established.remove(labels);
        reattested.remove(labels);
        each_reason(labels, ended);
    }
}

/// Lanes of applications.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) open: Family<SessionLabels, Gauge>,
    pub(crate) opened: Family<SessionLabels, Counter>,
    pub(crate) failed: Family<LaneFailureLabels, Counter>,
}

impl Lanes {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            open: register(registry, "lanes", "Lanes that applications have open"),
            opened: register(registry, "lanes_opened", "Lanes that applications opened"),
            failed: register(
                registry,
                "lanes_failed",
                "Lanes that did not open or that ended with an error, by reason",
            ),
        }
    }

    pub(super) fn forget(&self, labels: &SessionLabels) {
        let Self { open, opened, failed: _ } = self;
        open.remove(labels);
        opened.remove(labels);
    }
}

/// Tensors of stream sessions.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) tensors: Family<SessionLabels, Counter>,
    pub(crate) bytes: Family<SessionLabels, Counter>,
    pub(crate) striped: Family<SessionLabels, Counter>,
    pub(crate) uncertain: Family<SessionLabels, Counter>,
    pub(crate) interrupted: Family<SessionLabels, Counter>,
}

impl Traffic {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            tensors: register(registry, "tensors", "Tensors taken by receivers' applications"),
            bytes: register_in(registry, "payload", Unit::Bytes, "Bytes of those tensors"),
            striped: register_in(
                registry,
                "striped",
                Unit::Bytes,
                "Bytes of tensors over further links of their connections",
            ),
            uncertain: register(registry, "uncertain_tensors", "Tensors whose taking cannot be known"),
            interrupted: register(
                registry,
                "interrupted_senders",
                "Senders that were lost without closing their lanes",
            ),
        }
    }

    /// A session begins.
    pub(crate) fn begin(&self, labels: &SessionLabels) {
        let Self { tensors, bytes, striped, uncertain, interrupted } = self;
        for family in [tensors, bytes, striped, uncertain, interrupted] {
            begin(family, [labels.clone()]);
        }
    }

    pub(super) fn forget(&self, labels: &SessionLabels) {
        let Self { tensors, bytes, striped, uncertain, interrupted } = self;
        for family in [tensors, bytes, striped, uncertain, interrupted] {
            family.remove(labels);
        }
    }
}

/// TCP connections of forward sessions.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) open: Family<SessionLabels, Gauge>,
    /// On the `from` side one that was accepted, on the `to` side one that reached its target.
    pub(crate) opened: Family<SessionLabels, Counter>,
    /// Before a byte was carried.
    pub(crate) refused: Family<SessionReasonLabels, Counter>,
    /// Over without both authenticated ends.
    pub(crate) reset: Family<SessionReasonLabels, Counter>,
    pub(crate) bytes: Family<SessionWayLabels, Counter>,
}

impl Pipes {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            open: register(registry, "pipes", "Forwarded TCP connections that are open"),
            opened: register(registry, "pipes_opened", "Forwarded TCP connections that were opened"),
            refused: register(
                registry,
                "pipes_refused",
                "TCP connections that were not forwarded, by reason",
            ),
            reset: register(registry, "pipes_reset", "Forwarded TCP connections that were cut, by reason"),
            bytes: register_in(registry, "pipe", Unit::Bytes, "Payload of forwarded TCP connections"),
        }
    }

    pub(super) fn forget(&self, labels: &SessionLabels) {
        let Self { open, opened, refused, reset, bytes } = self;
        open.remove(labels);
        opened.remove(labels);
        each_reason(labels, refused);
        each_reason(labels, reset);
        for way in Way::ALL {
            bytes.remove(&labels.clone().way(way));
        }
    }
}

fn each_reason(labels: &SessionLabels, family: &Family<SessionReasonLabels, Counter>) {
    for reason in Reason::ALL {
        family.remove(&labels.clone().because(*reason));
    }
}
