//! Chains and collateral to order, for the tests of verifiers: anything an issuer could sign, honest or not.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::Value;
use x509_cert::certificate::TbsCertificate;
use x509_cert::crl::TbsCertList;
use x509_cert::name::Name;

use super::certificate as x509;
use super::material::{Collateral, Material};
use super::processor::Processor;
use super::statements;
use crate::certificate::{name, unsigned_list, validity};
use crate::error::SimulationError;
use crate::forge::Dates;
use crate::material::SigningKey;

/// Certificates start a day ago, for hosts whose clocks disagree, and end in two years.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);
const LIFETIME: Duration = Duration::from_secs(2 * 365 * 24 * 60 * 60);

/// Who holds a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Root,
    /// Certifies platforms.
    Authority,
    /// Signs TCB info and QE identity.
    Signer,
    Platform,
}

impl Place {
    const fn name(self) -> &'static str {
        match self {
            Self::Root => "Intel SGX Root CA",
            Self::Authority => "Intel SGX PCK Platform CA",
            Self::Signer => "Intel SGX TCB Signing",
            Self::Platform => "Intel SGX PCK Certificate",
        }
    }

    const fn issuer(self) -> Self {
        match self {
            Self::Root | Self::Authority | Self::Signer => Self::Root,
            Self::Platform => Self::Authority,
        }
    }

    const fn serial(self) -> [u8; 1] {
        [match self {
            Self::Root => 1,
            Self::Authority => 2,
            Self::Signer => 3,
            Self::Platform => 4,
        }]
    }
}

/// What chains and collateral are to look like.
#[derive(Debug, Clone)]
pub struct Recipe {
    pub processor: Processor,
    /// Whether subjects say SIM. Without it the names are Intel's, though no key is.
    pub marked: bool,
    pub root: Dates,
    pub authority: Dates,
    pub signer: Dates,
    pub platform: Dates,
    pub root_list: Dates,
    pub list: Dates,
    pub info: Dates,
    pub identity: Dates,
    /// Whom the lists name.
    pub revoked: Vec<Place>,
}

impl Recipe {
    /// Honest, from a day ago and for two years.
    ///
    /// # Errors
    /// [`SimulationError::Clock`] when the machine gives no usable time.
    pub fn new() -> Result<Self, SimulationError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| SimulationError::Clock)?;
        let dates = Dates { from: now.saturating_sub(AGE), until: now.saturating_add(LIFETIME) };
        Ok(Self {
            processor: Processor::default(),
            marked: true,
            root: dates,
            authority: dates,
            signer: dates,
            platform: dates,
            root_list: dates,
            list: dates,
            info: dates,
            identity: dates,
            revoked: Vec::new(),
        })
    }

    fn name(&self, place: Place) -> Result<Name, SimulationError> {
        name(&format!("{}{}", if self.marked { "SIM " } else { "" }, place.name()))
    }
}

/// What is done to documents before they are signed.
#[derive(Clone, Copy)]
pub struct Edits<'a> {
    pub certificate: &'a dyn Fn(Place, &mut TbsCertificate),
    /// Of the root, or of the authority.
    pub list: &'a dyn Fn(Place, &mut TbsCertList),
    pub info: &'a dyn Fn(&mut Value),
    pub identity: &'a dyn Fn(&mut Value),
}

impl Default for Edits<'_> {
    fn default() -> Self {
        Self { certificate: &|_, _| {}, list: &|_, _| {}, info: &|_| {}, identity: &|_| {} }
    }
}

impl fmt::Debug for Edits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edits").finish_non_exhaustive()
    }
}

/// The keys of a root, its authority and its signer.
#[derive(Debug)]
pub struct Authority {
    root: Key,
    authority: Key,
    signer: Key,
}

/// A key on P-256.
struct Key {
    pkcs8: SigningKey,
    /// Uncompressed.
    point: Vec<u8>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl Key {
    fn generate() -> Result<Self, SimulationError> {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?;
        let pkcs8 = SigningKey(key.to_pkcs8v1()?.as_ref().to_vec());
        Ok(Self { pkcs8, point: key.public_key().as_ref().to_vec() })
    }

    /// r ‖ s over `message`.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SimulationError> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &self.pkcs8.0)
            .map_err(|_| SimulationError::MaterialKey)?;
        Ok(key.sign(&SystemRandom::new(), message)?.as_ref().to_vec())
    }
}

