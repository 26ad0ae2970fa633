//! Whether a TDX quote shows what an entry asks for.

use sealane_policy::TdxReference;

use super::require;
use crate::claims::TdxClaims;
use crate::rejection::Rejection;

type Check = fn(&TdxClaims, &TdxReference) -> Result<(), Rejection>;

/// From the coarse to the fine.
pub(super) const CHECKS: &[Check] = &[measurement];

fn measurement(claims: &TdxClaims, reference: &TdxReference) -> Result<(), Rejection> {
    require(reference.measurements.contains(&claims.measurement), Rejection::Measurement)
}
