//! The platform at work: report data in, evidence out.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair};
use sealane_types::HostData;

use crate::error::SimulationError;
use crate::material::Material;
use crate::report::{REPORT_BYTES, Statement, write_signature};

/// Evidence as a real platform would return it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote {
    /// ATTESTATION_REPORT, 1184 bytes.
    pub report: Vec<u8>,
    /// DER of VCEK, ASK and ARK.
    pub certificates: Vec<Vec<u8>>,
}

/// One simulated guest.
#[derive(Debug)]
pub struct Platform {
    material: Material,
    key: EcdsaKeyPair,
    host_data: HostData,
}

/// HOST_DATA of a guest that was started with `initdata`: its SHA-256, or zero without any.
#[must_use]
pub fn host_data(initdata: Option<&[u8]>) -> HostData {
    let mut bytes = [0; 32];
    if let Some(initdata) = initdata {
        bytes.copy_from_slice(digest(&SHA256, initdata).as_ref());
    }
    HostData::new(bytes)
}

impl Platform {
    /// A guest on the chip of `material`, started with `initdata`.
    ///
    /// # Errors
    /// [`SimulationError::MaterialKey`] when the key of the material does not parse.
    pub fn new(material: Material, initdata: Option<&[u8]>) -> Result<Self, SimulationError> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &material.key.0)
            .map_err(|_| SimulationError::MaterialKey)?;
        Ok(Self { material, key, host_data: host_data(initdata) })
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

    /// Evidence that states whatever `edit` makes of the report, signed all the same. For tests: hardware
    /// makes no such reports.
    ///
    /// # Errors
    /// [`SimulationError::Key`] when signing fails.
    pub fn quote_edited(
        &self,
        report_data: [u8; 64],
        edit: impl FnOnce(&mut [u8; REPORT_BYTES]),
    ) -> Result<Quote, SimulationError> {
        let mut report_id = [0; 32];
        SystemRandom::new().fill(&mut report_id)?;
        let statement = Statement {
            chip: &self.material.chip,
            measurement: crate::MEASUREMENT,
            host_data: self.host_data,
            report_data,
            report_id,
        };
        let mut report = statement.to_report();
        edit(&mut report);
        write_signature(&mut report, &self.key)?;
        let certificates = self.material.certificates().map(<[u8]>::to_vec).to_vec();
        Ok(Quote { report: report.to_vec(), certificates })
    }
}
