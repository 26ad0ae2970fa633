//! What a TransferSession's status says.

mod observed;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sealane_operator_api::well_known::condition::{
    COMPLETE, DEGRADED, ESTABLISHED, FAILED, PEERS_ATTESTED, READY,
};
use sealane_operator_api::{Phase, TransferSession, TransferSessionStatus};
use sealane_policy::Flow;
use sealane_types::{PeerName, Reason, SessionName, UnixSeconds};

use self::observed::Observed;
use super::absence::absence;
use super::peer::Standing;
use crate::condition::{Finding, conditions, is_true, time};
use crate::desired::{Forward, Kind};
use crate::reconcile::choose::Choice;
use crate::spec::{Outcome, Problem, SessionShape, Valid, ValidSession, word};

pub(super) fn status(
    valid: &Valid,
    name: &SessionName,
    session: &ValidSession,
    standing: &BTreeMap<&PeerName, Standing>,
    choice: Option<&Choice>,
) -> TransferSessionStatus {
    let Some(object) = valid.snapshot.sessions.get(session.index) else {
        return TransferSessionStatus::default();
    };
    let generation = object.metadata.generation;
    let previous = object.status.clone().unwrap_or_default();
    let now = valid.snapshot.now;
    let observed = Observed::of(valid, session, &previous);
    let ending = ending(valid, session, &previous, &observed);
    let attested = attested(valid, name, session, standing);
    let established = established(object, &observed, &attested);
    let phase = phase(object, &ending, &attested, &established);
    let denied = session.shape.as_ref().ok().and_then(|shape| denied(valid, name, shape));
    let ends = session.shape.as_ref().ok().and_then(|shape| receivers_end(valid, name, shape));
    let findings = findings(object, &observed, ending, attested, established, (denied, ends));
    let finished = matches!(phase, Phase::Complete | Phase::Failed);
    let (last_error, last_error_time) = last_error(&observed, &previous, phase, now).unzip();
    TransferSessionStatus {
        observed_generation: generation,
        conditions: conditions(&previous.conditions, findings, generation, now),
        phase: Some(phase),
        connections: Some(observed.connections),
        connections_desired: Some(observed.desired),
        bytes_transferred: Some(observed.bytes),
        tensors_transferred: Some(observed.tensors),
        forwarded: observed.forwarded,
        // The mode is the carrier's: that of an earlier one says nothing about this one.
        carrier_mode: if observed.carrier.is_some() { observed.carrier_mode } else { previous.carrier_mode },
        carrier: observed.carrier.or(previous.carrier),
        congestion: observed.congestion.or(previous.congestion),
        cipher: observed.cipher.or(previous.cipher),
        recommended: choice.map(Choice::told),
        post_quantum: observed.post_quantum.or(previous.post_quantum),
        handshake_micros: observed.handshake_micros.or(previous.handshake_micros),
        start_time: previous.start_time.or_else(|| (observed.took_place).then(|| time(now))),
        // One that had failed and is complete after all was not complete before.
        completion_time: previous
            .completion_time
            .filter(|_| finished && previous.phase == Some(phase))
            .or_else(|| finished.then(|| time(now))),
        last_error,
        last_error_time,
        counted: observed.counted,
        // The last step's to say.
        stale_after: None,
    }
}

/// The failure that is reported, and since when. One that nothing reports at the moment stays until it is mended: a
/// sidecar that tries again says nothing meanwhile.
fn last_error(
    observed: &Observed,
    previous: &TransferSessionStatus,
    phase: Phase,
    now: UnixSeconds,
) -> Option<(String, Time)> {
    let over = matches!(phase, Phase::Active | Phase::Complete | Phase::Suspended);
    let held = previous.last_error.as_ref().filter(|_| !over);
    let text = observed.error.as_ref().map(clip).or_else(|| held.cloned())?;
    let since = previous.last_error_time.clone().filter(|_| previous.last_error.as_ref() == Some(&text));
    Some((text, since.unwrap_or_else(|| time(now))))
}

fn clip(problem: &Problem) -> String {
    format!("{}: {}", problem.reason, problem.message).chars().take(1024).collect()
}

/// How the sending side has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    Active,
    Succeeded,
    Failed(String),
}

