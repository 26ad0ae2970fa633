//! Brings gauges up to date when somebody looks, so that what is shown is as fresh as the look.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sealane_types::Reason;

use crate::context::Context;
use crate::evidence::own::{Own, OwnEvidence};
use crate::link::gate::Gate;
use crate::metrics::labels::{
    EvidenceLabels, FateLabel, KindLabel, ModeLabel, ReasonLabel, SessionLabels, SourceLabel,
};
use crate::metrics::tell;
use crate::policy::Standing;
use crate::route::Router;

/// What is looked at.
#[derive(Debug)]
pub(crate) struct Gauges {
    context: Arc<Context>,
    router: Arc<Router>,
    own: Arc<Own>,
    gate: Arc<Gate>,
    /// One look at a time: another one must not see what this one is about to set.
    looking: Mutex<()>,
}

impl Gauges {
    pub(crate) fn new(context: Arc<Context>, router: Arc<Router>, own: Arc<Own>, gate: Arc<Gate>) -> Self {
        Self { context, router, own, gate, looking: Mutex::default() }
    }

    /// The OpenMetrics text of this moment.
    ///
    /// # Errors
    /// When a value cannot be written, which would be a fault of the library.
    pub(crate) fn render(&self) -> Result<String, fmt::Error> {
        let _turn = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        self.context.metrics.state.degraded.clear();
        self.policy();
        self.evidence();
        self.sessions();
        self.handshakes();
        self.device();
        self.context.metrics.render()
    }

    fn policy(&self) {
        let state = &self.context.metrics.state;
        let standing = self.context.policy.standing();
        let held = match &standing {
            Standing::InForce(held) => Some(&held.policy),
            Standing::Closed { .. } => None,
        };
        state.policy_verified.set(held.is_some().into());
        state.policy_epoch.set(held.map_or(0, |policy| i64::try_from(policy.epoch()).unwrap_or(i64::MAX)));
        tell(&state.policy_expires, held.map(|policy| seconds(policy.expires().unix().0)));
        state.policy_refused.clear();
        if let Some((reason, _)) = self.context.policy.refusal() {
            state.policy_refused.get_or_create(&reason.into()).set(1);
        }
    }

    fn evidence(&self) {
        let state = &self.context.metrics.state;
        let now = self.context.clock.unix().0;
        let peer = match self.own.last() {
            OwnEvidence::Verified(peer) => Some(peer),
            OwnEvidence::Refused { .. } => None,
        };
        state.evidence_verified.set(peer.is_some().into());
        tell(
            &state.evidence_age,
            peer.as_ref().map(|peer| seconds(now.saturating_sub(peer.evidence_time().0))),
        );
        tell(&state.evidence_expires, peer.as_ref().and_then(|peer| peer.ends()).map(|ends| seconds(ends.0)));
        state.evidence.clear();
        if let Some(peer) = peer {
            let labels = EvidenceLabels {
                platform: peer.platform().as_str(),
                assurance: peer.assurance().as_str(),
                tcb_status: peer.tcb_status().map_or("", |status| status.as_str()),
            };
            state.evidence.get_or_create(&labels).set(1);
            peer.degradations().iter().for_each(|one| self.degrade(one.reason()));
        }
        if self.context.clock.suspect() {
            self.degrade(Reason::ClockSuspect);
        }
        if self.context.throttling.is_throttled() {
            self.degrade(Reason::CpuThrottled);
        }
    }

    fn sessions(&self) {
        let metrics = &self.context.metrics;
        let observed = self.router.observe();
        let present: Vec<_> = observed.iter().map(|session| SessionLabels::of(&session.key)).collect();
        metrics.keep_sessions(&present, Instant::now());
        metrics.connections.open.clear();
        metrics.connections.desired.clear();
        for (session, labels) in observed.into_iter().zip(present) {
            metrics.connections.open.get_or_create(&labels).set(session.connections.into());
            metrics.connections.desired.get_or_create(&labels).set(session.connections_desired.into());
            session.degraded.into_iter().for_each(|reason| self.degrade(reason));
        }
        metrics.paths.look();
    }

    fn handshakes(&self) {
        let under_way = &self.context.metrics.handshakes.under_way;
        let (known, strangers) = self.gate.half_open();
        under_way.get_or_create(&SourceLabel { source: "known" }).set(known.into());
        under_way.get_or_create(&SourceLabel { source: "stranger" }).set(strangers.into());
        let tickets = &self.context.metrics.handshakes.tickets;
        let (issued, held) = self.context.tickets.count();
        for (kind, count) in [("issued", issued), ("held", held)] {
            tickets.get_or_create(&KindLabel { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    fn device(&self) {
        let state = &self.context.metrics.state;
        let Ok(xdp) = self.context.endpoint.device() else { return };
        state.device.get_or_create(&ModeLabel { mode: xdp.mode() }).set(1);
        for (fate, count) in xdp.packets() {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            state.device_packets.get_or_create(&FateLabel { fate }).set(count);
        }
    }

    fn degrade(&self, reason: Reason) {
        self.context.metrics.state.degraded.get_or_create(&ReasonLabel::from(reason)).set(1);
    }
}

/// Seconds since 1970 stay far below 2^53.
fn seconds(seconds: u64) -> f64 {
    seconds as f64
}
