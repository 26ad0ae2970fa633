//! Claims to verdict: what was proved, held against a verified policy.

mod fit;
mod verified;

use sealane_policy::VerifiedPolicy;
use sealane_types::{PeerName, Platform, UnixSeconds};

use crate::claims::{Claims, Revocation};
use crate::collateral::Collateral;
use crate::expected::{Binding, Expected};
use crate::inspect::inspect;
use crate::message::EvidenceMessage;
use crate::rejection::Rejection;
use fit::Verdict;

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
    if *claims.report_data() != binding.report_data {
        return Err(Rejection::NotBound("its REPORT_DATA is not the one of this handshake"));
    }
    let Verdict { assurance, degradations } = weigh(claims, peer, policy, now)?;
    Ok(VerifiedPeer {
        peer: peer.clone(),
        pod: binding.pod.clone(),
        static_key: binding.prover_static,
        claims: claims.clone(),
        assurance,
        degradations,
        evidence_time: now,
    })
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
    let Verdict { assurance, degradations } = weigh(&held.claims, &held.peer, policy, now)?;
    Ok(VerifiedPeer { assurance, degradations, ..held.clone() })
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
    let binding = expected.bind(message)?;
    let claims = inspect(&message.evidence, collateral, now)?;
    appraise(&claims, peer, policy, &binding, now)
}

/// Everything that holds for the claims at any time, apart from the handshake.
fn weigh(
    claims: &Claims,
    peer: &PeerName,
    policy: &VerifiedPolicy,
    now: UnixSeconds,
) -> Result<Verdict, Rejection> {
    policy.in_force(now.into()).map_err(|error| Rejection::Policy(error.reason()))?;
    let document = policy.document();
    let rules = document.peers.get(peer).ok_or(Rejection::PeerNotInPolicy)?;
    if now > claims.expires() {
        return Err(Rejection::CollateralExpired("what the evidence rests on has expired since"));
    }
    if claims.revocation() == Revocation::Unchecked
        || (claims.revocation() == Revocation::NotApplicable && claims.platform() != Platform::Simulated)
    {
        return Err(Rejection::CollateralMissing("no revocation list of the vendor"));
    }
    fit::best(claims, &rules.entries, document.floors.complete)
}
