//! What a TDX quote says.

use sealane_policy::TdxMeasurement;

/// The statements of a TD report and of the collateral that it was verified with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TdxClaims {
    pub(crate) measurement: TdxMeasurement,
}

impl TdxClaims {
    /// MRTD and RTMR0–2.
    #[must_use]
    pub const fn measurement(&self) -> &TdxMeasurement {
        &self.measurement
    }
}
