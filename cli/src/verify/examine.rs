//! Evidence to checks. Pure: what was received, the policy, collateral and the time in; what was found out.
//!
//! The verdict is that of [`appraise`], the same function by which sidecars judge each other; the checks say how it
//! came about, and can make it worse but never better.

use sealane_attestation::{
    Aspect, ChainCache, Claims, Collateral, Degradation, Finding, Rejection, Revocation, StatedWorkload,
    TrustConfiguration, VerifiedPeer, appraise, inspect_under, review,
};
use sealane_policy::{Timestamp, VerifiedPolicy};
use sealane_protocol::connection::EvidenceReceived;
use sealane_types::{Assurance, PeerName, Platform, Reason, TcbStatus, UnixSeconds};

use super::check::{Checks, Status};
use super::seen::seen;

/// What evidence is held against.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bench<'a> {
    pub(super) peer: &'a PeerName,
    pub(super) collateral: &'a Collateral,
    pub(super) now: UnixSeconds,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Examination {
    pub(super) checks: Checks,
    pub(super) verdict: Result<VerifiedPeer, Reason>,
}

/// Verifies what a replica showed for this handshake.
pub(super) fn examine(
    received: &EvidenceReceived,
    policy: &VerifiedPolicy,
    bench: &Bench<'_>,
) -> Examination {
    let mut checks = Checks::default();
    let verdict = judge(&mut checks, received, policy, bench).map_err(|rejection| rejection.reason());
    Examination { checks, verdict }
}

fn judge(
    checks: &mut Checks,
    received: &EvidenceReceived,
    policy: &VerifiedPolicy,
    bench: &Bench<'_>,
) -> Result<VerifiedPeer, Rejection> {
    let Bench { peer, collateral, now } = *bench;
    let message = &received.message;
    let (policies, evidence) = ([policy.digest()], &message.evidence);
    checks.ok(
        "evidence",
        format!(
            "{:?}, {} bytes, {} certificates",
            evidence.format,
            evidence.report.len(),
            evidence.certificates.len()
        ),
    );
    trusts(checks, &received.introduction.trust, policy);
    let expected = received.expected(&policies);
    let binding = expected.bind(message).map_err(|rejection| note(checks, "binding", rejection))?;
    let claims = inspect_under(&mut ChainCache::new(), evidence, collateral, policy, now)
        .map_err(|rejection| note(checks, step(&rejection), rejection))?;
    let verdict = appraise(&claims, peer, policy, &binding, now);
    match verdict {
        Err(rejection @ Rejection::NotBound(_)) => _ = note(checks, "binding", rejection),
        _ => checks.ok("binding", "made for this handshake, this pod, its key and this policy"),
    }
    checks.ok("certificates", format!("genuine, up to the root {}", claims.root()));
    revocation(checks, &claims);
    lasting(checks, &claims, policy, now);
    let degradations = verdict.as_ref().map(VerifiedPeer::degradations).unwrap_or_default();
    let shown = Shown { claims: &claims, workload: message.workload.as_ref(), at: now };
    match review(&claims, peer, policy, &binding, now) {
        Some((_, findings)) => {
            findings.iter().for_each(|finding| aspect(checks, &shown, finding, degradations))
        }
        None => _ = note(checks, "policy entry", Rejection::PeerNotInPolicy),
    }
    until(checks, "policy expiry", policy.expires().unix(), now, Reason::PolicyExpired);
    match &verdict {
        Ok(accepted) => assurance(checks, accepted),
        // A refusal that no check above explains is a refusal all the same.
        Err(rejection) if checks.verdict() != Status::Failed => _ = note(checks, "verdict", *rejection),
        Err(_) => {}
    }
    verdict
}

/// Who decides which policies the replica follows; it counts once the evidence is bound.
fn trusts(checks: &mut Checks, stated: &TrustConfiguration, policy: &VerifiedPolicy) {
    let TrustConfiguration { source, roots, simulation } = stated;
    let simulation = if *simulation { "; accepts simulated evidence where the policy lists it" } else { "" };
    let owners = format!("{} of {} owners, from {source}{simulation}", roots.threshold, roots.keys.len());
    match stated.satisfies(policy) {
        Ok(()) => checks.ok("roots", owners),
        Err(rejection) => checks.failed("roots", format!("{owners}: {rejection}"), rejection.reason()),
    }
}

/// The check that a refusal by the verifier belongs to.
const fn step(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::Malformed(_) | Rejection::SimulationNotAllowed => "evidence format",
        Rejection::CollateralMissing(_) | Rejection::CollateralExpired(_) => "collateral",
        Rejection::Revoked(_) => "revocation",
        _ => "certificates",
    }
}

fn note(checks: &mut Checks, about: impl ToString, rejection: Rejection) -> Rejection {
    checks.failed(about, rejection, rejection.reason());
    rejection
}

