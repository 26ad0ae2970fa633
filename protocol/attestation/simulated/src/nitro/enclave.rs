//! The platform at work: what a handshake needs signed in, a document out.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{Context, SHA384, digest};
use sealane_types::Measurement;

use super::document::Document;
use super::material::Material;
use crate::error::SimulationError;

const MODULE_ID: &str = "i-00000000000000000-enc0000000000000000";
const INSTANCE_ID: &[u8] = b"i-00000000000000000";
/// An enclave locks its first sixteen PCRs.
const LOCKED_PCRS: u64 = 16;

/// PCR0–2 of every simulated enclave: the simulated guest's measurement, and the SHA-384 of
/// `sealane simulated kernel 1` and of `sealane simulated application 1`.
#[must_use]
pub fn measurements() -> [Measurement; 3] {
    let hash = |text: &[u8]| {
        let mut bytes = [0; 48];
        bytes.copy_from_slice(digest(&SHA384, text).as_ref());
        Measurement::new(bytes)
    };
    [crate::MEASUREMENT, hash(b"sealane simulated kernel 1"), hash(b"sealane simulated application 1")]
}

/// A PCR that was extended once, by the SHA-384 of `value`: how PCR3 names a role and PCR4 an instance.
#[must_use]
pub fn register(value: &[u8]) -> Measurement {
    let mut hash = Context::new(&SHA384);
    hash.update(&[0; 48]);
    hash.update(digest(&SHA384, value).as_ref());
    let mut bytes = [0; 48];
    bytes.copy_from_slice(hash.finish().as_ref());
    Measurement::new(bytes)
}

/// One simulated enclave.
#[derive(Debug, Clone)]
pub struct Enclave {
    material: Material,
    role: Option<Measurement>,
}

impl Enclave {
    /// An enclave of `material` whose parent instance has `role`. Real ones have the ARN of an IAM role; a simulated
    /// one may have whatever tells its Peer from others, such as its initdata.
    #[must_use]
    pub fn new(material: Material, role: Option<&[u8]>) -> Self {
        Self { material, role: role.map(register) }
    }

    #[must_use]
    pub const fn material(&self) -> &Material {
        &self.material
    }

    /// The signed document for a handshake: its REPORT_DATA as `user_data`, the root of its tree as `nonce`, the static
    /// key as `public_key`.
    ///
    /// # Errors
    /// [`SimulationError`] when signing fails or the machine has no usable time.
    pub fn quote(
        &self,
        report_data: &[u8; 64],
        tree_root: &[u8; 32],
        static_key: &[u8; 32],
    ) -> Result<Vec<u8>, SimulationError> {
        let document = self.document(report_data, tree_root, static_key)?;
        self.material.chain().seal(&document.payload())
    }

    /// What [`Self::quote`] signs. For tests, which sign what they make of it by [`super::Chain::seal`].
    ///
    /// # Errors
    /// [`SimulationError::Clock`] when the machine has no usable time.
    pub fn document(
        &self,
        report_data: &[u8; 64],
        tree_root: &[u8; 32],
        static_key: &[u8; 32],
    ) -> Result<Document, SimulationError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| SimulationError::Clock)?;
        let certificates = self.material.chain().certificates();
        let (certificate, cabundle) = certificates.split_last().ok_or(SimulationError::Key)?;
        let mut pcrs: std::collections::BTreeMap<u64, Vec<u8>> =
            (0..LOCKED_PCRS).map(|index| (index, vec![0; 48])).collect();
        for (index, value) in (0..).zip(measurements()) {
            pcrs.insert(index, value.as_bytes().to_vec());
        }
        if let Some(role) = &self.role {
            pcrs.insert(3, role.as_bytes().to_vec());
        }
        pcrs.insert(4, register(INSTANCE_ID).as_bytes().to_vec());
        Ok(Document {
            module_id: MODULE_ID.to_owned(),
            digest: "SHA384".to_owned(),
            timestamp: u64::try_from(now.as_millis()).map_err(|_| SimulationError::Clock)?,
            pcrs,
            certificate: certificate.clone(),
            cabundle: cabundle.to_vec(),
            public_key: Some(static_key.to_vec()),
            user_data: Some(report_data.to_vec()),
            nonce: Some(tree_root.to_vec()),
        })
    }
}
