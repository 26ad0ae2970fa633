//! Claims to verdict: what was proved, held against a verified policy.

mod fit;
mod verified;

use std::sync::Arc;

use sealane_policy::{Entry, VerifiedPolicy};
use sealane_types::{PeerName, Platform, UnixSeconds};

use crate::as_of::AsOf;
use crate::claims::{Claims, Revocation, Statement};
use crate::collateral::Collateral;
use crate::evidence::Evidence;
use crate::expected::{Binding, Expected};
use crate::inspect::inspect_as_of;
use crate::message::EvidenceMessage;
use crate::rejection::Rejection;
use crate::snp::ChainCache;
use crate::trust::TrustConfiguration;
use fit::{Shown, Verdict};

pub use fit::Finding;
pub use verified::{Degradation, VerifiedPeer};

/// Whether `claims` are bound to the handshake of `binding` and make their prover a replica of `peer` under
/// `policy` at `now`.
///
/// # Errors
/// [`Rejection`]; when no entry of the policy fits, the shortfall of the one that came closest.
pub fn appraise(
    claims: &Claims,
    peer: &PeerName,
    policy: &VerifiedPolicy,
    binding: &Binding,
    now: UnixSeconds,
) -> Result<VerifiedPeer, Rejection> {
    // First of all: evidence that is not for this handshake says nothing about whoever shows it.
    bound(claims, binding)?;
    let shown = Shown { claims, at: now, workload: binding.workload.as_ref() };
    let Verdict { assurance, degradations } = weigh(&shown, &binding.trust, peer, policy, now)?;
    Ok(VerifiedPeer {
        peer: peer.clone(),
        pod: binding.pod.clone(),
        static_key: binding.prover_static,
        trust: Arc::clone(&binding.trust),
        claims: claims.clone(),
        workload: binding.workload.clone(),
        assurance,
        degradations,
        evidence_time: now,
        counts_until: claims.lasts(&policy.document().collateral),
        evidence: None,
        edition: 0,
    })
}

/// What `entry` asks for and `claims`, shown at `shown`, do not have; nothing if they satisfy it.
///
/// For whoever writes entries. It is no verdict on a peer: neither a handshake nor dates nor revocations are looked at.
#[must_use]
pub fn shortfall(claims: &Claims, entry: &Entry, shown: UnixSeconds) -> Option<Rejection> {
    let shown = Shown { claims, at: shown, workload: None };
    fit::best(&shown, std::slice::from_ref(entry), false).err()
}

/// What every check of an entry says of what was shown at `now`, each by itself: of the entry for `peer` that fits, or else
/// of the one that comes closest; nothing if `policy` has none.
///
/// For whoever wants to see all of it. It is no verdict: whether the evidence is bound, in date and not revoked is for
/// [`appraise`].
#[must_use]
pub fn review<'p>(
    claims: &Claims,
    peer: &PeerName,
    policy: &'p VerifiedPolicy,
    binding: &Binding,
    now: UnixSeconds,
) -> Option<(&'p Entry, Vec<Finding>)> {
    let shown = Shown { claims, at: now, workload: binding.workload.as_ref() };
    fit::review(&shown, &policy.document().peers.get(peer)?.entries)
}

/// Judges a peer again from the claims it proved earlier: for a new policy epoch, and as time passes. The
/// evidence keeps its age.
///
/// # Errors
/// As [`appraise`], and [`Rejection::CollateralExpired`] once a certificate or list under the claims expired.
pub fn rejudge(
    held: &VerifiedPeer,
    policy: &VerifiedPolicy,
    now: UnixSeconds,
) -> Result<VerifiedPeer, Rejection> {
    let shown = Shown { claims: &held.claims, at: held.evidence_time, workload: held.workload.as_ref() };
    let Verdict { assurance, degradations } = weigh(&shown, &held.trust, &held.peer, policy, now)?;
    let counts_until = held.claims.lasts(&policy.document().collateral);
    Ok(VerifiedPeer { assurance, degradations, counts_until, ..held.clone() })
}

/// Judges a peer again from the evidence that it showed: what `collateral` says now of its platform may differ from what
/// was known then. Nothing else is asked of it again; its evidence keeps its age.
///
/// # Errors
/// As [`rejudge`] and [`crate::inspect`].
pub fn rejudge_with(
    chains: &mut ChainCache,
    held: &VerifiedPeer,
    policy: &VerifiedPolicy,
    collateral: &Collateral,
    now: UnixSeconds,
) -> Result<VerifiedPeer, Rejection> {
    let claims = match &held.evidence {
        Some(evidence) => inspect_under(chains, evidence, collateral, policy, now)?,
        None => held.claims.clone(),
    };
    let judged = VerifiedPeer { claims, edition: collateral.edition(), ..held.clone() };
    rejudge(&judged, policy, now)
}

