//! QE identity, as Intel's provisioning certification service (API version 4) writes it.

use serde::Deserialize;

use super::statement::{Dates, EnclaveLevel, Standing, bytes, dates, enclave_levels};
use crate::rejection::Rejection;

/// Which quoting enclaves are Intel's, and how each of their versions stands.
#[derive(Debug)]
pub(super) struct QeIdentity {
    pub(super) dates: Dates,
    pub(super) evaluation: u32,
    pub(super) misc_select: [u8; 4],
    pub(super) misc_select_mask: [u8; 4],
    pub(super) attributes: [u8; 16],
    pub(super) attributes_mask: [u8; 16],
    pub(super) signer: [u8; 32],
    pub(super) product: u16,
    /// Highest version first.
    pub(super) levels: Vec<(u16, Standing)>,
}

impl QeIdentity {
    pub(super) fn parse(text: &[u8]) -> Result<Self, Rejection> {
        const MALFORMED: Rejection = Rejection::CollateralMissing("the QE identity cannot be parsed");
        let raw: Identity = serde_json::from_slice(text).map_err(|_| MALFORMED)?;
        if raw.id != "TD_QE" || raw.version != 2 {
            return Err(Rejection::CollateralMissing("the QE identity is not one for TDX"));
        }
        raw.read().ok_or(MALFORMED)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    id: String,
    version: u32,
    issue_date: String,
    next_update: String,
    tcb_evaluation_data_number: u32,
    miscselect: String,
    miscselect_mask: String,
    attributes: String,
    attributes_mask: String,
    mrsigner: String,
    isvprodid: u16,
    tcb_levels: Vec<EnclaveLevel>,
}

impl Identity {
    fn read(self) -> Option<QeIdentity> {
        Some(QeIdentity {
            dates: dates(&self.issue_date, &self.next_update)?,
            evaluation: self.tcb_evaluation_data_number,
            misc_select: bytes(&self.miscselect)?,
            misc_select_mask: bytes(&self.miscselect_mask)?,
            attributes: bytes(&self.attributes)?,
            attributes_mask: bytes(&self.attributes_mask)?,
            signer: bytes(&self.mrsigner)?,
            product: self.isvprodid,
            levels: enclave_levels(self.tcb_levels)?,
        })
    }
}
