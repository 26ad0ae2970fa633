//! AMD's collateral: revocation lists and the certificates of chips, verified before they are kept.

use sealane_types::{ChipId, Product, UnixSeconds};
use x509_cert::crl::CertificateList;

use super::chain::{self, Issuers, verify_signing_certificate};
use super::pss::IDENTIFIERS;
use super::{SigningKey, names, revocation};
use crate::as_of::AsOf;
use crate::collateral::Anchor;
use crate::der;
use crate::limits::{CERTIFICATE_BYTES_MAX, REVOCATION_LIST_BYTES_MAX};
use crate::naming::Naming;
use crate::piece::{ListHead, Term, VcekId};
use crate::rejection::Rejection;

/// A list that one of the roots of `anchors` signed, and of which product.
pub(crate) fn verify_list(list: &[u8], anchors: &[Anchor]) -> Result<(Product, ListHead), Rejection> {
    const MALFORMED: Rejection = Rejection::CollateralMissing("the revocation list cannot be parsed");
    if list.len() > REVOCATION_LIST_BYTES_MAX {
        return Err(Rejection::CollateralMissing("the revocation list is too large"));
    }
    let parsed: CertificateList = der::decode(list).ok_or(MALFORMED)?;
    let product = names::root_product(&parsed.tbs_cert_list.issuer, Naming::Vendor)
        .ok_or(Rejection::CollateralMissing("the revocation list is of another issuer"))?;
    let anchor = anchors.iter().find(|anchor| anchor.product == product);
    let anchor = anchor.ok_or(Rejection::CollateralMissing("no root for this product"))?;
    let head = revocation::head(list, &anchor.ark.subject)?;
    let signed = der::signed(list).ok_or(MALFORMED)?;
    if !IDENTIFIERS.iter().any(|identifier| identifier.as_ref() == signed.algorithm) {
        return Err(Rejection::CollateralMissing(
            "the revocation list is signed by an algorithm that AMD does not use",
        ));
    }
    let unsigned = |_| Rejection::CollateralMissing("the revocation list is not signed by the ARK");
    anchor.ark.key.verify(signed.content, signed.signature).map_err(unsigned)?;
    Ok((product, head))
}

/// The certificate of a chip under one of `anchors`, and of which chip.
pub(crate) fn verify_vcek(
    certificate: &[u8],
    anchors: &[Anchor],
    now: UnixSeconds,
) -> Result<(VcekId, Term), Rejection> {
    if certificate.len() > CERTIFICATE_BYTES_MAX {
        return Err(Rejection::Malformed("size of a certificate"));
    }
    let parsed = chain::parse(certificate)?;
    Naming::Vendor.check(&parsed.tbs_certificate.subject)?;
    let Some((product, SigningKey::Vcek)) =
        names::issuer_product(&parsed.tbs_certificate.issuer, Naming::Vendor)
    else {
        return Err(Rejection::Untrusted("the VCEK's issuer is none of AMD's"));
    };
    let anchor =
        anchors.iter().find(|anchor| (anchor.product, anchor.signing_key) == (product, SigningKey::Vcek));
    let anchor = anchor.ok_or(Rejection::CollateralMissing("no root for this product"))?;
    let issuers = Issuers {
        product,
        signing_key: SigningKey::Vcek,
        ark: &anchor.ark,
        ask: &anchor.ask,
        // Whether its issuer is revoked is asked when it vouches for a report.
        revocation_list: None,
    };
    let key = verify_signing_certificate(certificate, &parsed, &issuers, AsOf::strictly(now))?;
    let id = key.hardware_id.as_deref().and_then(chip_id);
    let chip = id.ok_or(Rejection::Untrusted("hardware or provider id of the VCEK"))?;
    Ok((VcekId { product, chip, tcb: key.tcb }, Term { from: key.from, until: key.expires }))
}

/// The product whose root a signing certificate claims, unverified: there are three, each with one list.
pub(crate) fn issuer_of(certificate: &[u8]) -> Option<Product> {
    let fits = certificate.len() <= CERTIFICATE_BYTES_MAX;
    let parsed = fits.then(|| chain::parse(certificate).ok()).flatten()?;
    names::issuer_product(&parsed.tbs_certificate.issuer, Naming::Vendor).map(|(product, _)| product)
}

/// As reports write it: what a chip's fuses leave open is zero.
fn chip_id(hardware_id: &[u8]) -> Option<ChipId> {
    let mut id = [0; 64];
    id.get_mut(..hardware_id.len())?.copy_from_slice(hardware_id);
    Some(ChipId::new(id))
}