/// A stream is complete only when the owner of every sending pod has finished successfully: a sidecar alone cannot tell an
/// application that ended from one that crashed. One that never took place is not complete either. Once told, it stays
/// told although Jobs and pods are cleaned up.
fn ending(
    valid: &Valid,
    session: &ValidSession,
    previous: &TransferSessionStatus,
    observed: &Observed,
) -> Ending {
    let Ok(shape) = &session.shape else { return Ending::Active };
    match valid.work_of(&shape.from).map(|work| &work.outcome) {
        Some(Outcome::Active) => Ending::Active,
        Some(Outcome::Succeeded) if observed.took_place => Ending::Succeeded,
        Some(Outcome::Succeeded) => Ending::Active,
        Some(Outcome::Failed(why)) => Ending::Failed(why.clone()),
        Some(Outcome::Unknown) | None => match previous.phase {
            Some(Phase::Complete) => Ending::Succeeded,
            Some(Phase::Failed) => Ending::Failed("what sent has failed and is gone".to_owned()),
            Some(_) | None => Ending::Active,
        },
    }
}

/// Whether every side has an attested replica and the policy lets them talk.
fn attested(
    valid: &Valid,
    name: &SessionName,
    session: &ValidSession,
    standing: &BTreeMap<&PeerName, Standing>,
) -> Finding {
    let shape = match &session.shape {
        Ok(shape) => shape,
        Err(problem) => return Finding::not(PEERS_ATTESTED, problem),
    };
    if let Some(problem) = not_permitted(valid, name, shape) {
        return Finding::not(PEERS_ATTESTED, &problem);
    }
    for peer in std::iter::once(&shape.from).chain(&shape.to) {
        let Some(standing) = standing.get(peer) else { continue };
        if standing.wanted == 0 {
            let message = format!("Peer `{peer}` has no running pod{}", absence(valid.work_of(peer)));
            let problem = Problem::new(Reason::NoReplicas, message);
            return Finding::not(PEERS_ATTESTED, &problem);
        }
        if standing.attested == 0 {
            let (reason, message) = standing
                .problem
                .as_ref()
                .map_or((Reason::EvidenceMissing.as_str(), "not proved yet"), |problem| {
                    (problem.reason, problem.message.as_str())
                });
            return Finding::no(PEERS_ATTESTED, reason, format!("Peer `{peer}`: {message}"));
        }
    }
    Finding::yes(PEERS_ATTESTED, word::ATTESTED, "every Peer has an attested replica that the policy accepts")
}

/// The operator's reading of the policy; the sidecars' own is what counts.
fn not_permitted(valid: &Valid, name: &SessionName, shape: &SessionShape) -> Option<Problem> {
    let refused = || {
        let problem = valid.policies.get(shape.policy.as_str())?.verdict.as_ref().err()?;
        let message = format!("TrustPolicy `{}`: {}", shape.policy, problem.message);
        Some(Problem { reason: problem.reason, message })
    };
    denied(valid, name, shape).or_else(refused)
}

/// Why what is applied does not permit the session, whatever sidecars still hold.
fn denied(valid: &Valid, name: &SessionName, shape: &SessionShape) -> Option<Problem> {
    let Some(policy) = valid.policies.get(shape.policy.as_str()) else {
        let message = format!("there is no TrustPolicy `{}` in this namespace", shape.policy);
        return Some(Problem::new(Reason::PolicyMissing, message));
    };
    match &policy.verdict {
        Err(_) => None,
        Ok(verified) => shape.to.iter().find_map(|to| {
            let error = verified.permits(name, &shape.from, to, flow(shape)).err()?;
            Some(Problem::new(error.reason(), error.to_string()))
        }),
    }
}

/// What the end of a receiver's stream means: whom the control plane lists, or how many the owners signed.
fn receivers_end(valid: &Valid, name: &SessionName, shape: &SessionShape) -> Option<String> {
    if !matches!(shape.terms.kind, Kind::Stream { .. }) {
        return None;
    }
    let verified = valid.policies.get(shape.policy.as_str())?.verdict.as_ref().ok()?;
    let demanded = |to| verified.senders_min(name, to, &|peer| *peer == shape.from).get(&shape.from).copied();
    Some(match shape.to.iter().map(|to| demanded(to).unwrap_or(0)).min() {
        Some(least @ 1..) => format!("receivers end once at least {least} senders have, as the policy signs"),
        _ => "receivers end once all senders have that this control plane lists, since the policy signs no number (`senders`)"
            .to_owned(),
    })
}

fn flow(shape: &SessionShape) -> Flow {
    match shape.terms.kind {
        Kind::Stream { .. } => Flow::Stream,
        Kind::Forward(Forward { target, .. }) => Flow::Forward { target: Some(target) },
    }
}

