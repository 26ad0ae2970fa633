//! Chains to order, for the tests of verifiers: anything an issuer could certify, honest or not.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use sealane_types::Product;
use serde::{Deserialize, Serialize};
use x509_cert::certificate::TbsCertificate;
use x509_cert::crl::TbsCertList;
use x509_cert::time::Validity;

use crate::certificate as x509;
use crate::chip::Chip;
use crate::error::SimulationError;
use crate::material::{Base64, Material, SigningKey};

pub use crate::report::REPORT_BYTES;

/// Serial numbers as AMD uses them.
const ARK_SERIAL: &[u8] = &[1, 0, 0];
const ASK_SERIAL: &[u8] = &[1, 0, 1];
const VCEK_SERIAL: &[u8] = &[0];

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Certificates start a day ago, for hosts whose clocks disagree, and end in two years.
const AGE: Duration = DAY;
const LIFETIME: Duration = Duration::from_secs(2 * 365 * 24 * 60 * 60);

/// Which key signs reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Vcek,
    /// With a provider's id in place of the chip's.
    Vlek,
}

/// What a chain is to look like.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub chip: Chip,
    pub kind: Kind,
    /// Whether subjects say SIM. Without it the names are AMD's, though no key is.
    pub marked: bool,
    pub validity: Dates,
    pub ask_validity: Dates,
    pub ark_validity: Dates,
}

/// From when until when something is valid, since 1970.
#[derive(Debug, Clone, Copy)]
pub struct Dates {
    pub from: Duration,
    pub until: Duration,
}

impl Recipe {
    /// An honest chain for a random chip of `product`.
    ///
    /// # Errors
    /// [`SimulationError`] when the machine gives no randomness or no usable time.
    pub fn new(product: Product) -> Result<Self, SimulationError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| SimulationError::Clock)?;
        let dates = Dates { from: now.saturating_sub(AGE), until: now.saturating_add(LIFETIME) };
        Ok(Self {
            chip: Chip::random(product)?,
            kind: Kind::Vcek,
            marked: true,
            validity: dates,
            ask_validity: dates,
            ark_validity: dates,
        })
    }

    fn prefix(&self) -> &'static str {
        if self.marked { "SIM-" } else { "" }
    }

    fn ark_name(&self) -> String {
        format!("{}ARK-{}", self.prefix(), self.chip.product)
    }

    fn ask_name(&self) -> String {
        let kind = match self.kind {
            Kind::Vcek => "",
            Kind::Vlek => "VLEK-",
        };
        format!("{}SEV-{kind}{}", self.prefix(), self.chip.product)
    }

    fn signer_name(&self) -> String {
        let kind = match self.kind {
            Kind::Vcek => "VCEK",
            Kind::Vlek => "VLEK",
        };
        format!("{}SEV-{kind}", self.prefix())
    }
}

/// The keys of a root and its issuer. RSA-4096 like AMD's.
#[derive(Debug)]
pub struct Authority {
    ark: RsaKeyPair,
    ask: RsaKeyPair,
}

impl Authority {
    /// # Errors
    /// [`SimulationError::Key`] when the machine gives no randomness.
    pub fn generate() -> Result<Self, SimulationError> {
        let generate = || RsaKeyPair::generate(KeySize::Rsa4096);
        Ok(Self { ark: generate()?, ask: generate()? })
    }

