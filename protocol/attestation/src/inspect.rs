//! Evidence to claims: which verifier speaks for which platform.

use sealane_types::{Platform, UnixSeconds};

use crate::as_of::AsOf;
use crate::claims::Claims;
use crate::collateral::Collateral;
use crate::evidence::{Evidence, Format};
use crate::rejection::Rejection;
use crate::snp::ChainCache;
use crate::{key, nitro, snp, tdx};

/// Verifies signatures, chains, dates and layout of `evidence` at `now`, and says what it states.
///
/// Claims are no verdict: they may be those of a debuggable guest of somebody else. Only
/// [`crate::appraise`] decides.
///
/// # Errors
/// [`Rejection`] when the evidence is malformed, not genuine, expired, revoked, or of a platform that cannot
/// be verified with this collateral.
pub fn inspect(evidence: &Evidence, collateral: &Collateral, now: UnixSeconds) -> Result<Claims, Rejection> {
    inspect_with(&mut ChainCache::new(), evidence, collateral, now)
}

/// As [`inspect`], at the cost of one signature where `chains` knows the certificates of the evidence; it comes to know
/// those that it does not.
///
/// # Errors
/// As [`inspect`].
pub fn inspect_with(
    chains: &mut ChainCache,
    evidence: &Evidence,
    collateral: &Collateral,
    now: UnixSeconds,
) -> Result<Claims, Rejection> {
    inspect_as_of(chains, evidence, collateral, AsOf::strictly(now))
}

/// As [`inspect_with`], with collateral that may be over by a grace.
pub(crate) fn inspect_as_of(
    chains: &mut ChainCache,
    evidence: &Evidence,
    collateral: &Collateral,
    as_of: AsOf,
) -> Result<Claims, Rejection> {
    evidence.check_sizes()?;
    if evidence.platform() == Platform::Simulated && !collateral.allows_simulated() {
        return Err(Rejection::SimulationNotAllowed);
    }
    match evidence.format {
        Format::SevSnp => snp::inspect(evidence, collateral, as_of, chains),
        Format::SimulatedSevSnp => snp::inspect_simulated(evidence, as_of, chains),
        Format::Tdx => tdx::inspect(evidence, collateral, as_of),
        Format::SimulatedTdx => tdx::inspect_simulated(evidence, as_of),
        Format::Nitro | Format::SimulatedNitro => nitro::inspect(evidence, collateral, as_of.now),
        Format::Key => key::inspect(evidence),
    }
}
