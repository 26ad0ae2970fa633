//! Root → region → zone → instance → enclave: names, dates, CA flags, key usage, signatures.
//!
//! webpki finds a path among certificates in any order, which costs a stranger's many lookalikes more than AWS's row
//! of four. The order is specified, so it is demanded first, and webpki is left with one path to verify.

use std::time::Duration;

use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, UnixTime,
};
use sealane_types::UnixSeconds;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, aws_lc_rs::ECDSA_P384_SHA384};
use x509_cert::Certificate;
use x509_cert::der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage as Usage, KeyUsages};

use super::document::Document;
use crate::der;
use crate::naming::Naming;
use crate::p384::{self, Point};
use crate::rejection::Rejection;
use crate::seen::Seen;

/// The key of a verified chain, and when the first of its certificates expires.
pub(super) struct VerifiedKey {
    pub(super) point: Point,
    pub(super) expires: UnixSeconds,
}

/// Verifies the document's certificates at `now` under the first of its bundle, which the caller trusts.
pub(super) fn verify(
    document: &Document<'_>,
    naming: Naming,
    now: UnixSeconds,
) -> Result<VerifiedKey, Rejection> {
    let issuers = document.bundle.iter().map(|der| parse(der)).collect::<Result<Vec<_>, _>>()?;
    let signer = parse(document.certificate)?;
    let chain: Vec<&Certificate> = issuers.iter().chain([&signer]).collect();
    let mut expires = UnixSeconds(u64::MAX);
    for certificate in &chain {
        naming.check(&certificate.tbs_certificate.subject)?;
        expires = expires.min(check_dates(certificate, now)?);
    }
    check_order(&chain)?;
    for issuer in &issuers {
        check_usage(issuer, KeyUsages::KeyCertSign)?;
    }
    check_usage(&signer, KeyUsages::DigitalSignature)?;
    check_end(&signer)?;
    let root_key = issuers.first().and_then(public_key).ok_or(Rejection::Malformed("the root"))?;
    let key = verify_path(document, root_key, now)?;
    let point = p384::point(&key).ok_or(Rejection::Untrusted("the enclave's key is not on P-384"))?;
    Ok(VerifiedKey { point, expires })
}

fn parse(der: &[u8]) -> Result<Certificate, Rejection> {
    der::decode(der).ok_or(Rejection::Malformed("a certificate of the document"))
}

/// webpki does not look at the dates of a root; all are checked alike (AWS's text, §3.2.3.1).
fn check_dates(certificate: &Certificate, now: UnixSeconds) -> Result<UnixSeconds, Rejection> {
    let validity = &certificate.tbs_certificate.validity;
    let not_before = validity.not_before.to_unix_duration().as_secs();
    let not_after = validity.not_after.to_unix_duration().as_secs();
    if now.0 < not_before || now.0 > not_after {
        return Err(Rejection::Expired("a certificate of the document"));
    }
    Ok(UnixSeconds(not_after))
}

/// Each was issued by the one before it, and no two have one name: there is one path.
fn check_order(chain: &[&Certificate]) -> Result<(), Rejection> {
    let names: Vec<_> = chain.iter().map(|certificate| &certificate.tbs_certificate.subject).collect();
    for (position, certificate) in chain.iter().enumerate() {
        let earlier = names.get(..position).unwrap_or_default();
        let issuer = earlier.last().copied().or(names.first().copied());
        if issuer != Some(&certificate.tbs_certificate.issuer) {
            return Err(Rejection::Untrusted("the certificates are not in the order of their issuers"));
        }
        if earlier.contains(&&certificate.tbs_certificate.subject) {
            return Err(Rejection::Untrusted("two certificates of the document have one name"));
        }
    }
    Ok(())
}