    /// The form in which tests keep it: both private keys as PKCS #8.
    ///
    /// # Errors
    /// [`SimulationError::Key`] when the cryptographic library cannot write a key.
    pub fn to_json(&self) -> Result<String, SimulationError> {
        let pkcs8 = |key: &RsaKeyPair| -> Result<Base64, SimulationError> {
            let der: Pkcs8V1Der<'_> = key.as_der()?;
            Ok(Base64(der.as_ref().to_vec()))
        };
        Ok(serde_json::to_string_pretty(&Json {
            note: "Keys of a simulated root and issuer: they prove nothing, and they are no secrets."
                .to_owned(),
            ark: pkcs8(&self.ark)?,
            ask: pkcs8(&self.ask)?,
        })?)
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// [`SimulationError`] when `text` is anything else.
    pub fn from_json(text: &str) -> Result<Self, SimulationError> {
        let Json { note: _, ark, ask } = serde_json::from_str(text)?;
        let key = |pkcs8: &Base64| RsaKeyPair::from_pkcs8(&pkcs8.0).map_err(|_| SimulationError::MaterialKey);
        Ok(Self { ark: key(&ark)?, ask: key(&ask)? })
    }

    /// A chain by `recipe`, down to a new signing key.
    ///
    /// # Errors
    /// [`SimulationError`] when the recipe cannot be written as certificates.
    pub fn issue(&self, recipe: &Recipe) -> Result<Material, SimulationError> {
        self.issue_edited(recipe, |_| {}, |_| {})
    }

    /// As [`Self::issue`], signing whatever the two functions make of the ASK and of the VCEK.
    ///
    /// # Errors
    /// As [`Self::issue`].
    pub fn issue_edited(
        &self,
        recipe: &Recipe,
        edit_ask: impl FnOnce(&mut TbsCertificate),
        edit_vcek: impl FnOnce(&mut TbsCertificate),
    ) -> Result<Material, SimulationError> {
        let ark_name = x509::name(&recipe.ark_name())?;
        let ask_name = x509::name(&recipe.ask_name())?;
        let ark = x509::unsigned(
            ARK_SERIAL,
            ark_name.clone(),
            ark_name.clone(),
            dates(recipe.ark_validity)?,
            x509::rsa_key_info(&self.ark)?,
            x509::authority_extensions(None)?,
        )?;
        let mut ask = x509::unsigned(
            ASK_SERIAL,
            ark_name,
            ask_name.clone(),
            dates(recipe.ask_validity)?,
            x509::rsa_key_info(&self.ask)?,
            x509::authority_extensions(Some(0))?,
        )?;
        edit_ask(&mut ask);
        let key = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING)?;
        let provider = (recipe.kind == Kind::Vlek).then_some("simulated.example");
        let mut vcek = x509::unsigned(
            VCEK_SERIAL,
            ask_name,
            x509::name(&recipe.signer_name())?,
            dates(recipe.validity)?,
            x509::p384_key_info(key.public_key().as_ref())?,
            x509::chip_extensions(&recipe.chip, provider)?,
        )?;
        edit_vcek(&mut vcek);
        Ok(Material {
            chip: recipe.chip.clone(),
            ark: x509::sign(ark, &self.ark)?,
            ask: x509::sign(ask, &self.ark)?,
            vcek: x509::sign(vcek, &self.ask)?,
            key: SigningKey(key.to_pkcs8v1()?.as_ref().to_vec()),
        })
    }

    /// DER of the root's revocation list, naming the ASK or nothing.
    ///
    /// # Errors
    /// [`SimulationError`] when it cannot be written.
    pub fn revocation_list(
        &self,
        recipe: &Recipe,
        validity: Dates,
        revoke_ask: bool,
    ) -> Result<Vec<u8>, SimulationError> {
        self.revocation_list_edited(recipe, validity, revoke_ask, |_| {})
    }

    /// As [`Self::revocation_list`], signing whatever `edit` makes of the list.
    ///
    /// # Errors
    /// As [`Self::revocation_list`].
    pub fn revocation_list_edited(
        &self,
        recipe: &Recipe,
        validity: Dates,
        revoke_ask: bool,
        edit: impl FnOnce(&mut TbsCertList),
    ) -> Result<Vec<u8>, SimulationError> {
        let revoked: &[&[u8]] = if revoke_ask { &[ASK_SERIAL] } else { &[] };
        let mut list = x509::unsigned_list(x509::name(&recipe.ark_name())?, dates(validity)?, revoked)?;
        edit(&mut list);
        x509::sign_list(list, &self.ark)
    }
}

/// An [`Authority`] as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    /// For whoever finds the file.
    note: String,
    ark: Base64,
    ask: Base64,
}

fn dates(dates: Dates) -> Result<Validity, SimulationError> {
    x509::validity(dates.from, dates.until)
}
