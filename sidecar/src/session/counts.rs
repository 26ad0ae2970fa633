//! What metrics learn of one connection.

use std::time::Duration;

use sealane_protocol::connection::Connection;
use sealane_protocol::datagram::PathFigures;
use sealane_types::Reason;

use crate::metrics::labels::{HandshakeLabels, SessionLabels, Way};
use crate::metrics::{Metrics, Watched};

pub(super) struct Counts<'a> {
    metrics: &'a Metrics,
    /// Once established, unless it is an audit.
    labels: Option<SessionLabels>,
    /// Key updates counted, of this side and of the remote.
    rekeys: (u64, u64),
    /// Once established.
    path: Option<Watched<'a>>,
}

impl<'a> Counts<'a> {
    pub(super) const fn new(metrics: &'a Metrics) -> Self {
        Self { metrics, labels: None, rekeys: (0, 0), path: None }
    }

    pub(super) fn established(&mut self, role: &'static str, labels: SessionLabels, handshake: Duration) {
        let metrics = self.metrics;
        metrics.handshakes.seconds.observe(handshake.as_secs_f64());
        metrics.handshakes.ended.get_or_create(&HandshakeLabels::established(role)).inc();
        metrics.connections.established.get_or_create(&labels).inc();
        self.labels = Some(labels);
    }

    /// A remote that was dialled over UDP is there.
    pub(super) fn reached(&self) {
        self.metrics.handshakes.dialled(true);
    }

    pub(super) fn reattested(&self) {
        if let Some(labels) = &self.labels {
            self.metrics.connections.reattested.get_or_create(labels).inc();
        }
    }

    /// Looks whether keys were replaced.
    pub(super) fn look_for_rekeys(&mut self, connection: &Connection) {
        let (sealed, opened) = connection.key_updates();
        let rekeys = &self.metrics.connections.rekeys;
        let count = |way: Way, before: &mut u64, now: u64| {
            // A connection that is over has no keys left to tell of.
            if now > *before {
                rekeys.get_or_create(&way.into()).inc_by(now - *before);
                *before = now;
            }
        };
        count(Way::Sent, &mut self.rekeys.0, sealed);
        count(Way::Received, &mut self.rekeys.1, opened);
    }

    /// What is known of its path by now.
    pub(super) fn measure(&mut self, figures: PathFigures) {
        match (&self.path, &self.labels) {
            (Some(path), _) => path.tell(figures),
            (None, Some(labels)) => self.path = Some(self.metrics.paths.watch(labels.clone(), figures)),
            (None, None) => {}
        }
    }

    /// It is carried by a stream, under a congestion control that is asked for once.
    pub(super) fn measure_stream(&mut self, congestion: impl FnOnce() -> Option<String>) {
        if let (None, Some(labels)) = (&self.path, &self.labels)
            && let Some(congestion) = congestion()
        {
            self.path = Some(self.metrics.paths.watch_stream(labels.clone(), congestion));
        }
    }

    /// The connection is over, or its handshake came to nothing; `audited` if it was an audit that got its answer.
    pub(super) fn over(&self, role: &'static str, reason: Reason, audited: bool) {
        let ended = &self.metrics.handshakes.ended;
        match &self.labels {
            Some(labels) => {
                self.metrics.connections.ended.get_or_create(&labels.clone().because(reason)).inc();
            }
            None if audited => {
                ended.get_or_create(&HandshakeLabels::audited(role, reason)).inc();
            }
            None => {
                ended.get_or_create(&HandshakeLabels::refused(role, reason)).inc();
            }
        }
    }
}
