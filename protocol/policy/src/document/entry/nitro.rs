//! What AWS Nitro Enclaves evidence must show.

use std::collections::BTreeSet;

use sealane_types::Measurement;

use super::{Pinnable, open};
use crate::limits::NITRO_AGE_SECONDS_DEFAULT;

/// Reference values and permissions for Nitro attestation documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NitroReference {
    /// Accepted measurements of the enclave; never empty in a valid document.
    pub measurements: BTreeSet<NitroMeasurement>,
    /// Accepted module ids, each of which names one start of one enclave. Empty: any.
    pub module_ids: BTreeSet<String>,
    /// How old a document may be when it is shown in a handshake.
    pub max_age_seconds: u64,
    pub permissions: NitroPermissions,
}

impl Default for NitroReference {
    fn default() -> Self {
        Self {
            measurements: BTreeSet::new(),
            module_ids: BTreeSet::new(),
            max_age_seconds: NITRO_AGE_SECONDS_DEFAULT,
            permissions: NitroPermissions::default(),
        }
    }
}

/// One enclave image, and where it was started as far as that is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NitroMeasurement {
    /// PCR0–2: the image, its kernel and boot ramdisk, the application.
    pub pcr: [Measurement; 3],
    /// The IAM role of the parent instance, and by it the AWS account. Absent: any, which is shown as absent.
    pub pcr3: Option<Measurement>,
    /// The parent instance. Absent: any.
    pub pcr4: Option<Measurement>,
    /// The certificate that signed the image. PCR0 pins the image already, so absent says nothing of note.
    pub pcr8: Option<Measurement>,
}

impl NitroMeasurement {
    /// Whether this is what every enclave measures that was started with `--debug-mode`: zero in PCR0–2.
    #[must_use]
    pub fn is_debug(&self) -> bool {
        self.pcr.iter().all(|pcr| pcr.as_bytes().iter().all(|byte| *byte == 0))
    }
}

/// What is refused unless the entry says otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NitroPermissions {
    /// The parent instance may read the enclave's console, and nothing of the image is measured.
    pub debug: bool,
}

impl NitroReference {
    pub(super) fn absent(&self, _real: bool) -> Vec<Pinnable> {
        let roles_open = self.measurements.iter().any(|measured| measured.pcr3.is_none());
        open([(roles_open, Pinnable::Pcr3)])
    }
}