fn revocation(checks: &mut Checks, claims: &Claims) {
    match (claims.revocation(), claims.platform()) {
        (Revocation::Checked, _) => checks.ok("revocation", "not revoked, by the vendor's lists"),
        (Revocation::NotApplicable, Platform::Nitro) => {
            checks.ok("revocation", "AWS revokes nothing; its certificates live for hours");
        }
        (Revocation::NotApplicable, Platform::Key) => {
            checks.ok("revocation", "a pinned key holds until an epoch drops it");
        }
        (Revocation::NotApplicable, Platform::Simulated) => {
            checks.ok("revocation", "a simulated root revokes nothing");
        }
        (Revocation::Unchecked | Revocation::NotApplicable, _) => {
            checks.failed(
                "revocation",
                "no revocation list of the vendor is at hand",
                Reason::CollateralMissing,
            );
        }
    }
}

/// Whether certificates, lists and statements count, which may be longer than their dates say.
fn lasting(checks: &mut Checks, claims: &Claims, policy: &VerifiedPolicy, now: UnixSeconds) {
    let (about, end, counts) = ("collateral", claims.expires(), claims.lasts(&policy.document().collateral));
    if now > end && now <= counts {
        let seen = format!("over since {}, within the policy's grace", Timestamp::from(end));
        checks.degraded(about, seen, Some(Reason::CollateralStale));
    } else if counts < end {
        let seen =
            format!("counts until {}, by the policy's collateral.maxAgeSeconds", Timestamp::from(counts));
        if now > counts {
            checks.failed(about, seen, Reason::CollateralExpired)
        } else {
            checks.ok(about, seen)
        }
    } else {
        until(checks, about, end, now, Reason::CollateralExpired);
    }
}

fn until(checks: &mut Checks, about: &str, end: UnixSeconds, now: UnixSeconds, reason: Reason) {
    let seen = if end == UnixSeconds::NEVER {
        "does not end by itself".to_owned()
    } else {
        format!("until {}", Timestamp::from(end))
    };
    if now > end { checks.failed(about, seen, reason) } else { checks.ok(about, seen) }
}

/// What the replica showed, once it is known to be bound.
struct Shown<'a> {
    claims: &'a Claims,
    workload: Option<&'a StatedWorkload>,
    at: UnixSeconds,
}

fn aspect(checks: &mut Checks, shown: &Shown<'_>, finding: &Finding, degradations: &[Degradation]) {
    let Finding { aspect, outcome } = *finding;
    let claims = shown.claims;
    let found = match aspect {
        Aspect::Workload => shown.workload.map(stated).unwrap_or_default(),
        other => seen(claims, other, shown.at),
    };
    // Where nobody states a workload and none is asked for there is nothing to say, and hardware's root is above.
    let silent = found.is_empty() || (aspect == Aspect::Root && claims.platform() != Platform::Simulated);
    if let Err(rejection) = outcome {
        let seen = if found.is_empty() { rejection.to_string() } else { format!("{found}: {rejection}") };
        checks.failed(aspect, seen, rejection.reason());
        return;
    }
    let open: Vec<_> = degradations.iter().filter(|degradation| concerns(degradation, aspect)).collect();
    let weak = aspect == Aspect::Tcb && claims.tcb_status() != Some(TcbStatus::UpToDate);
    match open.first() {
        Some(first) => {
            let words: Vec<_> = open.iter().map(ToString::to_string).collect();
            checks.degraded(aspect, joined(&found, &words.join(", ")), Some(first.reason()));
        }
        None if weak => checks.degraded(aspect, found, None),
        None if silent => {}
        None => checks.ok(aspect, found),
    }
}

/// What the node agent says runs in the pod.
fn stated(workload: &StatedWorkload) -> String {
    let images =
        workload.images().iter().map(|(container, digest)| format!("{container} runs sha256:{digest}"));
    let images: Vec<_> = images.collect();
    format!("service account {}; {}", workload.service_account(), images.join(", "))
}

fn concerns(degradation: &Degradation, aspect: Aspect) -> bool {
    match degradation {
        Degradation::ReferenceValueMissing(value) => Aspect::of(*value) == aspect,
        Degradation::WorkloadUnverified => aspect == Aspect::Workload,
        // One that this release cannot place is shown with the assurance.
        _ => false,
    }
}

fn joined(found: &str, words: &str) -> String {
    if found.is_empty() { words.to_owned() } else { format!("{found}: {words}") }
}

fn assurance(checks: &mut Checks, accepted: &VerifiedPeer) {
    let assurance = accepted.assurance();
    let words = match assurance {
        Assurance::Pod => "Pod: the pod itself is the guest",
        Assurance::Node => "Node: administrators of the node can reach the workload",
        Assurance::Key => "Key: a pinned key, no TEE",
        Assurance::Simulated => "Simulated: made by software, it protects nothing from anybody",
    };
    let placed = |degradation: &Degradation| {
        matches!(
            degradation,
            Degradation::ReferenceValueMissing(_)
                | Degradation::WorkloadUnverified
                | Degradation::CollateralStale
        )
    };
    let others: Vec<_> =
        accepted.degradations().iter().filter(|one| !placed(one)).map(ToString::to_string).collect();
    if assurance == Assurance::Simulated || !others.is_empty() {
        checks.degraded("assurance", joined(words, &others.join(", ")), None);
    } else {
        checks.ok("assurance", words);
    }
}
