//! What evidence is verified with, beside the evidence itself.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256, digest};
use sealane_types::{Digest, Product};
use x509_cert::Certificate;

use crate::codec::length_prefix;
use crate::der;
use crate::limits::{CERTIFICATE_BYTES_MAX, NITRO_CERTIFICATE_BYTES_MAX, REVOCATION_LIST_BYTES_MAX};
use crate::naming::Naming;
use crate::snp::{Issuer, List, SigningKey, names};
use crate::tdx::TdxCollateral;

/// A pair of certificates that cannot serve as a root of real hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnchorError {
    #[error("a certificate or revocation list is larger than any that the vendor issues")]
    Size,
    #[error("a certificate cannot be parsed")]
    Certificate,
    #[error(
        "the certificates are not those of a vendor: an ARK with its ASK or ASVK of one product, or Intel's SGX root"
    )]
    Names,
    #[error("a key of the certificates is not RSA")]
    Key,
    #[error("a root whose names contain SIM is simulated, and never stands for hardware")]
    Simulated,
}

/// The pinned root of one product and signing key, with the revocation list of its issuer.
#[derive(Debug, Clone)]
pub struct Anchor {
    pub(crate) product: Product,
    pub(crate) signing_key: SigningKey,
    pub(crate) root: Digest,
    pub(crate) ark: Arc<Issuer>,
    pub(crate) ask: Arc<Issuer>,
    pub(crate) revocation_list: Option<List>,
    /// Of everything above that a chain is verified with.
    pub(crate) identity: Digest,
    naming: Naming,
}

impl Anchor {
    /// Pins `ark` and `ask` (both DER). Product and kind of signing key follow from their subject names,
    /// which the caller vouches for by pinning them.
    ///
    /// # Errors
    /// [`AnchorError`] when they are not such a pair.
    pub fn new(ark: &[u8], ask: &[u8]) -> Result<Self, AnchorError> {
        Self::named(ark, ask, Naming::Vendor)
    }

    /// Pins `ark` and `ask` (both DER) whether or not they say that they are simulated, for
    /// `cargo xtask judge --test-roots` alone.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn test_root(ark: &[u8], ask: &[u8]) -> Result<Self, AnchorError> {
        Self::named(ark, ask, Naming::Either)
    }

    fn named(ark: &[u8], ask: &[u8], naming: Naming) -> Result<Self, AnchorError> {
        if ark.len() > CERTIFICATE_BYTES_MAX || ask.len() > CERTIFICATE_BYTES_MAX {
            return Err(AnchorError::Size);
        }
        let read = |der| der::decode::<Certificate>(der).ok_or(AnchorError::Certificate);
        let [root_certificate, issuer_certificate] = [read(ark)?, read(ask)?];
        let root = &root_certificate.tbs_certificate.subject;
        let issuer = &issuer_certificate.tbs_certificate.subject;
        for subject in [root, issuer] {
            naming.check(subject).map_err(|_| AnchorError::Simulated)?;
        }
        let product = names::root_product(root, naming).ok_or(AnchorError::Names)?;
        let (issues, signing_key) = names::issuer_product(issuer, naming).ok_or(AnchorError::Names)?;
        if issues != product {
            return Err(AnchorError::Names);
        }
        let (root, identity) = (fingerprint(ark), issuers_identity(ark, ask, None));
        let issuer = |der, certificate| Issuer::new(der, certificate).map(Arc::new).ok_or(AnchorError::Key);
        let [ark, ask] = [issuer(ark, root_certificate)?, issuer(ask, issuer_certificate)?];
        Ok(Self { product, signing_key, root, ark, ask, revocation_list: None, identity, naming })
    }

    /// The same anchor with the CRL (DER) that the ARK issued. It is verified when it is used.
    ///
    /// # Errors
    /// [`AnchorError::Size`] when it is larger than any that AMD issues.
    pub fn with_revocation_list(mut self, revocation_list: &[u8]) -> Result<Self, AnchorError> {
        if revocation_list.len() > REVOCATION_LIST_BYTES_MAX {
            return Err(AnchorError::Size);
        }
        self.identity = issuers_identity(&self.ark.der, &self.ask.der, Some(revocation_list));
        self.revocation_list = Some(List::read(revocation_list, &self.ark));
        Ok(self)
    }

    #[must_use]
    pub const fn product(&self) -> Product {
        self.product
    }

    /// SHA-256 of the ARK.
    #[must_use]
    pub const fn root(&self) -> &Digest {
        &self.root
    }
}