/// webpki does not read key usage (AWS's text, §3.2.3.3).
fn check_usage(certificate: &Certificate, wanted: KeyUsages) -> Result<(), Rejection> {
    let usage: Option<Usage> = extension(certificate, Usage::OID)?;
    if usage.is_some_and(|usage| usage.0.contains(wanted)) {
        return Ok(());
    }
    Err(Rejection::Untrusted("key usage of a certificate of the document"))
}

/// The enclave's certificate bounds no path (AWS's text, §3.2.3.3); webpki refuses it as a CA.
fn check_end(certificate: &Certificate) -> Result<(), Rejection> {
    let constraints: Option<BasicConstraints> = extension(certificate, BasicConstraints::OID)?;
    if constraints.is_some_and(|constraints| constraints.path_len_constraint.is_some()) {
        return Err(Rejection::Untrusted("the enclave's certificate bounds a path"));
    }
    Ok(())
}

/// An extension that is there at most once and in its only encoding.
fn extension<T: for<'a> x509_cert::der::Decode<'a>>(
    certificate: &Certificate,
    id: ObjectIdentifier,
) -> Result<Option<T>, Rejection> {
    const UNREADABLE: Rejection = Rejection::Untrusted("an extension of a certificate of the document");
    let extensions = certificate.tbs_certificate.extensions.as_deref().unwrap_or_default();
    let mut found = extensions.iter().filter(|extension| extension.extn_id == id);
    let Some(extension) = found.next() else { return Ok(None) };
    if found.next().is_some() {
        return Err(UNREADABLE);
    }
    der::decode(extension.extn_value.as_bytes()).map(Some).ok_or(UNREADABLE)
}

/// The bits of a certificate's key, as webpki hands them to an algorithm.
fn public_key(certificate: &Certificate) -> Option<&[u8]> {
    certificate.tbs_certificate.subject_public_key_info.subject_public_key.as_bytes()
}

/// ECDSA on P-384 with SHA-384. What the root signed is known once it was verified: it certifies a region for weeks, while
/// everything below is new within days.
#[derive(Debug)]
struct Algorithm<'k> {
    root: &'k [u8],
}

static SEEN: Seen = Seen::new();

impl SignatureVerificationAlgorithm for Algorithm<'_> {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let verify = || ECDSA_P384_SHA384.verify_signature(public_key, message, signature);
        if public_key == self.root {
            SEEN.or_verify(public_key, message, signature, verify)
        } else {
            verify()
        }
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        ECDSA_P384_SHA384.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        ECDSA_P384_SHA384.signature_alg_id()
    }
}

/// webpki's part: signatures, CA flags, lengths of paths, critical extensions. Returns the DER SubjectPublicKeyInfo of
/// the enclave's certificate.
fn verify_path(document: &Document<'_>, root_key: &[u8], now: UnixSeconds) -> Result<Vec<u8>, Rejection> {
    let mut certificates = document.bundle.iter().map(|der| CertificateDer::from_slice(der));
    let root = certificates.next().ok_or(Rejection::Malformed("the document has no root"))?;
    let anchor = anchor_from_trusted_cert(&root).map_err(|_| Rejection::Malformed("the root"))?;
    let algorithm = Algorithm { root: root_key };
    let intermediates: Vec<CertificateDer<'_>> = certificates.collect();
    let signer = CertificateDer::from_slice(document.certificate);
    let signer =
        EndEntityCert::try_from(&signer).map_err(|_| Rejection::Malformed("the enclave's certificate"))?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.0));
    // No certificate of AWS's restricts extended usage, so any would do. AWS publishes lists of revoked certificates
    // and says not to consult them (§3.2.4): what the enclave's certificate could be misused for ends within 3 hours.
    let usage = KeyUsage::server_auth();
    signer
        .verify_for_usage(&[&algorithm], &[anchor], &intermediates, now, usage, None, None)
        .map_err(|_| Rejection::Untrusted("the certificates are no chain to the root"))?;
    Ok(signer.subject_public_key_info().as_ref().to_vec())
}
