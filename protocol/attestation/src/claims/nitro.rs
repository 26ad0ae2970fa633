//! What a Nitro attestation document says.

use std::collections::BTreeMap;

use sealane_policy::{NitroMeasurement, NitroPermissions};
use sealane_types::{Measurement, UnixSeconds};

use crate::rejection::Rejection;

/// The statements of an attestation document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NitroClaims {
    pub(crate) module_id: String,
    pub(crate) timestamp_ms: u64,
    pub(crate) image: [Measurement; 3],
    /// PCR3 and above, those that the document has.
    pub(crate) registers: BTreeMap<u8, Measurement>,
    pub(crate) user_data: Option<Vec<u8>>,
    pub(crate) nonce: Option<Vec<u8>>,
    pub(crate) public_key: Option<Vec<u8>>,
}

impl NitroClaims {
    /// The parent instance and one start of the enclave, like `i-0bee92034f3d60691-enc01943c5eaab3ad6a`.
    #[must_use]
    pub fn module_id(&self) -> &str {
        &self.module_id
    }

    /// When the document was made, by the hypervisor's clock.
    #[must_use]
    pub const fn timestamp(&self) -> UnixSeconds {
        UnixSeconds(self.timestamp_ms / 1000)
    }

    /// PCR0–2: the image, its kernel and boot ramdisk, the application.
    #[must_use]
    pub const fn image(&self) -> &[Measurement; 3] {
        &self.image
    }

    /// A PCR of the document, which has PCR0–2 and any of the others up to 31.
    #[must_use]
    pub fn pcr(&self, index: u8) -> Option<&Measurement> {
        self.image.get(usize::from(index)).or_else(|| self.registers.get(&index))
    }

    /// What the enclave had signed: REPORT_DATA in honest evidence.
    #[must_use]
    pub fn user_data(&self) -> Option<&[u8]> {
        self.user_data.as_deref()
    }

    /// What the enclave was challenged with: the root of the handshakes' tree in honest evidence.
    #[must_use]
    pub fn nonce(&self) -> Option<&[u8]> {
        self.nonce.as_deref()
    }

    /// A key of the enclave: its static key in honest evidence.
    #[must_use]
    pub fn public_key(&self) -> Option<&[u8]> {
        self.public_key.as_deref()
    }

    /// Whether the enclave runs in debug mode: nothing of its image was measured.
    #[must_use]
    pub fn debug(&self) -> bool {
        NitroMeasurement::of(self.image).is_debug()
    }

    /// Whether the enclave's settings are all among those that `permissions` tolerate.
    ///
    /// # Errors
    /// [`Rejection::Debug`].
    pub fn permitted(&self, permissions: &NitroPermissions) -> Result<(), Rejection> {
        // Destructured without `..`, so that a permission that a later policy adds is not forgotten here.
        let NitroPermissions { debug } = *permissions;
        if self.debug() && !debug { Err(Rejection::Debug) } else { Ok(()) }
    }

    /// Whether the document was at most `most_seconds` old when it was shown.
    ///
    /// # Errors
    /// [`Rejection::Stale`].
    pub const fn fresh(&self, most_seconds: u64, shown: UnixSeconds) -> Result<(), Rejection> {
        let age_seconds = shown.0.saturating_sub(self.timestamp().0);
        if age_seconds > most_seconds { Err(Rejection::Stale { age_seconds, most_seconds }) } else { Ok(()) }
    }
}
