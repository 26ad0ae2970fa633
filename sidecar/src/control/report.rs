//! What the operator is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sealane_attestation::{Statement, VerifiedPeer};
use sealane_sidecar_api::control as wire;
use sealane_types::{Carrier, Platform, Reason, SimulatedForm};
use tokio::sync::Notify;

use crate::context::Context;
use crate::evidence::own::{Own, OwnEvidence};
use crate::link::endpoint::Endpoint;
use crate::metrics::labels::SessionLabels;
use crate::policy::Standing;
use crate::route::Router;
use crate::session::externals;
use crate::session::readiness::Observed;

/// Collects reports.
#[derive(Debug)]
pub(crate) struct Reporter {
    context: Arc<Context>,
    router: Arc<Router>,
    own: Arc<Own>,
    generation: AtomicU64,
    finished: AtomicBool,
}

impl Reporter {
    pub(crate) fn new(context: Arc<Context>, router: Arc<Router>, own: Arc<Own>) -> Self {
        Self { context, router, own, generation: AtomicU64::new(0), finished: AtomicBool::new(false) }
    }

    /// A configuration is in effect.
    pub(crate) fn applied(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
        self.context.metrics.control.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
        self.context.changed.notify_one();
    }

    /// The sidecar is draining and has nothing left to do.
    pub(crate) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
        self.context.changed.notify_one();
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    /// Told when something in a report other than counters may have changed.
    pub(super) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.context.changed)
    }

    pub(super) fn report(&self) -> wire::Report {
        let own = self.own.last();
        wire::Report {
            generation: self.generation.load(Ordering::Relaxed),
            policy: Some(self.policy()),
            evidence: Some(evidence(own, &self.impairments())),
            sessions: self.sessions(),
            finished: self.is_finished(),
            externals: self.context.externals.observe().into_iter().map(external).collect(),
        }
    }

    fn sessions(&self) -> Vec<wire::SessionReport> {
        let Context { metrics, endpoint, .. } = &*self.context;
        let mut congestion = metrics.paths.congestion();
        let told = |one: Observed| {
            let under = congestion.remove(&SessionLabels::of(&one.key)).unwrap_or_default();
            session(one, endpoint, under.into_iter().collect::<Vec<_>>().join("+"))
        };
        self.router.observe().into_iter().map(told).collect()
    }

    /// How this process is less than it could be, whatever its evidence.
    fn impairments(&self) -> Vec<Reason> {
        let Context { clock, throttling, .. } = &*self.context;
        let suspect = clock.suspect().then_some(Reason::ClockSuspect);
        let throttled = throttling.is_throttled().then_some(Reason::CpuThrottled);
        suspect.into_iter().chain(throttled).collect()
    }

    fn policy(&self) -> wire::PolicyReport {
        let keeper = &self.context.policy;
        let (reason, message) =
            keeper.refusal().map_or_else(Default::default, |(reason, message)| (reason.to_string(), message));
        let root_source = keeper.root_source().to_string();
        match keeper.standing() {
            Standing::InForce(held) => wire::PolicyReport {
                verified: true,
                epoch: held.policy.epoch(),
                digest: held.policy.digest().to_string(),
                root_source,
                expires: held.policy.expires().unix().0,
                // A newer proposal that was refused is worth knowing of while the older one stays in force.
                reason,
                message,
            },
            Standing::Closed { reason, message } => wire::PolicyReport {
                verified: false,
                root_source,
                reason: reason.to_string(),
                message,
                ..wire::PolicyReport::default()
            },
        }
    }
}

/// The same report without what changes all the time: two that are equal need no haste.
pub(super) fn conditions(report: &wire::Report) -> wire::Report {
    let mut report = report.clone();
    for session in &mut report.sessions {
        session.bytes = 0;
        // Whether anything flowed at all is a condition, how much is not.
        session.tensors = session.tensors.min(1);
        session.forwarded = session.forwarded.min(1);
        session.handshake_micros = 0;
    }
    if let Some(evidence) = &mut report.evidence {
        evidence.evidence_time = 0;
    }
    for external in &mut report.externals {
        external.evidence_time = 0;
    }
    report
}

