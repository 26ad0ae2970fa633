//! What a Peer's status says.

use std::time::Duration;

use sealane_operator_api::well_known::condition::{
    COLLATERAL_FRESH, DEGRADED, EVIDENCE_VERIFIED, POLICY_VERIFIED, READY, TCB_UP_TO_DATE,
};
use sealane_operator_api::{Peer, PeerStatus, ReplicaStatus};
use sealane_types::{Assurance, PeerName, Reason, TcbStatus, UnixSeconds};

use super::absence::absence;
use super::replica::Replica;
use super::summary::{count, joined, weakest};
use crate::condition::{Finding, conditions, time};
use crate::limits::STATUS_REPLICAS_MAX;
use crate::names::OPERATOR_VERSION;
use crate::spec::{Outcome, Problem, Valid, word};

/// What sessions need to know about a Peer.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub(super) wanted: usize,
    pub(super) attested: usize,
    pub(super) problem: Option<Problem>,
}

impl Standing {
    pub(super) fn of(replicas: &[Replica<'_>]) -> Self {
        Self {
            wanted: replicas.len(),
            attested: replicas.iter().filter(|replica| replica.problem().is_none()).count(),
            problem: replicas.iter().find_map(Replica::problem),
        }
    }
}

/// Whether the Peer has nothing left to do: all of its work has finished successfully, or every session that it takes
/// part in is complete. Once told, it stays told although Jobs and pods are cleaned up.
fn is_finished(valid: &Valid, name: &PeerName, object: Option<&Peer>, settled: bool) -> bool {
    let told = object.and_then(|object| {
        let status = object.status.as_ref()?;
        let ready = status.conditions.iter().find(|condition| condition.type_ == READY)?;
        let same = status.observed_generation == object.metadata.generation;
        Some(same && ready.status == "True" && ready.reason == Reason::Finished.as_str())
    });
    match valid.work_of(name).map(|work| &work.outcome) {
        Some(Outcome::Succeeded) => true,
        Some(Outcome::Unknown) => settled || told == Some(true),
        Some(Outcome::Active | Outcome::Failed(_)) | None => false,
    }
}

/// `settled`: the Peer takes part in sessions, and all of them are complete.
pub(super) fn status(valid: &Valid, name: &PeerName, replicas: &[Replica<'_>], settled: bool) -> PeerStatus {
    let peer = valid.peers.get(name).and_then(|peer| Some((peer, valid.snapshot.peers.get(peer.index)?)));
    let generation = peer.and_then(|(_, object)| object.metadata.generation);
    let previous = peer.and_then(|(_, object)| object.status.as_ref());
    let previous = previous.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let problem = peer.and_then(|(peer, _)| peer.problem.as_ref());
    let now = valid.snapshot.now;
    let finished = replicas.is_empty() && is_finished(valid, name, peer.map(|(_, object)| object), settled);
    let findings = match problem {
        None if finished => at_rest(),
        _ => findings(valid, name, problem, replicas),
    };
    let evidence = || replicas.iter().filter_map(Replica::attested);
    let weakest_tcb: Option<TcbStatus> = weakest(evidence().map(|evidence| evidence.tcb_status.as_str()));
    let weakest_assurance: Option<Assurance> =
        weakest(evidence().map(|evidence| evidence.assurance.as_str()));
    PeerStatus {
        observed_generation: generation,
        conditions: conditions(previous, findings, generation, now),
        desired: Some(count(replicas.len())),
        ready: Some(count(replicas.iter().filter(|replica| replica.problem().is_none()).count())),
        attested: Some(count(evidence().count())),
        degraded: Some(count(replicas.iter().filter(|replica| !replica.degradations().is_empty()).count())),
        platform: joined(evidence().map(|evidence| evidence.platform.as_str())).map(cut),
        assurance: weakest_assurance.map(|assurance| assurance.as_str().to_owned()),
        tcb_status: weakest_tcb.map(|tcb| tcb.as_str().to_owned()),
        oldest_evidence: evidence()
            .map(|evidence| evidence.evidence_time)
            .filter(|seconds| *seconds > 0)
            .min()
            .map(|seconds| time(UnixSeconds(seconds))),
        earliest_expiry: earliest_expiry(replicas).map(|seconds| time(UnixSeconds(seconds))),
        policy_epoch: replicas.iter().filter_map(Replica::epoch).min(),
        replicas: listed(replicas),
        sidecar_version: joined(replicas.iter().filter_map(Replica::version)).map(cut),
        operator_version: Some(OPERATOR_VERSION.to_owned()),
        // The last step's to say.
        stale_after: None,
    }
}

fn cut(text: String) -> String {
    text.chars().take(64).collect()
}

/// When collateral ends next, which changes what `CollateralFresh` says.
pub(super) fn next_change(valid: &Valid, replicas: &[Replica<'_>]) -> Option<Duration> {
    let ends = replicas.iter().filter_map(Replica::attested).map(|evidence| evidence.collateral_expires);
    let ahead = ends.filter_map(|end| end.checked_sub(valid.snapshot.now.0)).filter(|left| *left > 0);
    ahead.min().map(Duration::from_secs)
}

/// The earliest end among collateral and policy in use.
fn earliest_expiry(replicas: &[Replica<'_>]) -> Option<u64> {
    let collateral =
        replicas.iter().filter_map(Replica::attested).map(|evidence| evidence.collateral_expires);
    let policies = replicas
        .iter()
        .filter_map(Replica::policy)
        .filter(|policy| policy.verified)
        .map(|policy| policy.expires);
    collateral.chain(policies).filter(|seconds| *seconds > 0).min()
}

/// Unready replicas first, then those of the oldest epoch and of other versions: they are what one looks for.
fn listed(replicas: &[Replica<'_>]) -> Vec<ReplicaStatus> {
    let mut listed: Vec<_> = replicas.iter().map(Replica::status).collect();
    let current = |replica: &ReplicaStatus| replica.version.as_deref() == Some(OPERATOR_VERSION);
    listed.sort_by_key(|replica| (replica.ready, replica.policy_epoch, current(replica)));
    listed.truncate(STATUS_REPLICAS_MAX);
    listed
}

/// Of a Peer whose work has finished.
fn at_rest() -> Vec<Finding> {
    let word = Reason::Finished.as_str();
    let message = "all of its work has finished";
    let unknown = [POLICY_VERIFIED, EVIDENCE_VERIFIED, COLLATERAL_FRESH, TCB_UP_TO_DATE]
        .map(|type_| Finding::unknown(type_, word, message));
    let ready = Finding::yes(READY, word, message);
    std::iter::once(ready).chain(unknown).chain([degraded(&[])]).collect()
}

fn findings(
    valid: &Valid,
    name: &PeerName,
    problem: Option<&Problem>,
    replicas: &[Replica<'_>],
) -> Vec<Finding> {
    let none = || no_replicas(valid, name);
    let policy = verified(POLICY_VERIFIED, replicas, none, Replica::policy_problem, "verified the policy");
    let evidence =
        verified(EVIDENCE_VERIFIED, replicas, none, Replica::evidence_problem, "verified its evidence");
    let collateral = collateral(valid.snapshot.now, replicas);
    let tcb = tcb(replicas);
    let ready = match (problem, [&policy, &evidence].into_iter().find_map(Finding::complaint)) {
        (Some(problem), _) => Finding::not(READY, problem),
        (None, Some((reason, message))) => Finding::no(READY, reason, message),
        (None, None) => Finding::yes(READY, word::ALL_READY, format!("{} of {0} replicas", replicas.len())),
    };
    vec![ready, policy, evidence, collateral, tcb, degraded(replicas)]
}

fn no_replicas(valid: &Valid, name: &PeerName) -> Problem {
    let message = format!("the selector matches no running pod{}", absence(valid.work_of(name)));
    Problem::new(Reason::NoReplicas, message)
}

/// True when the check holds for every replica, and there is one; unknown while nothing worse than silence is known.
fn verified<'a>(
    type_: &'static str,
    replicas: &[Replica<'a>],
    none: impl Fn() -> Problem,
    check: fn(&Replica<'a>) -> Option<Problem>,
    done: &str,
) -> Finding {
    if replicas.is_empty() {
        let Problem { reason, message } = none();
        return Finding::unknown(type_, reason, message);
    }
    let of_all = |count: usize, message: &str| format!("{count} of {} replicas: {message}", replicas.len());
    let problems: Vec<Problem> =
        replicas.iter().filter(|replica| replica.silence().is_none()).filter_map(check).collect();
    if let Some(first) = problems.first() {
        return Finding::no(type_, first.reason, of_all(problems.len(), &first.message));
    }
    let silent: Vec<&Problem> = replicas.iter().filter_map(Replica::silence).collect();
    match silent.first() {
        Some(first) => Finding::unknown(type_, first.reason, of_all(silent.len(), &first.message)),
        None => Finding::yes(type_, word::ALL_VERIFIED, format!("every replica {done}")),
    }
}

pub(super) fn nothing_attested(type_: &'static str) -> Finding {
    Finding::unknown(type_, Reason::EvidenceMissing.as_str(), "no replica has verified evidence")
}

/// Words of a replica whose evidence cannot be judged for want of collateral, or is judged by what is over.
const COLLATERAL_REASONS: [Reason; 3] =
    [Reason::CollateralMissing, Reason::CollateralExpired, Reason::CollateralStale];

/// Why one of the replicas has no fresh collateral, if it says so itself.
fn collateral_problem(replicas: &[Replica<'_>]) -> Option<(Reason, String)> {
    replicas.iter().filter(|replica| replica.silence().is_none()).find_map(|replica| {
        let evidence = replica.evidence()?;
        let told = |reason: &Reason| {
            let word = reason.as_str();
            (!evidence.verified && evidence.reason == word) || evidence.degraded.iter().any(|one| one == word)
        };
        let reason = COLLATERAL_REASONS.into_iter().find(told)?;
        let said = if evidence.verified {
            "its collateral is over, within the policy's grace"
        } else {
            &evidence.message
        };
        Some((reason, format!("pod `{}`: {said}", replica.pod.name)))
    })
}

fn collateral(now: UnixSeconds, replicas: &[Replica<'_>]) -> Finding {
    if let Some((reason, message)) = collateral_problem(replicas) {
        return Finding::no(COLLATERAL_FRESH, reason.as_str(), message);
    }
    let mut attested = replicas.iter().filter_map(|replica| Some((replica, replica.attested()?))).peekable();
    if attested.peek().is_none() {
        return nothing_attested(COLLATERAL_FRESH);
    }
    let stale = attested
        .find(|(_, evidence)| evidence.collateral_expires > 0 && evidence.collateral_expires <= now.0);
    match stale {
        None => Finding::yes(COLLATERAL_FRESH, word::ALL_FRESH, "no collateral in use has expired"),
        Some((replica, evidence)) => Finding::no(
            COLLATERAL_FRESH,
            Reason::CollateralExpired.as_str(),
            format!(
                "collateral of pod `{}` expired at {}",
                replica.pod.name,
                time(UnixSeconds(evidence.collateral_expires)).0
            ),
        ),
    }
}

/// Of replicas that prove themselves by a key.
pub(super) fn no_tcb() -> Finding {
    let message = "a pinned key has no TEE under it, so there is no TCB that anybody vouches for";
    Finding::unknown(TCB_UP_TO_DATE, word::NOT_APPLICABLE, message)
}

fn tcb(replicas: &[Replica<'_>]) -> Finding {
    let stated = replicas.iter().filter_map(Replica::attested).map(|evidence| evidence.tcb_status.as_str());
    match weakest(stated) {
        None if replicas.iter().any(|replica| replica.attested().is_some()) => no_tcb(),
        None => nothing_attested(TCB_UP_TO_DATE),
        Some(TcbStatus::UpToDate) => {
            Finding::yes(TCB_UP_TO_DATE, word::ALL_UP_TO_DATE, "every replica runs the newest required TCB")
        }
        Some(weaker) => Finding::no(
            TCB_UP_TO_DATE,
            weaker.as_str(),
            format!("at least one replica's TCB is {weaker}; see status.replicas"),
        ),
    }
}

fn degraded(replicas: &[Replica<'_>]) -> Finding {
    let degraded: Vec<_> = replicas
        .iter()
        .map(|replica| (replica, replica.degradations()))
        .filter(|(_, words)| !words.is_empty())
        .collect();
    // Simulation is of all replicas and nobody mends it: any other word of any replica comes before it.
    let mendable = degraded.iter().find(|(_, words)| words.first() != Some(&word::SIMULATED_EVIDENCE));
    let Some((example, words)) = mendable.or_else(|| degraded.first()) else {
        return Finding::no(DEGRADED, word::AS_DECLARED, "no replica is accepted with a degradation");
    };
    let reason = words.first().copied().unwrap_or(word::AS_DECLARED);
    let words = joined(degraded.iter().flat_map(|(_, words)| words.iter().copied())).unwrap_or_default();
    let message = format!(
        "{} of {} replicas ({words}), among them pod `{}`",
        degraded.len(),
        replicas.len(),
        example.pod.name
    );
    Finding::yes(DEGRADED, reason, message)
}
