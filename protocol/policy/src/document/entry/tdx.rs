//! What Intel TDX evidence must show.

use std::collections::BTreeSet;

use sealane_types::Measurement;

use super::Pinnable;

/// Reference values and permissions for TDX evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TdxReference {
    /// Accepted measurements of the trust domain; never empty in a valid document.
    pub measurements: BTreeSet<TdxMeasurement>,
}

/// One trust domain as it was built and booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TdxMeasurement {
    /// MRTD: the domain as it was built.
    pub mrtd: Measurement,
    /// RTMR0–2: firmware configuration, boot loader and kernel, command line and initrd.
    pub rtmr: [Measurement; 3],
}

impl TdxReference {
    pub(super) fn absent(&self, _real: bool) -> Vec<Pinnable> {
        Vec::new()
    }
}