/// The pinned root of AWS Nitro Enclaves.
#[derive(Debug, Clone)]
pub(crate) struct NitroRoot {
    pub(crate) der: Vec<u8>,
    pub(crate) naming: Naming,
}

/// Pinned roots, revocation lists, and whether simulated evidence is looked at.
#[derive(Debug, Clone, Default)]
pub struct Collateral {
    anchors: Vec<Anchor>,
    nitro: Option<NitroRoot>,
    tdx: Vec<TdxCollateral>,
    allow_simulated: bool,
    edition: u64,
}

impl Collateral {
    /// Knows no root and refuses everything.
    #[must_use]
    pub const fn empty() -> Self {
        Self { anchors: Vec::new(), nitro: None, tdx: Vec::new(), allow_simulated: false, edition: 0 }
    }

    /// AMD's roots of Milan, Genoa and Turin, for VCEKs and for VLEKs (`collateral/README.md`), without revocation
    /// lists: real evidence is refused by [`crate::appraise`] until the caller adds fresh ones.
    #[must_use]
    pub fn builtin() -> Self {
        const MILAN: &[u8] = include_bytes!("../collateral/amd-milan-ark.der");
        const GENOA: &[u8] = include_bytes!("../collateral/amd-genoa-ark.der");
        const TURIN: &[u8] = include_bytes!("../collateral/amd-turin-ark.der");
        const PINNED: [(&[u8], &[u8]); 6] = [
            (MILAN, include_bytes!("../collateral/amd-milan-ask.der")),
            (MILAN, include_bytes!("../collateral/amd-milan-asvk.der")),
            (GENOA, include_bytes!("../collateral/amd-genoa-ask.der")),
            (GENOA, include_bytes!("../collateral/amd-genoa-asvk.der")),
            (TURIN, include_bytes!("../collateral/amd-turin-ask.der")),
            (TURIN, include_bytes!("../collateral/amd-turin-asvk.der")),
        ];
        // A test holds that each of them parses; one that did not would fail closed here.
        let anchors = PINNED.iter().filter_map(|(ark, ask)| Anchor::new(ark, ask).ok()).collect();
        let der = include_bytes!("../collateral/aws-nitro-root-g1.der").to_vec();
        Self { anchors, nitro: Some(NitroRoot { der, naming: Naming::Vendor }), ..Self::empty() }
    }

    /// The same collateral with `anchor` in place of the one for its product and signing key.
    #[must_use]
    pub fn with_anchor(mut self, anchor: Anchor) -> Self {
        self.anchors.retain(|held| (held.product, held.signing_key) != (anchor.product, anchor.signing_key));
        self.anchors.push(anchor);
        self
    }

    /// The same collateral with `tdx` in place of what it had for the same platforms.
    #[must_use]
    pub fn with_tdx(mut self, tdx: TdxCollateral) -> Self {
        self.tdx.retain(|held| !tdx.replaces(held));
        self.tdx.push(tdx);
        self
    }

    /// For each family of TDX platforms, what its quotes are judged by.
    #[must_use]
    pub fn tdx(&self) -> &[TdxCollateral] {
        &self.tdx
    }

    /// The same collateral with this root (DER) of AWS Nitro Enclaves in place of the one that it had.
    ///
    /// # Errors
    /// [`AnchorError`] when it is no certificate of AWS's size, or a simulated one.
    pub fn with_nitro_root(self, root: &[u8]) -> Result<Self, AnchorError> {
        self.with_named_nitro_root(root, Naming::Vendor)
    }

    /// As [`Self::with_nitro_root`], whether or not the root says that it is simulated, for
    /// `cargo xtask judge --test-roots` alone.
    ///
    /// # Errors
    /// [`AnchorError`] when it is no certificate of AWS's size.
    pub fn with_nitro_test_root(self, root: &[u8]) -> Result<Self, AnchorError> {
        self.with_named_nitro_root(root, Naming::Either)
    }

