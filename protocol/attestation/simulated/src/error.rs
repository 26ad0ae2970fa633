//! What can go wrong while simulating; all of it the caller's or the machine's doing.

use sealane_types::SimulatedForm;

/// Material could not be made, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    #[error("the cryptographic library could not make or use a key")]
    Key,
    #[error("a certificate cannot be written as DER: {0}")]
    Certificate(x509_cert::der::Error),
    #[error(
        "the simulated platform's material is not its JSON form; make it anew with `sealane-sidecar-sim root`"
    )]
    Material(#[from] serde_json::Error),
    #[error("the simulated platform's material is larger than {0} bytes")]
    MaterialSize(usize),
    #[error("the simulated platform's material has not the parts of its kind")]
    MaterialParts,
    #[error(
        "the installation has no simulated platform in the form of {0}; `sealane-sidecar-sim root` adds it to the file"
    )]
    FormMissing(SimulatedForm),
    #[error("the simulated platform's key does not parse")]
    MaterialKey,
    #[error("the clock stands before 1970 or after 9999")]
    Clock,
}

impl From<aws_lc_rs::error::Unspecified> for SimulationError {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self::Key
    }
}

/// Not `#[from]`: without its `std` feature the error of `der` is no `std::error::Error`.
impl From<x509_cert::der::Error> for SimulationError {
    fn from(error: x509_cert::der::Error) -> Self {
        Self::Certificate(error)
    }
}
