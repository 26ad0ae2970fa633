//! The ARK's revocation list. webpki verifies its signature; what it would pass over is here.

use sealane_types::UnixSeconds;
use x509_cert::crl::CertificateList;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::name::Name;

use crate::as_of::AsOf;
use crate::der;
use crate::rejection::Rejection;

/// RFC 5280 §5.2.5, id-ce-issuingDistributionPoint: the list speaks for some certificates only.
const ISSUING_DISTRIBUTION_POINT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.28");

/// Insists that `list` speaks for everything that `issuer` certified, at this time, and returns since when it is
/// valid and when it expires ([`term`]).
pub(super) fn covers(
    list: &[u8],
    issuer: &Name,
    as_of: AsOf,
) -> Result<(UnixSeconds, UnixSeconds), Rejection> {
    let (from, until) = term(list, issuer)?;
    if from > as_of.now {
        return Err(Rejection::CollateralExpired("the revocation list is from the future"));
    }
    if as_of.now >= as_of.lasting(until) {
        return Err(Rejection::CollateralExpired("the revocation list"));
    }
    Ok((from, until))
}

/// Since when and until when `list` speaks for everything that `issuer` certified.
///
/// A list of another issuer, or for other certificates, would leave the status of ours unknown, which webpki
/// has to let pass because nobody issues a list for VCEKs.
pub(super) fn term(list: &[u8], issuer: &Name) -> Result<(UnixSeconds, UnixSeconds), Rejection> {
    let list: CertificateList =
        der::decode(list).ok_or(Rejection::CollateralMissing("the revocation list cannot be parsed"))?;
    let list = list.tbs_cert_list;
    if list.issuer != *issuer {
        return Err(Rejection::CollateralMissing("the revocation list is of another issuer"));
    }
    let extensions = list.crl_extensions.as_deref().unwrap_or_default();
    if extensions.iter().any(|extension| extension.extn_id == ISSUING_DISTRIBUTION_POINT) {
        return Err(Rejection::CollateralMissing("the revocation list covers a part of the certificates"));
    }
    let from = UnixSeconds(list.this_update.to_unix_duration().as_secs());
    let next = list.next_update.ok_or(Rejection::CollateralMissing("the revocation list never expires"))?;
    Ok((from, UnixSeconds(next.to_unix_duration().as_secs())))
}
