//! Chains to order, for the tests of verifiers.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
};
use x509_cert::Certificate;
use x509_cert::certificate::TbsCertificate;
use x509_cert::der::Encode;
use x509_cert::der::asn1::BitString;
use x509_cert::der::flagset::FlagSet;
use x509_cert::der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, KeyUsages};
use x509_cert::spki::AlgorithmIdentifierOwned;

use super::document::{PROTECTED, cose_sign1, to_be_signed};
use crate::certificate as x509;
use crate::error::SimulationError;
use crate::forge::Dates;
use crate::material::SigningKey;

const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const LIFETIME: Duration = Duration::from_secs(2 * 365 * 24 * 60 * 60);

/// What a chain is to look like.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Whether subjects say SIM. Without it the names are AWS's, though no key is.
    pub marked: bool,
    /// From the root to the enclave: one certificate for each.
    pub dates: Vec<Dates>,
}

impl Recipe {
    /// A chain as AWS's, of root, region, zone, instance and enclave, valid for two years from a day ago.
    ///
    /// # Errors
    /// [`SimulationError::Clock`] when the machine has no usable time.
    pub fn new() -> Result<Self, SimulationError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| SimulationError::Clock)?;
        let dates = Dates { from: now.saturating_sub(DAY), until: now.saturating_add(LIFETIME) };
        Ok(Self { marked: true, dates: vec![dates; 5] })
    }

    fn name(&self, position: usize) -> String {
        let prefix = if self.marked { "SIM-" } else { "" };
        match position {
            0 => format!("{prefix}aws.nitro-enclaves"),
            _ if position + 1 == self.dates.len() => format!("{prefix}enclave.aws"),
            _ => format!("{prefix}issuer-{position}.aws.nitro-enclaves"),
        }
    }
}

/// Certificates from the root to the enclave, and the enclave's key.
#[derive(Clone)]
pub struct Chain {
    pub(super) certificates: Vec<Vec<u8>>,
    pub(super) key: SigningKey,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("certificates", &self.certificates.len()).finish_non_exhaustive()
    }
}

impl Chain {
    /// A chain by `recipe`, down to a new key.
    ///
    /// # Errors
    /// [`SimulationError`] when the recipe cannot be written as certificates.
    pub fn issue(recipe: &Recipe) -> Result<Self, SimulationError> {
        Self::issue_edited(recipe, |_, _| {})
    }

    /// As [`Self::issue`], signing whatever `edit` makes of the certificate at each position, the root's first.
    ///
    /// # Errors
    /// As [`Self::issue`].
    pub fn issue_edited(
        recipe: &Recipe,
        mut edit: impl FnMut(usize, &mut TbsCertificate),
    ) -> Result<Self, SimulationError> {
        let keys = recipe.dates.iter().map(|_| EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let last = recipe.dates.len().saturating_sub(1);
        let mut certificates = Vec::new();
        for (position, (dates, key)) in recipe.dates.iter().zip(&keys).enumerate() {
            let issuer = position.saturating_sub(1);
            let extensions =
                if position == last { end_extensions()? } else { x509::authority_extensions(None)? };
            let mut certificate = x509::unsigned(
                &[1, u8::try_from(position).unwrap_or(u8::MAX)],
                x509::name(&recipe.name(issuer))?,
                x509::name(&recipe.name(position))?,
                x509::validity(dates.from, dates.until)?,
                x509::p384_key_info(key.public_key().as_ref())?,
                extensions,
            )?;
            certificate.signature = AlgorithmIdentifierOwned { oid: ECDSA_WITH_SHA384, parameters: None };
            edit(position, &mut certificate);
            certificates.push(sign_certificate(certificate, &keys[issuer])?);
        }
        let key = keys.last().ok_or(SimulationError::Key)?;
        Ok(Self { certificates, key: SigningKey(key.to_pkcs8v1()?.as_ref().to_vec()) })
    }

    /// DER of the certificates, the root's first and the enclave's last.
    #[must_use]
    pub fn certificates(&self) -> &[Vec<u8>] {
        &self.certificates
    }

    /// The signed document with this payload.
    ///
    /// # Errors
    /// [`SimulationError`] when the key cannot be used.
    pub fn seal(&self, payload: &[u8]) -> Result<Vec<u8>, SimulationError> {
        let signature = self.sign(PROTECTED, payload)?;
        Ok(cose_sign1(PROTECTED, &[0xa0], payload, &signature))
    }

    /// The signature over a payload under some protected header: 96 bytes.
    ///
    /// # Errors
    /// [`SimulationError`] when the key cannot be used.
    pub fn sign(&self, protected: &[u8], payload: &[u8]) -> Result<Vec<u8>, SimulationError> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &self.key.0)
            .map_err(|_| SimulationError::MaterialKey)?;
        Ok(key.sign(&SystemRandom::new(), &to_be_signed(protected, payload))?.as_ref().to_vec())
    }
}

/// Of an enclave's certificate.
fn end_extensions() -> Result<Vec<Extension>, SimulationError> {
    let constraints = BasicConstraints { ca: false, path_len_constraint: None };
    let usage = KeyUsage(FlagSet::from(KeyUsages::DigitalSignature) | KeyUsages::NonRepudiation);
    Ok(vec![
        x509::extension(BasicConstraints::OID, true, &constraints.to_der()?)?,
        x509::extension(KeyUsage::OID, false, &usage.to_der()?)?,
    ])
}

fn sign_certificate(tbs_certificate: TbsCertificate, key: &EcdsaKeyPair) -> Result<Vec<u8>, SimulationError> {
    let signature = key.sign(&SystemRandom::new(), &tbs_certificate.to_der()?)?;
    let signature = BitString::from_bytes(signature.as_ref())?;
    let signature_algorithm = tbs_certificate.signature.clone();
    Ok(Certificate { tbs_certificate, signature_algorithm, signature }.to_der()?)
}
