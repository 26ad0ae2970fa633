//! A certificate of AMD's that vouches for others, read once: a pinned one says the same each time.

use sealane_types::UnixSeconds;
use x509_cert::Certificate;
use x509_cert::certificate::TbsCertificate;
use x509_cert::name::Name;
use x509_cert::time::Validity;

use super::pss::Key;
use crate::piece::Term;

/// An ARK, ASK or ASVK. Who signed it is not looked at here.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) der: Vec<u8>,
    pub(super) subject: Name,
    pub(super) term: Term,
    pub(super) key: Key,
}

impl Issuer {
    /// The DER certificate `der`, which is `certificate`; nothing if its key signs nothing of AMD's kind.
    pub(crate) fn new(der: &[u8], certificate: Certificate) -> Option<Self> {
        let certificate = certificate.tbs_certificate;
        Some(Self {
            der: der.to_vec(),
            term: term(&certificate),
            key: Key::read(&certificate.subject_public_key_info)?,
            subject: certificate.subject,
        })
    }
}

/// From when until when a certificate is valid.
pub(super) fn term(certificate: &TbsCertificate) -> Term {
    let Validity { not_before, not_after } = certificate.validity;
    let [from, until] = [not_before, not_after].map(|time| UnixSeconds(time.to_unix_duration().as_secs()));
    Term { from, until }
}
