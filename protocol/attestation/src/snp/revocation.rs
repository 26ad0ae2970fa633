//! The ARK's revocation list. webpki verifies its signature; what it would pass over is here.

use sealane_types::UnixSeconds;
use x509_cert::crl::CertificateList;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::name::Name;

use super::issuer::Issuer;
use crate::as_of::AsOf;
use crate::der;
use crate::piece::{ListHead, Term};
use crate::rejection::Rejection;

/// RFC 5280 §5.2.5, id-ce-issuingDistributionPoint: the list speaks for some certificates only.
const ISSUING_DISTRIBUTION_POINT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.28");

/// A list that the caller holds to be of one issuer. Who signed it is asked at each use, what it says of itself once.
#[derive(Debug, Clone)]
pub(crate) struct List {
    pub(super) der: Vec<u8>,
    head: Result<ListHead, Rejection>,
}

impl List {
    pub(crate) fn read(list: &[u8], issuer: &Issuer) -> Self {
        Self { der: list.to_vec(), head: head(list, &issuer.subject) }
    }

    /// Insists that the list speaks for everything that its issuer certified, at this time.
    pub(super) fn covers(&self, as_of: AsOf) -> Result<ListHead, Rejection> {
        let head = self.head?;
        let Term { from, until } = head.term;
        if from > as_of.now {
            return Err(Rejection::CollateralExpired("the revocation list is from the future"));
        }
        if as_of.now >= as_of.lasting(until) {
            return Err(Rejection::CollateralExpired("the revocation list"));
        }
        Ok(head)
    }
}

/// The number of `list`, and since when and until when it speaks for everything that `issuer` certified.
///
/// A list of another issuer, or for other certificates, would leave the status of ours unknown, which webpki
/// has to let pass because nobody issues a list for VCEKs.
pub(super) fn head(list: &[u8], issuer: &Name) -> Result<ListHead, Rejection> {
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
    let term = Term { from, until: UnixSeconds(next.to_unix_duration().as_secs()) };
    Ok(ListHead { term, number: der::crl_number(&list) })
}