/// Binds, inspects and appraises a received message: the whole way from bytes to a verdict.
///
/// # Errors
/// [`Rejection`] of the step that failed.
pub fn judge(
    message: &EvidenceMessage,
    expected: &Expected<'_>,
    peer: &PeerName,
    policy: &VerifiedPolicy,
    collateral: &Collateral,
    now: UnixSeconds,
) -> Result<VerifiedPeer, Rejection> {
    judge_with(&mut ChainCache::new(), message, expected, peer, policy, collateral, now)
}

/// As [`judge`], with the chains that were verified before.
///
/// # Errors
/// As [`judge`].
pub fn judge_with(
    chains: &mut ChainCache,
    message: &EvidenceMessage,
    expected: &Expected<'_>,
    peer: &PeerName,
    policy: &VerifiedPolicy,
    collateral: &Collateral,
    now: UnixSeconds,
) -> Result<VerifiedPeer, Rejection> {
    let binding = expected.bind(message)?;
    let claims = inspect_under(chains, &message.evidence, collateral, policy, now)?;
    let verified = appraise(&claims, peer, policy, &binding, now)?;
    let evidence = claims.collateral.map(|_| Arc::new(message.evidence.clone()));
    Ok(VerifiedPeer { evidence, edition: collateral.edition(), ..verified })
}

/// As [`crate::inspect_with`], with collateral that counts after its end for the grace that `policy` signs.
///
/// # Errors
/// As [`crate::inspect`].
pub fn inspect_under(
    chains: &mut ChainCache,
    evidence: &Evidence,
    collateral: &Collateral,
    policy: &VerifiedPolicy,
    now: UnixSeconds,
) -> Result<Claims, Rejection> {
    let as_of = AsOf::with_grace(now, policy.document().collateral.grace_seconds);
    inspect_as_of(chains, evidence, collateral, as_of)
}

/// Whether the evidence was made for this handshake. A Nitro document says so three times: REPORT_DATA covers the other
/// two, which are held to the same all the same, so that no reader of theirs is misled.
fn bound(claims: &Claims, binding: &Binding) -> Result<(), Rejection> {
    if claims.report_data() != Some(&binding.report_data) {
        return Err(Rejection::NotBound("its REPORT_DATA is not the one of this handshake"));
    }
    let Statement::Nitro(nitro) = claims.statement() else { return Ok(()) };
    if nitro.nonce() != Some(binding.tree_root.as_slice()) {
        return Err(Rejection::NotBound("its nonce is not the root of this handshake's tree"));
    }
    if nitro.public_key() != Some(binding.prover_static.as_slice()) {
        return Err(Rejection::NotBound("its public_key is not the static key of this handshake"));
    }
    Ok(())
}

/// Everything that holds for the claims at any time, apart from the handshake in which they were shown.
fn weigh(
    shown: &Shown<'_>,
    trust: &TrustConfiguration,
    peer: &PeerName,
    policy: &VerifiedPolicy,
    now: UnixSeconds,
) -> Result<Verdict, Rejection> {
    policy.in_force(now.into()).map_err(|error| Rejection::Policy(error.reason()))?;
    trust.satisfies(policy)?;
    let document = policy.document();
    let rules = document.peers.get(peer).ok_or(Rejection::PeerNotInPolicy)?;
    let claims = shown.claims;
    if now > claims.lasts(&document.collateral) {
        return Err(Rejection::CollateralExpired(
            "what the evidence rests on has expired since, or is older than the policy's collateral.maxAgeSeconds",
        ));
    }
    claims.check_age(&document.collateral)?;
    let has_lists = !matches!(claims.platform(), Platform::Simulated | Platform::Nitro | Platform::Key);
    if claims.revocation() == Revocation::Unchecked
        || (claims.revocation() == Revocation::NotApplicable && has_lists)
    {
        return Err(Rejection::CollateralMissing("no revocation list of the vendor"));
    }
    let mut verdict = fit::best(shown, &rules.entries, document.floors.complete)?;
    if now > claims.expires() {
        verdict.degradations.push(Degradation::CollateralStale);
    }
    Ok(verdict)
}
