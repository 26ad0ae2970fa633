//! The root of Intel's hierarchy.

use std::sync::Arc;

use sealane_types::Digest;
use x509_cert::Certificate;

use super::chain;
use super::names::{self, Role};
use crate::collateral::{AnchorError, fingerprint};
use crate::limits::CERTIFICATE_BYTES_MAX;
use crate::rejection::Rejection;

/// A pinned root, which certifies platforms and the signer of collateral.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TdxRoot {
    der: Arc<[u8]>,
    fingerprint: Digest,
    simulated: bool,
}

impl TdxRoot {
    /// Intel's own (`collateral/README.md`).
    #[must_use]
    pub fn intel() -> Self {
        Self::of(include_bytes!("../../collateral/intel-sgx-root.der"), false)
    }

    /// Pins `root` (DER), which the caller vouches for.
    ///
    /// # Errors
    /// [`AnchorError`] when it is not named as Intel names its root.
    pub fn new(root: &[u8]) -> Result<Self, AnchorError> {
        if root.len() > CERTIFICATE_BYTES_MAX {
            return Err(AnchorError::Size);
        }
        let certificate = chain::parse(root).ok_or(AnchorError::Certificate)?;
        if names::check(&certificate, Role::Root, true).is_ok() {
            return Err(AnchorError::Simulated);
        }
        names::check(&certificate, Role::Root, false).map_err(|_| AnchorError::Names)?;
        Ok(Self::of(root, false))
    }

    /// The root that simulated evidence brings; the policy pins its fingerprint.
    pub(super) fn simulated(root: &[u8]) -> Result<Self, Rejection> {
        let certificate = chain::parse(root).ok_or(Rejection::Malformed("the simulated root"))?;
        names::check(&certificate, Role::Root, true)?;
        Ok(Self::of(root, true))
    }

    fn of(root: &[u8], simulated: bool) -> Self {
        Self { der: root.into(), fingerprint: fingerprint(root), simulated }
    }

    /// SHA-256 of the certificate.
    #[must_use]
    pub const fn fingerprint(&self) -> &Digest {
        &self.fingerprint
    }

    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }

    pub(super) const fn is_simulated(&self) -> bool {
        self.simulated
    }

    pub(super) fn certificate(&self) -> Result<Certificate, Rejection> {
        chain::parse(&self.der).ok_or(Rejection::Malformed("the root"))
    }
}
