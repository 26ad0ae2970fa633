//! The chain of a quote: the platform's provisioning certification key (PCK), the authority that certified it, the root.

use sealane_types::UnixSeconds;
use x509_cert::Certificate;

use super::chain;
use super::collateral::TdxCollateral;
use super::names::{self, Role};
use super::pem;
use super::platform::Platform;
use super::root::TdxRoot;
use crate::limits::CERTIFICATE_BYTES_MAX;
use crate::naming::Naming;
use crate::piece::PckAuthority;
use crate::rejection::Rejection;

/// A chain whose certificates are named for their places. Nothing of it is verified yet.
pub(super) struct Provisioning {
    /// Platform, authority, root.
    certificates: [Vec<u8>; 3],
    leaf: Certificate,
    authority: Certificate,
    pub(super) platform: Platform,
}

/// The platform's key, once its chain was verified.
pub(super) struct PlatformKey {
    /// Uncompressed point on P-256.
    pub(super) point: [u8; 65],
    /// When the first certificate above it expires.
    pub(super) expires: UnixSeconds,
}

impl Provisioning {
    pub(super) fn read(text: &[u8], naming: Naming) -> Result<Self, Rejection> {
        const MALFORMED: Rejection = Rejection::Malformed("the certificates of the quote");
        let certificates: [Vec<u8>; 3] = pem::certificates(text).ok_or(MALFORMED)?;
        if certificates.iter().any(|certificate| certificate.len() > CERTIFICATE_BYTES_MAX) {
            return Err(MALFORMED);
        }
        let [leaf, authority, root] = certificates.each_ref().map(|certificate| chain::parse(certificate));
        let [leaf, authority, root] =
            [leaf.ok_or(MALFORMED)?, authority.ok_or(MALFORMED)?, root.ok_or(MALFORMED)?];
        for (certificate, role) in
            [(&leaf, Role::Platform), (&authority, Role::Authority), (&root, Role::Root)]
        {
            names::check(certificate, role, naming)?;
        }
        let platform = Platform::read(&leaf)?;
        Ok(Self { certificates, leaf, authority, platform })
    }

    pub(super) fn root(&self) -> &[u8] {
        let [_, _, root] = &self.certificates;
        root
    }

    pub(super) fn authority(&self) -> Option<PckAuthority> {
        names::authority(&self.authority.tbs_certificate.subject)
    }

    /// Whether each certificate is signed by the next, up to `root`. Dates and revocations are not looked at.
    pub(super) fn is_under(&self, root: &TdxRoot) -> bool {
        let [leaf, authority, last] = &self.certificates;
        let Ok(certificate) = root.certificate() else { return false };
        last == root.der()
            && chain::is_signed_by(authority, &certificate)
            && chain::is_signed_by(leaf, &self.authority)
    }

    /// Whether `collateral` is for this platform: of its family, and with the list of the authority that certified it.
    pub(super) fn belongs_to(&self, collateral: &TdxCollateral) -> bool {
        let [_, list] = collateral.lists();
        collateral.fmspc() == self.platform.fmspc
            && collateral.info().pce_id == self.platform.pce_id
            && list.issuer == self.leaf.tbs_certificate.issuer
    }

    /// Verifies the chain under the root of `collateral` at `now`.
    pub(super) fn verify(
        &self,
        collateral: &TdxCollateral,
        now: UnixSeconds,
    ) -> Result<PlatformKey, Rejection> {
        let [leaf, authority, root] = &self.certificates;
        if root != collateral.root_certificate() {
            return Err(Rejection::Untrusted("the quote's chain leads to another root"));
        }
        let lists = collateral.lists();
        let point = chain::verify(leaf, Some(authority), root, &lists, now, "the PCK certificate's chain")?;
        let [leaf, authority] = [&self.leaf, &self.authority].map(chain::dates);
        Ok(PlatformKey { point, expires: leaf.until.min(authority.until) })
    }
}
