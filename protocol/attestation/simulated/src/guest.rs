//! One simulated guest, in whatever form.

use sealane_types::SimulatedForm;

use crate::error::SimulationError;
use crate::installation::Installation;
use crate::platform::{Platform, Quote};
use crate::{nitro, tdx};

/// What a guest is asked to sign. Each platform takes what it has room for; REPORT_DATA covers the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub report_data: [u8; 64],
    /// The nonce of a Nitro document.
    pub tree_root: [u8; 32],
    /// The public key of a Nitro document.
    pub own_static: [u8; 32],
}

/// A guest that was started with some initdata, which its platform measures: in HOST_DATA, MRCONFIGID or PCR3.
#[derive(Debug)]
pub struct Guest(Form);

#[derive(Debug)]
enum Form {
    SevSnp(Box<Platform>),
    Tdx(Box<tdx::Platform>),
    Nitro(Box<nitro::Enclave>),
}

impl Guest {
    /// A guest on the platform of this form.
    ///
    /// # Errors
    /// [`SimulationError::FormMissing`] when the installation has none of this form, and other [`SimulationError`]s when it
    /// cannot be used.
    pub fn new(
        installation: &Installation,
        form: SimulatedForm,
        initdata: Option<&[u8]>,
    ) -> Result<Self, SimulationError> {
        let missing = SimulationError::FormMissing(form);
        Ok(Self(match form {
            SimulatedForm::SevSnp => {
                let material = installation.sev_snp().ok_or(missing)?;
                Form::SevSnp(Box::new(Platform::new(material, initdata)?))
            }
            SimulatedForm::Tdx => {
                let material = installation.tdx().ok_or(missing)?;
                Form::Tdx(Box::new(tdx::Platform::new(material, initdata)?))
            }
            SimulatedForm::Nitro => {
                let material = installation.nitro().ok_or(missing)?;
                Form::Nitro(Box::new(nitro::Enclave::new(material, initdata)))
            }
        }))
    }

    #[must_use]
    pub const fn form(&self) -> SimulatedForm {
        match self.0 {
            Form::SevSnp(_) => SimulatedForm::SevSnp,
            Form::Tdx(_) => SimulatedForm::Tdx,
            Form::Nitro(_) => SimulatedForm::Nitro,
        }
    }

    /// Evidence for exactly this request.
    ///
    /// # Errors
    /// [`SimulationError`] when signing fails or the machine has no usable time.
    pub fn quote(&self, request: &Request) -> Result<Quote, SimulationError> {
        let Request { report_data, tree_root, own_static } = request;
        match &self.0 {
            Form::SevSnp(platform) => platform.quote(*report_data),
            Form::Tdx(platform) => platform.quote(*report_data),
            Form::Nitro(enclave) => {
                let report = enclave.quote(report_data, tree_root, own_static)?;
                Ok(Quote { report, certificates: Vec::new() })
            }
        }
    }
}