fn established(object: &TransferSession, observed: &Observed, attested: &Finding) -> Finding {
    if object.spec.suspend {
        return Finding::no(ESTABLISHED, Reason::SessionSuspended.as_str(), "spec.suspend is true");
    }
    if observed.connections > 0 {
        let message = format!("{} of {} connections", observed.connections, observed.desired);
        return Finding::yes(ESTABLISHED, word::CONNECTED, message);
    }
    match (&observed.error, attested.complaint()) {
        (_, Some((reason, message))) => Finding::no(ESTABLISHED, reason, message),
        (Some(problem), None) => Finding::not(ESTABLISHED, problem),
        (None, None) => Finding::no(ESTABLISHED, word::CONNECTING, "the sending replicas are dialling"),
    }
}

fn phase(object: &TransferSession, ending: &Ending, attested: &Finding, established: &Finding) -> Phase {
    match ending {
        Ending::Succeeded => Phase::Complete,
        Ending::Failed(_) => Phase::Failed,
        Ending::Active if object.spec.suspend => Phase::Suspended,
        Ending::Active if established.holds() => Phase::Active,
        Ending::Active if attested.holds() => Phase::Connecting,
        Ending::Active => Phase::Pending,
    }
}

fn findings(
    object: &TransferSession,
    observed: &Observed,
    ending: Ending,
    attested: Finding,
    established: Finding,
    (denied, ends): (Option<Problem>, Option<String>),
) -> Vec<Finding> {
    let was_complete = object.status.as_ref().is_some_and(|status| is_true(&status.conditions, COMPLETE));
    let (complete, failed) = match &ending {
        Ending::Active if was_complete => (
            Finding::no(COMPLETE, word::SENDERS_ACTIVE, "a new sending pod runs"),
            Finding::no(FAILED, word::SENDERS_ACTIVE, "a new sending pod runs"),
        ),
        Ending::Active => (
            Finding::no(
                COMPLETE,
                word::SENDERS_ACTIVE,
                match ends {
                    Some(ends) => format!("not all of what sends has finished; {ends}"),
                    None => "not all of what sends has finished".to_owned(),
                },
            ),
            Finding::no(FAILED, word::SENDERS_ACTIVE, "nothing that sends has failed for good"),
        ),
        Ending::Succeeded => (
            Finding::yes(COMPLETE, word::SENDERS_SUCCEEDED, "all of what sends has finished successfully"),
            Finding::no(FAILED, word::SENDERS_SUCCEEDED, "all of what sends has finished successfully"),
        ),
        Ending::Failed(why) => (
            Finding::no(COMPLETE, word::SENDERS_FAILED, why),
            Finding::yes(FAILED, word::SENDERS_FAILED, format!("{why}, and nothing that sends runs")),
        ),
    };
    let ready = match (&ending, established.complaint(), denied) {
        (Ending::Succeeded, ..) => Finding::yes(READY, word::COMPLETE, "the stream is complete"),
        (Ending::Failed(why), ..) => Finding::no(READY, word::SENDERS_FAILED, why),
        (Ending::Active, Some((reason, message)), _) => Finding::no(READY, reason, message),
        // Whoever took the session out of the policy, or the policy away, is not to believe that nothing flows.
        (Ending::Active, None, Some(Problem { reason, message })) => {
            let open = observed.connections;
            let message = format!(
                "{message}; {open} connections stay open under what was applied before, until their pods are made again"
            );
            Finding::no(READY, reason, message)
        }
        (Ending::Active, None, None) => Finding::yes(READY, word::CONNECTED, "attested connections are open"),
    };
    let (attested, established) = match ending {
        Ending::Succeeded => (at_rest(PEERS_ATTESTED, attested), at_rest(ESTABLISHED, established)),
        Ending::Active | Ending::Failed(_) => (attested, established),
    };
    let degraded = degraded(observed);
    vec![ready, attested, established, complete, failed, degraded]
}

/// What no longer holds of a stream that is complete is no fault.
fn at_rest(type_: &'static str, finding: Finding) -> Finding {
    if finding.holds() { finding } else { Finding::unknown(type_, word::COMPLETE, "the stream is complete") }
}

fn degraded(observed: &Observed) -> Finding {
    match observed.degraded.first() {
        None => Finding::no(DEGRADED, word::AS_DECLARED, "connections are as declared"),
        Some(first) => Finding::yes(DEGRADED, first.reason, {
            let messages: Vec<&str> =
                observed.degraded.iter().map(|problem| problem.message.as_str()).collect();
            messages.join("; ")
        }),
    }
}
