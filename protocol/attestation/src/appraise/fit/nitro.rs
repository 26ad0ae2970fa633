//! Whether a Nitro attestation document shows what an entry asks for.

use sealane_policy::NitroReference;

use super::require;
use crate::claims::NitroClaims;
use crate::rejection::Rejection;

type Check = fn(&NitroClaims, &NitroReference) -> Result<(), Rejection>;

/// From the coarse to the fine.
pub(super) const CHECKS: &[Check] = &[measurement];

fn measurement(claims: &NitroClaims, reference: &NitroReference) -> Result<(), Rejection> {
    require(reference.measurements.contains(&claims.measurement), Rejection::Measurement)
}
