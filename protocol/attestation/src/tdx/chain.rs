//! Intel's chains: root → TCB signing key, and root → PCK authority → platform. webpki verifies signatures, names, dates
//! and revocation; what it would pass over is here.

use std::time::Duration;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls_pki_types::{CertificateDer, UnixTime, alg_id};
use sealane_types::UnixSeconds;
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList,
    RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy, anchor_from_trusted_cert,
};
use x509_cert::Certificate;
use x509_cert::crl::CertificateList;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;

use super::statement::Dates;
use crate::der;
use crate::limits::REVOCATION_LIST_BYTES_MAX;
use crate::piece::{ListHead, Term};
use crate::rejection::Rejection;

/// DER of a P-256 SubjectPublicKeyInfo up to the point (RFC 5480): id-ecPublicKey, prime256v1, 65 bytes of uncompressed
/// point.
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const P256_POINT_BYTES: usize = 65;
/// RFC 5280 §5.2.5, id-ce-issuingDistributionPoint: the list speaks for some certificates only.
const ISSUING_DISTRIBUTION_POINT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.28");

pub(super) fn parse(certificate: &[u8]) -> Option<Certificate> {
    der::decode(certificate)
}

pub(super) fn dates(certificate: &Certificate) -> Dates {
    let validity = &certificate.tbs_certificate.validity;
    let [from, until] =
        [validity.not_before, validity.not_after].map(|time| UnixSeconds(time.to_unix_duration().as_secs()));
    Dates { from, until }
}

/// The key of a certificate, if it is an uncompressed point on P-256.
pub(super) fn point(certificate: &Certificate) -> Option<[u8; P256_POINT_BYTES]> {
    let key = &certificate.tbs_certificate.subject_public_key_info;
    key.subject_public_key.raw_bytes().try_into().ok()
}

/// Whether the key of `issuer` signed this certificate or list (DER). Names, dates and revocations are not looked at.
pub(super) fn is_signed_by(signed: &[u8], issuer: &Certificate) -> bool {
    let Some((key, signed)) = point(issuer).zip(der::signed(signed)) else { return false };
    if signed.algorithm != alg_id::ECDSA_SHA256.as_ref() {
        return false;
    }
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key).verify(signed.content, signed.signature).is_ok()
}

/// A revocation list that speaks for everything that its issuer certified. Its signature is verified when it is used.
#[derive(Debug)]
pub(super) struct RevocationList {
    pub(super) issuer: Name,
    pub(super) dates: Dates,
    number: Option<u64>,
    revoked: Vec<SerialNumber>,
    list: CertRevocationList<'static>,
}

impl RevocationList {
    pub(super) fn parse(list: &[u8]) -> Result<Self, Rejection> {
        const MALFORMED: Rejection = Rejection::CollateralMissing("a revocation list cannot be parsed");
        if list.len() > REVOCATION_LIST_BYTES_MAX {
            return Err(MALFORMED);
        }
        let parsed: CertificateList = der::decode(list).ok_or(MALFORMED)?;
        let parsed = parsed.tbs_cert_list;
        let extensions = parsed.crl_extensions.as_deref().unwrap_or_default();
        if extensions.iter().any(|extension| extension.extn_id == ISSUING_DISTRIBUTION_POINT) {
            return Err(Rejection::CollateralMissing("a revocation list covers a part of the certificates"));
        }
        let never = Rejection::CollateralMissing("a revocation list never expires");
        let [from, until] = [parsed.this_update, parsed.next_update.ok_or(never)?]
            .map(|time| UnixSeconds(time.to_unix_duration().as_secs()));
        let number = der::crl_number(&parsed);
        let revoked = parsed.revoked_certificates.unwrap_or_default();
        let list = OwnedCertRevocationList::from_der(list).map_err(|_| MALFORMED)?;
        Ok(Self {
            issuer: parsed.issuer,
            dates: Dates { from, until },
            number,
            revoked: revoked.into_iter().map(|entry| entry.serial_number).collect(),
            list: list.into(),
        })
    }

    /// What it says of itself.
    pub(super) fn head(&self) -> ListHead {
        let Dates { from, until } = self.dates;
        ListHead { term: Term { from, until }, number: self.number }
    }

    pub(super) fn revokes(&self, certificate: &Certificate) -> bool {
        self.revoked.contains(&certificate.tbs_certificate.serial_number)
    }
}

/// Verifies `leaf` under `root` at `now`, through `authority` if there is one, and that no certificate of the chain is
/// revoked: each needs a list of its issuer. Returns the leaf's key, an uncompressed point on P-256.
pub(super) fn verify(
    leaf: &[u8],
    authority: Option<&[u8]>,
    root: &[u8],
    lists: &[&RevocationList],
    now: UnixSeconds,
    name: &'static str,
) -> Result<[u8; P256_POINT_BYTES], Rejection> {
    let root = CertificateDer::from_slice(root);
    let anchor = anchor_from_trusted_cert(&root).map_err(|_| Rejection::Malformed("the root"))?;
    let authorities: Vec<_> = authority.into_iter().map(CertificateDer::from_slice).collect();
    let leaf = CertificateDer::from_slice(leaf);
    let leaf = EndEntityCert::try_from(&leaf).map_err(|_| Rejection::Malformed("a certificate"))?;
    let lists: Vec<&CertRevocationList<'_>> = lists.iter().map(|list| &list.list).collect();
    let revocation = RevocationOptionsBuilder::new(&lists)
        .map_err(|_| Rejection::CollateralMissing("no revocation list of Intel's"))?
        .with_depth(RevocationCheckDepth::Chain)
        .with_status_policy(UnknownStatusPolicy::Deny)
        // Whether they are over is asked of all parts of the collateral alike ([`super::collateral`]).
        .with_expiration_policy(ExpirationPolicy::Ignore)
        .build();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.0));
    // None of the certificates restricts extended usage, so any would do.
    let usage = KeyUsage::server_auth();
    leaf.verify_for_usage(
        &[webpki::aws_lc_rs::ECDSA_P256_SHA256],
        &[anchor],
        &authorities,
        now,
        usage,
        Some(revocation),
        None,
    )
    .map_err(|error| rejection(&error, name))?;
    let key = leaf.subject_public_key_info();
    let point = key.as_ref().strip_prefix(&P256_PREFIX).and_then(|point| point.try_into().ok());
    point.ok_or(Rejection::Untrusted("a key of Intel's hierarchy is not on P-256"))
}

fn rejection(error: &webpki::Error, name: &'static str) -> Rejection {
    match error {
        webpki::Error::CertExpired { .. } | webpki::Error::CertNotValidYet { .. } => Rejection::Expired(name),
        webpki::Error::CertRevoked => Rejection::Revoked(name),
        webpki::Error::InvalidCrlSignatureForPublicKey | webpki::Error::IssuerNotCrlSigner => {
            Rejection::CollateralMissing("a revocation list is not signed by its issuer")
        }
        webpki::Error::UnknownRevocationStatus => {
            Rejection::CollateralMissing("no revocation list of a certificate's issuer")
        }
        _ => Rejection::Untrusted(name),
    }
}
