//! What a simulated Nitro platform is made of.

use aws_lc_rs::digest::{SHA256, digest};
use sealane_types::Digest;
use serde::{Deserialize, Serialize};

use super::forge::{Chain, Recipe};
use crate::error::SimulationError;
use crate::material::{Base64, SigningKey};

/// Largest JSON form that is read; what [`Material::to_json`] writes has about 5 KiB.
const JSON_BYTES_MAX: usize = 64 * 1024;

/// One simulated platform, shared by all pods of an installation: a chain and the key at its end.
#[derive(Debug, Clone)]
pub struct Material(Chain);

impl From<Chain> for Material {
    fn from(chain: Chain) -> Self {
        Self(chain)
    }
}

impl Material {
    /// A new chain, valid for two years from now. The keys above its end are dropped, so that the root certifies this
    /// platform and nothing else.
    ///
    /// # Errors
    /// [`SimulationError`] when the machine gives no randomness or no usable time.
    pub fn generate() -> Result<Self, SimulationError> {
        Chain::issue(&Recipe::new()?).map(Self)
    }

    #[must_use]
    pub const fn chain(&self) -> &Chain {
        &self.0
    }

    /// SHA-256 of the root certificate: what a policy pins as `root`.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        let root = self.0.certificates.first().map(Vec::as_slice).unwrap_or_default();
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, root).as_ref());
        Digest::new(bytes)
    }

    /// The form in which an installation keeps it. It holds the private key, and still needs no protection.
    ///
    /// # Errors
    /// [`SimulationError::Material`] never happens for material that exists.
    pub fn to_json(&self) -> Result<String, SimulationError> {
        let Chain { certificates, key } = &self.0;
        Ok(serde_json::to_string_pretty(&Json {
            note: "A simulated Nitro platform: it proves nothing, and its key is no secret.".to_owned(),
            certificates: certificates.iter().cloned().map(Base64).collect(),
            key: Base64(key.0.clone()),
        })?)
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// [`SimulationError`] when `text` is anything else.
    pub fn from_json(text: &str) -> Result<Self, SimulationError> {
        if text.len() > JSON_BYTES_MAX {
            return Err(SimulationError::MaterialSize(JSON_BYTES_MAX));
        }
        let Json { note: _, certificates, key } = serde_json::from_str(text)?;
        let certificates = certificates.into_iter().map(|certificate| certificate.0).collect();
        Ok(Self(Chain { certificates, key: SigningKey(key.0) }))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Json {
    /// For whoever finds the file.
    note: String,
    /// From the root to the enclave.
    certificates: Vec<Base64>,
    key: Base64,
}
