//! What a Nitro attestation document says.

use sealane_policy::NitroMeasurement;

/// The statements of an attestation document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NitroClaims {
    pub(crate) measurement: NitroMeasurement,
}

impl NitroClaims {
    /// PCR0–2.
    #[must_use]
    pub const fn measurement(&self) -> &NitroMeasurement {
        &self.measurement
    }
}