    fn with_named_nitro_root(mut self, root: &[u8], naming: Naming) -> Result<Self, AnchorError> {
        if root.len() > NITRO_CERTIFICATE_BYTES_MAX {
            return Err(AnchorError::Size);
        }
        let certificate = der::decode::<Certificate>(root).ok_or(AnchorError::Certificate)?;
        naming.check(&certificate.tbs_certificate.subject).map_err(|_| AnchorError::Simulated)?;
        self.nitro = Some(NitroRoot { der: root.to_vec(), naming });
        Ok(self)
    }

    /// DER of the pinned root of AWS Nitro Enclaves.
    #[must_use]
    pub fn nitro_root(&self) -> Option<&[u8]> {
        self.nitro.as_ref().map(|root| root.der.as_slice())
    }

    pub(crate) const fn nitro(&self) -> Option<&NitroRoot> {
        self.nitro.as_ref()
    }

    /// How SNP certificates are named under these anchors.
    pub(crate) fn snp_naming(&self) -> Naming {
        let test = self.anchors.iter().any(|anchor| anchor.naming == Naming::Either);
        if test { Naming::Either } else { Naming::Vendor }
    }

    /// The same collateral, with which simulated evidence is inspected rather than refused. Set only by
    /// programs that are built for simulation or asked for it by name; the policy has to pin the simulated
    /// root besides.
    #[must_use]
    pub const fn allowing_simulated(mut self) -> Self {
        self.allow_simulated = true;
        self
    }

    #[must_use]
    pub const fn allows_simulated(&self) -> bool {
        self.allow_simulated
    }

    /// The same collateral under a number that tells it from what was held before and will be held after, so that a
    /// verdict can be told from one that other collateral would give.
    #[must_use]
    pub const fn with_edition(mut self, edition: u64) -> Self {
        self.edition = edition;
        self
    }

    #[must_use]
    pub const fn edition(&self) -> u64 {
        self.edition
    }

    #[must_use]
    pub fn anchors(&self) -> &[Anchor] {
        &self.anchors
    }
}

pub(crate) fn fingerprint(certificate: &[u8]) -> Digest {
    to_digest(&digest(&SHA256, certificate))
}

/// Of issuers and of the list that speaks about them: another one of any is another identity.
pub(crate) fn issuers_identity(ark: &[u8], ask: &[u8], revocation_list: Option<&[u8]>) -> Digest {
    let mut hash = Context::new(&SHA256);
    for part in [Some(ark), Some(ask), revocation_list].into_iter().flatten() {
        hash.update(&length_prefix(part));
        hash.update(part);
    }
    to_digest(&hash.finish())
}

fn to_digest(hash: &aws_lc_rs::digest::Digest) -> Digest {
    let mut bytes = [0; 32];
    bytes.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
    Digest::new(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_roots_are_those_that_the_readme_lists() {
        let builtin = Collateral::builtin();
        let mut roots: Vec<String> =
            builtin.anchors().iter().map(|anchor| anchor.root().to_string()).collect();
        roots.push(fingerprint(builtin.nitro_root().unwrap()).to_string());
        let readme = include_str!("../collateral/README.md");
        let pairs = |key| builtin.anchors().iter().filter(|anchor| anchor.signing_key == key).count();
        assert_eq!([pairs(SigningKey::Vcek), pairs(SigningKey::Vlek)], [Product::ALL.len(); 2]);
        assert!(roots.iter().all(|root| readme.contains(root.as_str())), "{roots:?}");
        let issuers: Vec<String> =
            builtin.anchors().iter().map(|anchor| fingerprint(&anchor.ask.der).to_string()).collect();
        assert!(issuers.iter().all(|issuer| readme.contains(issuer.as_str())), "{issuers:?}");
        assert!(!builtin.allows_simulated());
    }

    #[test]
    fn an_anchor_is_one_product_s_pair() {
        let milan = include_bytes!("../collateral/amd-milan-ark.der");
        let genoa = include_bytes!("../collateral/amd-genoa-ask.der");
        assert_eq!(Anchor::new(milan, genoa).unwrap_err(), AnchorError::Names);
        assert_eq!(Anchor::new(genoa, milan).unwrap_err(), AnchorError::Names);
        assert_eq!(Anchor::new(milan, &[]).unwrap_err(), AnchorError::Certificate);
        assert_eq!(Anchor::new(milan, &vec![0; 5000]).unwrap_err(), AnchorError::Size);
    }
}
