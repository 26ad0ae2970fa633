//! What a simulated platform is made of: a chain of certificates and the key that signs reports.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_types::{Digest, Product};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::chip::Chip;
use crate::error::SimulationError;
use crate::forge::{Authority, Recipe};

/// Largest JSON form that is read; what [`Material::to_json`] writes has about 8 KiB.
const JSON_BYTES_MAX: usize = 64 * 1024;

/// One simulated platform, shared by all pods of an installation.
#[derive(Clone)]
pub struct Material {
    pub(crate) chip: Chip,
    pub(crate) ark: Vec<u8>,
    pub(crate) ask: Vec<u8>,
    pub(crate) vcek: Vec<u8>,
    pub(crate) key: SigningKey,
}

/// PKCS #8 of the VCEK's private key. Wiped like any other, although it guards nothing.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct SigningKey(pub(crate) Vec<u8>);

impl Material {
    /// A new root, issuer and chip, valid for two years from now. The keys of root and issuer are dropped, so
    /// that the root certifies this chip and nothing else.
    ///
    /// # Errors
    /// [`SimulationError`] when the machine gives no randomness or no usable time.
    pub fn generate() -> Result<Self, SimulationError> {
        Authority::generate()?.issue(&Recipe::new(Product::Genoa)?)
    }

    /// SHA-256 of the root certificate: what a policy pins as `root`.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, &self.ark).as_ref());
        Digest::new(bytes)
    }

    #[must_use]
    pub const fn chip(&self) -> &Chip {
        &self.chip
    }

    /// DER of VCEK, ASK and ARK, in the order of evidence.
    #[must_use]
    pub fn certificates(&self) -> [&[u8]; 3] {
        [&self.vcek, &self.ask, &self.ark]
    }

    /// The form in which an installation keeps it. It holds the private key, and still needs no protection.
    ///
    /// # Errors
    /// [`SimulationError::Material`] never happens for material that exists.
    pub fn to_json(&self) -> Result<String, SimulationError> {
        Ok(serde_json::to_string_pretty(&Json::from(self))?)
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// [`SimulationError`] when `text` is anything else.
    pub fn from_json(text: &str) -> Result<Self, SimulationError> {
        if text.len() > JSON_BYTES_MAX {
            return Err(SimulationError::MaterialSize(JSON_BYTES_MAX));
        }
        let json: Json = serde_json::from_str(text)?;
        Ok(Self {
            chip: json.chip,
            ark: json.ark.0,
            ask: json.ask.0,
            vcek: json.vcek.0,
            key: SigningKey(json.key.0),
        })
    }
}

impl fmt::Debug for Material {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Material")
            .field("chip", &self.chip)
            .field("fingerprint", &self.fingerprint())
            .finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Json {
    /// For whoever finds the file.
    note: String,
    chip: Chip,
    ark: Base64,
    ask: Base64,
    vcek: Base64,
    key: Base64,
}

impl From<&Material> for Json {
    fn from(material: &Material) -> Self {
        Self {
            note: "A simulated platform: it proves nothing, and its key is no secret.".to_owned(),
            chip: material.chip.clone(),
            ark: Base64(material.ark.clone()),
            ask: Base64(material.ask.clone()),
            vcek: Base64(material.vcek.clone()),
            key: Base64(material.key.0.clone()),
        }
    }
}

/// Bytes as standard base64.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Base64(pub(crate) Vec<u8>);

impl TryFrom<String> for Base64 {
    type Error = base64::DecodeError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        STANDARD.decode(text).map(Self)
    }
}

impl From<Base64> for String {
    fn from(bytes: Base64) -> Self {
        STANDARD.encode(bytes.0)
    }
}