impl Authority {
    /// # Errors
    /// [`SimulationError::Key`] when the machine gives no randomness.
    pub fn generate() -> Result<Self, SimulationError> {
        Ok(Self { root: Key::generate()?, authority: Key::generate()?, signer: Key::generate()? })
    }

    /// A platform by `recipe` with a new key, and the collateral for it.
    ///
    /// # Errors
    /// [`SimulationError`] when the recipe cannot be written.
    pub fn issue(&self, recipe: &Recipe) -> Result<Material, SimulationError> {
        self.issue_edited(recipe, Edits::default())
    }

    /// As [`Self::issue`], signing whatever `edits` make of the documents.
    ///
    /// # Errors
    /// As [`Self::issue`].
    pub fn issue_edited(&self, recipe: &Recipe, edits: Edits<'_>) -> Result<Material, SimulationError> {
        let platform = Key::generate()?;
        let certify = |place, key: &Key| self.certificate(recipe, &edits, place, key);
        let chain = [
            certify(Place::Platform, &platform)?,
            certify(Place::Authority, &self.authority)?,
            certify(Place::Root, &self.root)?,
        ];
        let mut info = statements::info(&recipe.processor, recipe.info.from, recipe.info.until)?;
        (edits.info)(&mut info);
        let mut identity = statements::identity(recipe.identity.from, recipe.identity.until)?;
        (edits.identity)(&mut identity);
        let [info, identity] = [info, identity].map(|statement| statement.to_string().into_bytes());
        let collateral = Collateral {
            signer: certify(Place::Signer, &self.signer)?,
            info_signature: self.signer.sign(&info)?,
            info,
            identity_signature: self.signer.sign(&identity)?,
            identity,
            root_list: self.list(recipe, &edits, Place::Root)?,
            list: self.list(recipe, &edits, Place::Authority)?,
        };
        Ok(Material { processor: recipe.processor.clone(), chain, collateral, key: platform.pkcs8 })
    }

    fn certificate(
        &self,
        recipe: &Recipe,
        edits: &Edits<'_>,
        place: Place,
        key: &Key,
    ) -> Result<Vec<u8>, SimulationError> {
        let dates = match place {
            Place::Root => recipe.root,
            Place::Authority => recipe.authority,
            Place::Signer => recipe.signer,
            Place::Platform => recipe.platform,
        };
        let mut extensions = match place {
            Place::Root => x509::authority_extensions(1)?,
            Place::Authority => x509::authority_extensions(0)?,
            Place::Signer | Place::Platform => x509::leaf_extensions()?,
        };
        if place == Place::Platform {
            extensions.push(x509::platform_extension(&recipe.processor)?);
        }
        let mut certificate = x509::unsigned(x509::Subject {
            serial: &place.serial(),
            issuer: recipe.name(place.issuer())?,
            name: recipe.name(place)?,
            validity: validity(dates.from, dates.until)?,
            key: &key.point,
            extensions,
        })?;
        (edits.certificate)(place, &mut certificate);
        x509::sign(certificate, &self.issuer_key(place).pkcs8.0)
    }

    const fn issuer_key(&self, place: Place) -> &Key {
        match place.issuer() {
            Place::Authority => &self.authority,
            _ => &self.root,
        }
    }

    /// The list of `issuer`, which names those of the recipe that it certified.
    fn list(&self, recipe: &Recipe, edits: &Edits<'_>, issuer: Place) -> Result<Vec<u8>, SimulationError> {
        let dates = if issuer == Place::Root { recipe.root_list } else { recipe.list };
        let revoked = recipe.revoked.iter().filter(|place| place.issuer() == issuer);
        let serials: Vec<[u8; 1]> = revoked.map(|place| place.serial()).collect();
        let serials: Vec<&[u8]> = serials.iter().map(<[u8; 1]>::as_slice).collect();
        let mut list = unsigned_list(recipe.name(issuer)?, validity(dates.from, dates.until)?, &serials)?;
        (edits.list)(issuer, &mut list);
        let key = if issuer == Place::Root { &self.root } else { &self.authority };
        x509::sign_list(list, &key.pkcs8.0)
    }
}