fn evidence(own: OwnEvidence, impairments: &[Reason]) -> wire::EvidenceReport {
    let mut degraded: Vec<String> = impairments.iter().map(ToString::to_string).collect();
    match own {
        OwnEvidence::Verified(peer) => {
            degraded.extend(peer.degradations().iter().map(|one| one.reason().to_string()));
            degraded.dedup();
            wire::EvidenceReport {
                verified: true,
                platform: peer.platform().to_string(),
                assurance: peer.assurance().to_string(),
                measurement: peer.measurement().map(ToString::to_string).unwrap_or_default(),
                tcb_status: peer.tcb_status().map(|status| status.to_string()).unwrap_or_default(),
                evidence_time: peer.evidence_time().0,
                collateral_expires: peer.ends().map_or(0, |ends| ends.0),
                form: form(&peer).map(|form| form.to_string()).unwrap_or_default(),
                degraded,
                ..wire::EvidenceReport::default()
            }
        }
        OwnEvidence::Refused { reason, message } => wire::EvidenceReport {
            verified: false,
            reason: reason.to_string(),
            message,
            degraded,
            ..wire::EvidenceReport::default()
        },
    }
}

fn external(observed: externals::Observed) -> wire::ExternalReport {
    match observed {
        externals::Observed::Met { peer, pod, proof } => wire::ExternalReport {
            peer: peer.to_string(),
            pod: pod.to_string(),
            platform: proof.platform.to_string(),
            assurance: proof.assurance.to_string(),
            public_key: proof.key.map(|key| key.to_string()).unwrap_or_default(),
            evidence_time: proof.evidence_time.0,
            degraded: proof.degraded.iter().map(ToString::to_string).collect(),
            ..wire::ExternalReport::default()
        },
        externals::Observed::Missing { peer, reason, message } => wire::ExternalReport {
            peer: peer.to_string(),
            reason: reason.to_string(),
            message,
            ..wire::ExternalReport::default()
        },
    }
}

/// The platform that simulated evidence resembles.
fn form(peer: &VerifiedPeer) -> Option<SimulatedForm> {
    let form = match peer.claims().statement() {
        Statement::SevSnp(_) => Some(SimulatedForm::SevSnp),
        Statement::Tdx(_) => Some(SimulatedForm::Tdx),
        Statement::Nitro(_) => Some(SimulatedForm::Nitro),
        Statement::Key(_) => None,
    };
    form.filter(|_| peer.platform() == Platform::Simulated)
}

fn session(observed: Observed, endpoint: &Endpoint, congestion: String) -> wire::SessionReport {
    let Observed {
        key,
        uid,
        connections,
        connections_desired,
        bytes,
        tensors,
        forwarded,
        carried,
        cipher,
        post_quantum,
        handshake_micros,
        ended,
        problem,
        degraded,
    } = observed;
    let (reason, message) =
        problem.map_or_else(Default::default, |(reason, message)| (reason.to_string(), message));
    let mut degraded: Vec<String> = degraded.into_iter().map(|reason| reason.to_string()).collect();
    degraded.sort();
    degraded.dedup();
    let mode = (carried.by == Carrier::AfXdp).then(|| endpoint.device().ok()).flatten();
    let mode = mode.map(|xdp| xdp.mode().to_owned());
    wire::SessionReport {
        name: key.name.to_string(),
        uid,
        connections,
        connections_desired,
        bytes,
        tensors,
        carrier: carried.by.to_string(),
        cipher: cipher.map(|cipher| cipher.to_string()).unwrap_or_default(),
        post_quantum,
        handshake_micros,
        ended,
        reason,
        message,
        degraded,
        forwarded,
        carrier_mode: mode.unwrap_or_default(),
        carrier_message: carried.instead.map(|hindrance| hindrance.message(endpoint)).unwrap_or_default(),
        congestion,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_this_process_back_is_told_whatever_its_evidence() {
        let refused = OwnEvidence::Refused { reason: Reason::EvidenceMissing, message: String::new() };
        let told = evidence(refused, &[Reason::ClockSuspect, Reason::CpuThrottled]);
        assert_eq!(told.degraded, ["ClockSuspect", "CpuThrottled"]);
        assert!(!told.verified);
    }
}
