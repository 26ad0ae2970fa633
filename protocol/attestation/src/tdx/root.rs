//! The root of Intel's hierarchy.

use std::sync::Arc;

use sealane_types::Digest;
use x509_cert::Certificate;

use super::chain;
use super::names::{self, Role};
use crate::collateral::{AnchorError, fingerprint};
use crate::limits::CERTIFICATE_BYTES_MAX;
use crate::naming::Naming;
use crate::rejection::Rejection;

/// A pinned root, which certifies platforms and the signer of collateral.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TdxRoot {
    der: Arc<[u8]>,
    fingerprint: Digest,
    naming: Naming,
}

impl TdxRoot {
    /// Intel's own (`collateral/README.md`).
    #[must_use]
    pub fn intel() -> Self {
        Self::of(include_bytes!("../../collateral/intel-sgx-root.der"), Naming::Vendor)
    }

    /// Pins `root` (DER), which the caller vouches for.
    ///
    /// # Errors
    /// [`AnchorError`] when it is not named as Intel names its root.
    pub fn new(root: &[u8]) -> Result<Self, AnchorError> {
        let certificate = Self::parse(root)?;
        if names::check(&certificate, Role::Root, Naming::Simulated).is_ok() {
            return Err(AnchorError::Simulated);
        }
        Self::named(root, &certificate, Naming::Vendor)
    }

    /// Pins `root` (DER) whether or not it says that it is simulated, for `cargo xtask judge --test-roots` alone.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn test_root(root: &[u8]) -> Result<Self, AnchorError> {
        Self::named(root, &Self::parse(root)?, Naming::Either)
    }

    fn parse(root: &[u8]) -> Result<Certificate, AnchorError> {
        if root.len() > CERTIFICATE_BYTES_MAX {
            return Err(AnchorError::Size);
        }
        chain::parse(root).ok_or(AnchorError::Certificate)
    }

    fn named(root: &[u8], certificate: &Certificate, naming: Naming) -> Result<Self, AnchorError> {
        names::check(certificate, Role::Root, naming).map_err(|_| AnchorError::Names)?;
        Ok(Self::of(root, naming))
    }

    /// The root that simulated evidence brings; the policy pins its fingerprint.
    pub(super) fn simulated(root: &[u8]) -> Result<Self, Rejection> {
        let certificate = chain::parse(root).ok_or(Rejection::Malformed("the simulated root"))?;
        names::check(&certificate, Role::Root, Naming::Simulated)?;
        Ok(Self::of(root, Naming::Simulated))
    }

    fn of(root: &[u8], naming: Naming) -> Self {
        Self { der: root.into(), fingerprint: fingerprint(root), naming }
    }

    /// SHA-256 of the certificate.
    #[must_use]
    pub const fn fingerprint(&self) -> &Digest {
        &self.fingerprint
    }

    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }

    pub(super) const fn naming(&self) -> Naming {
        self.naming
    }

    pub(super) fn certificate(&self) -> Result<Certificate, Rejection> {
        chain::parse(&self.der).ok_or(Rejection::Malformed("the root"))
    }
}
