//! ARK → ASK → VCEK (or ARK → ASVK → VLEK): signatures, names, CA flags, dates, revocation, extensions.

use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use sealane_types::{Product, UnixSeconds};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList,
    RevocationCheckDepth, RevocationOptionsBuilder, UnknownStatusPolicy, anchor_from_trusted_cert,
};
use x509_cert::Certificate;

use super::issuer::{Issuer, term};
use super::pss::Algorithm;
use super::revocation::List;
use super::{SigningKey, extensions};
use crate::as_of::AsOf;
use crate::claims::{Revocation, Tcb};
use crate::der;
use crate::p384::{self, Point};
use crate::piece::{ListHead, Term};
use crate::rejection::Rejection;

pub(super) const UNTRUSTED: Rejection = Rejection::Untrusted("the certificates are no chain to the root");

/// The certificates that vouch for a signing key. `ark` is trusted by whoever calls.
pub(super) struct Issuers<'a> {
    pub(super) product: Product,
    pub(super) signing_key: SigningKey,
    pub(super) ark: &'a Issuer,
    pub(super) ask: &'a Issuer,
    pub(super) revocation_list: Option<&'a List>,
}

/// A signing key whose chain was verified, and what its certificate says about it.
#[derive(Debug)]
pub(super) struct VerifiedKey {
    pub(super) point: Point,
    pub(super) product: Product,
    pub(super) signing_key: SigningKey,
    pub(super) tcb: Tcb,
    pub(super) hardware_id: Option<Vec<u8>>,
    pub(super) provider: Option<String>,
    pub(super) revocation: Revocation,
    /// Since when all of its chain and its list are valid.
    pub(super) from: UnixSeconds,
    /// When the first certificate of its chain ends.
    pub(super) expires: UnixSeconds,
    /// The list by which its issuer is not revoked.
    pub(super) list: Option<ListHead>,
}

impl VerifiedKey {
    /// Whether the chain would verify at `now` as it did. The last second counts to none: a list is over with it, a
    /// certificate not before it.
    pub(super) fn holds_at(&self, now: UnixSeconds) -> bool {
        self.from <= now && now < self.expires && self.list.is_none_or(|list| now < list.term.until)
    }
}

pub(super) fn parse(certificate: &[u8]) -> Result<Certificate, Rejection> {
    der::decode(certificate).ok_or(Rejection::Malformed("a certificate"))
}

/// Verifies the DER certificate `signer`, which is `certificate`, under `issuers`.
pub(super) fn verify_signing_certificate(
    signer: &[u8],
    certificate: &Certificate,
    issuers: &Issuers<'_>,
    as_of: AsOf,
) -> Result<VerifiedKey, Rejection> {
    let now = as_of.now;
    let Issuers { ark, ask, .. } = issuers;
    let (mut from, mut expires) = (UnixSeconds(0), UnixSeconds(u64::MAX));
    let own = term(&certificate.tbs_certificate);
    for (term, name) in [(ark.term, "the ARK"), (ask.term, "the ASK"), (own, "the VCEK")] {
        check_dates(term, name, now)?;
        (from, expires) = (from.max(term.from), expires.min(term.until));
    }
    let mut revocation = Revocation::Unchecked;
    let list = issuers.revocation_list.map(|list| list.covers(as_of)).transpose()?;
    if let Some(list) = list {
        from = from.max(list.term.from);
        revocation = Revocation::Checked;
    }
    let public_key = verify_path(signer, issuers, now)?;
    let point = p384::point(&public_key).ok_or(Rejection::Untrusted("the VCEK's key is not on P-384"))?;
    let extensions = extensions::read(certificate, issuers.product, issuers.signing_key)?;
    Ok(VerifiedKey {
        point,
        product: issuers.product,
        signing_key: issuers.signing_key,
        tcb: extensions.tcb,
        hardware_id: extensions.hardware_id,
        provider: extensions.provider,
        revocation,
        from,
        expires,
        list,
    })
}

/// webpki's part. Returns the DER SubjectPublicKeyInfo of `signer`.
fn verify_path(signer: &[u8], issuers: &Issuers<'_>, now: UnixSeconds) -> Result<Vec<u8>, Rejection> {
    let ark = CertificateDer::from_slice(&issuers.ark.der);
    let anchor = anchor_from_trusted_cert(&ark).map_err(|_| Rejection::Malformed("the ARK"))?;
    let ask = [CertificateDer::from_slice(&issuers.ask.der)];
    let signer = CertificateDer::from_slice(signer);
    let signer = EndEntityCert::try_from(&signer).map_err(|_| Rejection::Malformed("the VCEK"))?;
    let list = match issuers.revocation_list {
        Some(list) => Some(CertRevocationList::from(
            OwnedCertRevocationList::from_der(&list.der)
                .map_err(|_| Rejection::CollateralMissing("the revocation list cannot be parsed"))?,
        )),
        None => None,
    };
    let lists: Vec<&CertRevocationList<'_>> = list.iter().collect();
    // `Err` means that there is no list.
    let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
        options
            .with_depth(RevocationCheckDepth::Chain)
            // The ARK's list covers ASK and ASVK, and AMD issues none for VCEKs.
            .with_status_policy(UnknownStatusPolicy::Allow)
            // Whether it is over was asked before, with the grace that owners may sign.
            .with_expiration_policy(ExpirationPolicy::Ignore)
            .build()
    });
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.0));
    // None of the certificates restricts extended usage, so any would do.
    let usage = KeyUsage::server_auth();
    let [spelt_out, left_out] = Algorithm::all(&issuers.ark.key, &issuers.ask.key);
    signer
        .verify_for_usage(&[&spelt_out, &left_out], &[anchor], &ask, now, usage, revocation, None)
        .map_err(|error| rejection(&error))?;
    Ok(signer.subject_public_key_info().as_ref().to_vec())
}

/// Dates are never the reason: they were held against the clock before.
fn rejection(error: &webpki::Error) -> Rejection {
    match error {
        webpki::Error::CertRevoked => Rejection::Revoked("a certificate of the evidence"),
        webpki::Error::InvalidCrlSignatureForPublicKey | webpki::Error::IssuerNotCrlSigner => {
            Rejection::CollateralMissing("the revocation list is not signed by the ARK")
        }
        _ => UNTRUSTED,
    }
}

/// webpki does not look at the dates of a root; all three are checked alike.
fn check_dates(term: Term, name: &'static str, now: UnixSeconds) -> Result<(), Rejection> {
    if now < term.from || now > term.until {
        return Err(Rejection::Expired(name));
    }
    Ok(())
}
