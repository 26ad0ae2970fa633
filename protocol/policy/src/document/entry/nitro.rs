//! What AWS Nitro Enclaves evidence must show.

use std::collections::{BTreeMap, BTreeSet};

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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NitroMeasurement {
    /// PCR0–2: the image, its kernel and boot ramdisk, the application.
    pub image: [Measurement; 3],
    /// Those of PCR3–31 that are pinned; any value will do in the others. PCR3 is the IAM role of the parent instance, and by
    /// it the AWS account: it is shown as absent where it is. PCR4 is the parent instance, PCR8 the certificate that signed
    /// the image; PCR16–31 are what the enclave has put there itself.
    pub registers: BTreeMap<u8, Measurement>,
}

/// The members of a measurement in a document, by the index of the PCR.
pub(crate) const PCRS: [&str; 32] = [
    "pcr0", "pcr1", "pcr2", "pcr3", "pcr4", "pcr5", "pcr6", "pcr7", "pcr8", "pcr9", "pcr10", "pcr11",
    "pcr12", "pcr13", "pcr14", "pcr15", "pcr16", "pcr17", "pcr18", "pcr19", "pcr20", "pcr21", "pcr22",
    "pcr23", "pcr24", "pcr25", "pcr26", "pcr27", "pcr28", "pcr29", "pcr30", "pcr31",
];

impl NitroMeasurement {
    /// PCR3: the IAM role of the parent instance.
    pub const ROLE: u8 = 3;
    /// PCR4: the parent instance.
    pub const INSTANCE: u8 = 4;
    /// PCR8: the certificate that signed the image.
    pub const SIGNER: u8 = 8;

    /// An image, wherever it was started.
    #[must_use]
    pub const fn of(image: [Measurement; 3]) -> Self {
        Self { image, registers: BTreeMap::new() }
    }

    /// Whether this is what every enclave measures that was started with `--debug-mode`: zero in PCR0–2.
    #[must_use]
    pub fn is_debug(&self) -> bool {
        self.image.iter().all(|pcr| pcr.as_bytes().iter().all(|byte| *byte == 0))
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
        let roles_open = self
            .measurements
            .iter()
            .any(|measured| !measured.registers.contains_key(&NitroMeasurement::ROLE));
        open([(roles_open, Pinnable::Pcr3)])
    }
}
