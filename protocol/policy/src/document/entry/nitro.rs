//! What AWS Nitro Enclaves evidence must show.

use std::collections::BTreeSet;

use sealane_types::Measurement;

use super::Pinnable;

/// Reference values and permissions for Nitro attestation documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NitroReference {
    /// Accepted measurements of the enclave; never empty in a valid document.
    pub measurements: BTreeSet<NitroMeasurement>,
}

/// One enclave image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NitroMeasurement {
    /// PCR0–2: the image, its kernel and boot ramdisk, the application.
    pub pcr: [Measurement; 3],
}

impl NitroReference {
    pub(super) fn absent(&self, _real: bool) -> Vec<Pinnable> {
        Vec::new()
    }
}
