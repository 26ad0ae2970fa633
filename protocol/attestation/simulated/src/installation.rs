//! What one installation keeps: a simulated platform of each form.

use std::fmt;

use sealane_types::{Digest, SimulatedForm};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::SimulationError;
use crate::material::Material;
use crate::{nitro, tdx};

/// Largest JSON form that is read: three platforms of at most 64 KiB each.
const JSON_BYTES_MAX: usize = 3 * 64 * 1024;

/// Platforms of an installation, each under a root of its own. Pods share them.
#[derive(Clone, Default)]
pub struct Installation {
    sev_snp: Option<Material>,
    tdx: Option<tdx::Material>,
    nitro: Option<nitro::Material>,
}

impl Installation {
    /// New platforms of every form.
    ///
    /// # Errors
    /// [`SimulationError`] when the machine gives no randomness or no usable time.
    pub fn generate() -> Result<Self, SimulationError> {
        Self::default().completed()
    }

    /// The same platforms, and new ones of the forms that it has none of.
    ///
    /// # Errors
    /// As [`Self::generate`].
    pub fn completed(self) -> Result<Self, SimulationError> {
        Ok(Self {
            sev_snp: Some(self.sev_snp.map_or_else(Material::generate, Ok)?),
            tdx: Some(self.tdx.map_or_else(tdx::Material::generate, Ok)?),
            nitro: Some(self.nitro.map_or_else(nitro::Material::generate, Ok)?),
        })
    }

    /// SHA-256 of the root of this form: what a policy pins as `root`.
    #[must_use]
    pub fn fingerprint(&self, form: SimulatedForm) -> Option<Digest> {
        match form {
            SimulatedForm::SevSnp => self.sev_snp.as_ref().map(Material::fingerprint),
            SimulatedForm::Tdx => self.tdx.as_ref().map(tdx::Material::fingerprint),
            SimulatedForm::Nitro => self.nitro.as_ref().map(nitro::Material::fingerprint),
        }
    }

    pub(crate) fn sev_snp(&self) -> Option<Material> {
        self.sev_snp.clone()
    }

    pub(crate) fn tdx(&self) -> Option<tdx::Material> {
        self.tdx.clone()
    }

    pub(crate) fn nitro(&self) -> Option<nitro::Material> {
        self.nitro.clone()
    }

    /// The form in which an installation keeps it: an object with a member for each form. Keys are in it, and it needs no
    /// protection all the same.
    ///
    /// # Errors
    /// [`SimulationError::Material`] never happens for material that exists.
    pub fn to_json(&self) -> Result<String, SimulationError> {
        let read = |text: String| serde_json::from_str(&text);
        let json = Json {
            note: "Simulated platforms: they prove nothing, and their keys are no secrets.".to_owned(),
            sev_snp: self.sev_snp.as_ref().map(Material::to_json).transpose()?.map(read).transpose()?,
            tdx: self.tdx.as_ref().map(tdx::Material::to_json).transpose()?.map(read).transpose()?,
            nitro: self.nitro.as_ref().map(nitro::Material::to_json).transpose()?.map(read).transpose()?,
        };
        Ok(serde_json::to_string_pretty(&json)?)
    }

    /// Reads what [`Self::to_json`] wrote, any part of it, or the platform of SEV-SNP alone.
    ///
    /// # Errors
    /// [`SimulationError`] when `text` is anything else.
    pub fn from_json(text: &str) -> Result<Self, SimulationError> {
        if text.len() > JSON_BYTES_MAX {
            return Err(SimulationError::MaterialSize(JSON_BYTES_MAX));
        }
        if let Ok(alone) = Material::from_json(text) {
            return Ok(Self { sev_snp: Some(alone), ..Self::default() });
        }
        let Json { note: _, sev_snp, tdx, nitro } = serde_json::from_str(text)?;
        let written = |value: Option<Value>| value.map(|value| value.to_string());
        let found = Self {
            sev_snp: written(sev_snp).as_deref().map(Material::from_json).transpose()?,
            tdx: written(tdx).as_deref().map(tdx::Material::from_json).transpose()?,
            nitro: written(nitro).as_deref().map(nitro::Material::from_json).transpose()?,
        };
        let empty = found.sev_snp.is_none() && found.tdx.is_none() && found.nitro.is_none();
        if empty { Err(SimulationError::MaterialParts) } else { Ok(found) }
    }
}

impl fmt::Debug for Installation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roots = SimulatedForm::ALL.iter().map(|form| (form, self.fingerprint(*form)));
        f.debug_map().entries(roots).finish()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Json {
    /// For whoever finds the file.
    #[serde(default)]
    note: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sev_snp: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tdx: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nitro: Option<Value>,
}
