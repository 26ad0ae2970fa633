//! Evidence to claims: which verifier speaks for which platform.

use sealane_types::{Platform, UnixSeconds};

use crate::claims::Claims;
use crate::collateral::Collateral;
use crate::evidence::Evidence;
use crate::rejection::Rejection;
use crate::snp;

/// Verifies signatures, chains, dates and layout of `evidence` at `now`, and says what it states.
///
/// Claims are no verdict: they may be those of a debuggable guest of somebody else. Only
/// [`crate::appraise`] decides.
///
/// # Errors
/// [`Rejection`] when the evidence is malformed, not genuine, expired, revoked, or of a platform that cannot
/// be verified with this collateral.
pub fn inspect(evidence: &Evidence, collateral: &Collateral, now: UnixSeconds) -> Result<Claims, Rejection> {
    evidence.check_sizes()?;
    match evidence.platform {
        Platform::SevSnp => snp::inspect(evidence, collateral, now),
        Platform::Simulated if collateral.allows_simulated() => snp::inspect_simulated(evidence, now),
        Platform::Simulated => Err(Rejection::SimulationNotAllowed),
        platform @ (Platform::Tdx | Platform::Nitro | Platform::Key) => {
            Err(Rejection::PlatformUnsupported(platform))
        }
    }
}
