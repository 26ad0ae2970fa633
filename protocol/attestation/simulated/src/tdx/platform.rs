//! The platform at work: report data in, evidence out.

use aws_lc_rs::digest::{SHA256, SHA384, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use sealane_types::Measurement;

use super::material::{Material, pem};
use super::quote::{Body, Draft};
use super::statements::{ENCLAVE_ATTRIBUTES, ENCLAVE_PRODUCT, ENCLAVE_SIGNER, ENCLAVE_VERSION};
use crate::error::SimulationError;
use crate::platform::Quote;

/// TDATTRIBUTES of a simulated guest: SEPT_VE_DISABLE.
const ATTRIBUTES: u64 = 1 << 28;
/// XFAM: x87, SSE, AVX, AVX-512, PKRU, AMX.
const XFAM: u64 = 0x0006_02e7;

/// One simulated trust domain.
#[derive(Debug)]
pub struct Platform {
    material: Material,
    /// Of the platform (PCK).
    key: EcdsaKeyPair,
    /// Of the quoting enclave.
    attestation_key: EcdsaKeyPair,
    mr_config_id: Measurement,
    body: Body,
}

/// MRCONFIGID of a guest that was started with `initdata`: its SHA-384, or zero without any.
#[must_use]
pub fn mr_config_id(initdata: Option<&[u8]>) -> Measurement {
    initdata.map_or(Measurement::new([0; 48]), hash)
}

/// RTMR0 to RTMR2 of every simulated guest: SHA-384 of `sealane simulated rtmr 0` and so on. RTMR3 is zero, and MRTD is
/// [`crate::MEASUREMENT`].
#[must_use]
pub fn rtmr(index: usize) -> Measurement {
    hash(format!("sealane simulated rtmr {index}").as_bytes())
}

fn hash(bytes: &[u8]) -> Measurement {
    let mut hash = [0; 48];
    hash.copy_from_slice(digest(&SHA384, bytes).as_ref());
    Measurement::new(hash)
}

impl Platform {
    /// A guest on the platform of `material`, started with `initdata`, that quotes in version 4.
    ///
    /// # Errors
    /// [`SimulationError`] when the key of the material does not parse, or the machine gives no randomness.
    pub fn new(material: Material, initdata: Option<&[u8]>) -> Result<Self, SimulationError> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &material.key.0)
            .map_err(|_| SimulationError::MaterialKey)?;
        let attestation_key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?;
        Ok(Self { material, key, attestation_key, mr_config_id: mr_config_id(initdata), body: Body::V4 })
    }

    /// The same guest with quotes of this layout.
    #[must_use]
    pub fn quoting(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    #[must_use]
    pub const fn material(&self) -> &Material {
        &self.material
    }

    /// Evidence for exactly these 64 bytes.
    ///
    /// # Errors
    /// [`SimulationError::Key`] when signing fails.
    pub fn quote(&self, report_data: [u8; 64]) -> Result<Quote, SimulationError> {
        self.quote_edited(report_data, |_| {})
    }

    /// Evidence that states whatever `edit` makes of the quote, signed all the same. For tests: hardware makes no such
    /// quotes.
    ///
    /// # Errors
    /// [`SimulationError::Key`] when signing fails.
    pub fn quote_edited(
        &self,
        report_data: [u8; 64],
        edit: impl FnOnce(&mut Draft),
    ) -> Result<Quote, SimulationError> {
        let random = SystemRandom::new();
        let authentication_data: Vec<u8> = (0..32).collect();
        let [leaf, authority, root] = &self.material.chain;
        let mut draft = Draft {
            header: self.body.header(),
            descriptor: self.body.descriptor(),
            report: self.report(report_data),
            enclave_report: self.enclave_report(&authentication_data),
            authentication_data,
            kinds: [6, 5],
            // Intel's library ends the text with a NUL.
            chain: [pem(&[leaf, authority, root]).as_bytes(), &[0]].concat(),
        };
        edit(&mut draft);
        let enclave_signature = self.key.sign(&random, &draft.enclave_report)?;
        let signature = self.attestation_key.sign(&random, &draft.signed())?;
        let report = draft.assemble(signature.as_ref(), self.point(), enclave_signature.as_ref());
        Ok(Quote { report, certificates: self.material.collateral() })
    }

    /// x ‖ y of the attestation key.
    fn point(&self) -> &[u8] {
        let point = self.attestation_key.public_key().as_ref();
        point.get(1..).unwrap_or(point)
    }

    fn report(&self, report_data: [u8; 64]) -> Vec<u8> {
        let mut report = vec![0; self.body.bytes()];
        let mut put = |offset: usize, bytes: &[u8]| {
            report[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &self.material.processor.tee_tcb);
        // MRSEAM: nobody measured a module.
        put(16, hash(b"sealane simulated module").as_bytes());
        put(120, &ATTRIBUTES.to_le_bytes());
        put(128, &XFAM.to_le_bytes());
        put(136, crate::MEASUREMENT.as_bytes());
        put(184, self.mr_config_id.as_bytes());
        for index in 0..3 {
            put(328 + 48 * index, rtmr(index).as_bytes());
        }
        put(520, &report_data);
        if matches!(self.body, Body::Td15 | Body::Td15Ex) {
            put(584, &self.material.processor.tee_tcb);
        }
        report
    }

    /// REPORTBODY of the quoting enclave.
    fn enclave_report(&self, authentication_data: &[u8]) -> [u8; 384] {
        let mut report = [0; 384];
        let mut put = |offset: usize, bytes: &[u8]| {
            report[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        put(0, &self.material.processor.components);
        put(48, &ENCLAVE_ATTRIBUTES);
        put(128, &ENCLAVE_SIGNER);
        put(256, &ENCLAVE_PRODUCT.to_le_bytes());
        put(258, &ENCLAVE_VERSION.to_le_bytes());
        put(320, digest(&SHA256, &[self.point(), authentication_data].concat()).as_ref());
        report
    }
}
