//! Authorities and serving certificate, and when each is replaced. Pure but for the keys it draws.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

/// Pods trust an authority for as long as they live, so it lives long.
const AUTHORITY_LIFE: Duration = Duration::days(3650);
const LEAF_LIFE: Duration = Duration::days(90);
/// Clocks of nodes may be this far behind.
const CLOCK_SKEW: Duration = Duration::hours(1);

/// A certificate that could not be made or loaded.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("a stored certificate or key cannot be used: {0}")]
    Load(&'static str),
    #[error("the serving certificate and its key do not fit")]
    Mismatch(#[source] rustls::Error),
}

/// A certificate with its private key and its times, which spares a parser.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Issued {
    pub certificate: String,
    pub key: String,
    #[serde(with = "time::serde::rfc3339")]
    not_before: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    not_after: OffsetDateTime,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { certificate: _, key: _, not_before, not_after } = self;
        f.debug_struct("Issued")
            .field("not_before", not_before)
            .field("not_after", not_after)
            .finish_non_exhaustive()
    }
}

impl Issued {
    /// When it is accepted no longer, in seconds since 1970.
    #[must_use]
    pub fn expires(&self) -> i64 {
        self.not_after.unix_timestamp()
    }

    /// Whether `part` of `of` of the life is over.
    fn spent(&self, part: i32, of: i32, now: OffsetDateTime) -> bool {
        now >= self.not_before + (self.not_after - self.not_before) * part / of
    }
}

/// Everything the operator serves with, as it lies in the Secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Material {
    /// The one that signs, then the one that will. Retired ones stay until they expire.
    authorities: Vec<Issued>,
    retired: Vec<Issued>,
    pub leaf: Issued,
    names: Vec<String>,
}

impl Material {
    /// Does everything that is due at `now`; tells whether anything was.
    ///
    /// # Errors
    /// [`CertificateError`] when a stored key cannot be used any more.
    pub fn advance(
        held: Option<Self>,
        names: &[String],
        now: OffsetDateTime,
    ) -> Result<(Self, bool), CertificateError> {
        let (held, expired) = held.map_or((None, false), |held| held.without_expired(now));
        let Some(mut material) = held else {
            let authority = authority(now)?;
            let leaf = leaf(&authority, names, now)?;
            let names = names.to_vec();
            return Ok((Self { authorities: vec![authority], retired: Vec::new(), leaf, names }, true));
        };
        let rotated = material.rotate_authorities(now)?;
        let renamed = material.names != names;
        let changed = expired || rotated || renamed || material.leaf.spent(2, 3, now);
        if changed && let Some(signing) = material.authorities.first() {
            material.leaf = leaf(signing, names, now)?;
            material.names = names.to_vec();
        }
        Ok((material, changed))
    }

    /// The same authorities with another serving certificate.
    ///
    /// # Errors
    /// [`CertificateError`] when the authority that signs cannot be used.
    pub fn reissued(mut self, now: OffsetDateTime) -> Result<Self, CertificateError> {
        if let Some(signing) = self.authorities.first() {
            self.leaf = leaf(signing, &self.names, now)?;
        }
        Ok(self)
    }

    /// What is left when expired authorities are gone, and whether any was; nothing when none can sign.
    fn without_expired(mut self, now: OffsetDateTime) -> (Option<Self>, bool) {
        let before = self.authorities.len() + self.retired.len();
        self.authorities.retain(|authority| now < authority.not_after);
        self.retired.retain(|authority| now < authority.not_after);
        let changed = self.authorities.len() + self.retired.len() != before;
        ((!self.authorities.is_empty()).then_some(self), changed)
    }

    fn rotate_authorities(&mut self, now: OffsetDateTime) -> Result<bool, CertificateError> {
        let mut changed = false;
        if let [signing] = self.authorities.as_slice()
            && signing.spent(1, 2, now)
        {
            self.authorities.push(authority(now)?);
            changed = true;
        }
        // A staged authority that nobody has seen yet must not sign: it waits at least one leaf's life.
        if let [signing, staged] = self.authorities.as_slice()
            && signing.spent(2, 3, now)
            && now >= staged.not_before + LEAF_LIFE
        {
            let signing = self.authorities.remove(0);
            self.retired.push(signing);
            changed = true;
        }
        Ok(changed)
    }

    /// PEM of every authority that a client must trust, the signing one first.
    #[must_use]
    pub fn bundle(&self) -> String {
        self.authorities.iter().chain(&self.retired).map(|authority| authority.certificate.as_str()).collect()
    }
}

fn authority_params(now: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("Sealane operator {}", now.unix_timestamp()));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + AUTHORITY_LIFE;
    params
}

fn authority(now: OffsetDateTime) -> Result<Issued, CertificateError> {
    let now = whole_seconds(now);
    let key = KeyPair::generate()?;
    let params = authority_params(now);
    let certificate = params.self_signed(&key)?;
    Ok(Issued {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        not_before: params.not_before,
        not_after: params.not_after,
    })
}

fn leaf(authority: &Issued, names: &[String], now: OffsetDateTime) -> Result<Issued, CertificateError> {
    let now = whole_seconds(now);
    // The issuer's name and key identifier follow from when it was made and from its key.
    let issuer =
        Issuer::new(authority_params(authority.not_before + CLOCK_SKEW), KeyPair::from_pem(&authority.key)?);
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "sealane-operator");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    params.not_before = now - CLOCK_SKEW;
    params.not_after = (now + LEAF_LIFE).min(authority.not_after);
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Issued {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
        not_before: params.not_before,
        not_after: params.not_after,
    })
}

/// X.509 times have no fractions.
fn whole_seconds(time: OffsetDateTime) -> OffsetDateTime {
    time.replace_nanosecond(0).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};

    use super::*;
    use crate::names::serving_names;

    const START: OffsetDateTime = time::macros::datetime!(2026-11-20 07:00:00.5 UTC);

    fn advance(held: Option<Material>, days: i64) -> (Material, bool) {
        Material::advance(held, &serving_names("sealane-system"), START + Duration::days(days)).unwrap()
    }

    /// Whether a client that trusts `bundle` accepts the serving certificate after so many days.
    fn trusted(bundle: &str, material: &Material, days: i64) -> bool {
        trusted_after(bundle, material, Duration::days(days))
    }

    fn trusted_after(bundle: &str, material: &Material, time: Duration) -> bool {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let leaf = CertificateDer::from_pem_slice(material.leaf.certificate.as_bytes()).unwrap();
        let name = ServerName::try_from("sealane-control.sealane-system.svc").unwrap();
        let seconds = (START + time).unix_timestamp() as u64;
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        verifier.verify_server_cert(&leaf, &[], &name, &[], now).is_ok()
    }

    #[test]
    fn a_fresh_certificate_is_trusted_at_once_and_kept() {
        let (material, changed) = advance(None, 0);
        assert!(changed && trusted(&material.bundle(), &material, 0));
        let (same, changed) = advance(Some(material.clone()), 59);
        assert!(!changed);
        assert_eq!(same.leaf.certificate, material.leaf.certificate);
    }

    #[test]
    fn the_leaf_is_replaced_at_two_thirds_of_its_life_and_when_names_change() {
        let (material, _) = advance(None, 0);
        let (rotated, changed) = advance(Some(material.clone()), 60);
        assert!(changed && rotated.leaf.certificate != material.leaf.certificate);
        assert_eq!(rotated.bundle(), material.bundle());
        assert!(trusted(&material.bundle(), &rotated, 61));

        let (renamed, changed) = Material::advance(Some(material), &["other.svc".to_owned()], START).unwrap();
        assert!(changed && !trusted(&renamed.bundle(), &renamed, 0));
    }

    #[test]
    fn an_authority_is_published_long_before_it_signs() {
        let (first, _) = advance(None, 0);
        let (staged, changed) = advance(Some(first.clone()), 1830);
        assert!(changed);
        assert_eq!(staged.authorities.len(), 2);
        assert!(trusted(&first.bundle(), &staged, 1830), "old pods must trust what is served");

        // A pod injected while both were published trusts the certificates of both.
        let (switched, changed) = advance(Some(staged.clone()), 2450);
        assert!(changed);
        assert_eq!((switched.authorities.len(), switched.retired.len()), (1, 1));
        assert!(trusted(&staged.bundle(), &switched, 2450));
        assert!(!trusted(&first.bundle(), &switched, 2450));

        // The retired authority leaves the bundle when it expires, and the next one is staged in time.
        let (cleaned, _) = advance(Some(switched), 3700);
        assert!(cleaned.retired.is_empty());
        assert_eq!(cleaned.authorities.len(), 2);
    }

    #[test]
    fn an_operator_that_slept_through_every_date_starts_again() {
        let (material, _) = advance(None, 0);
        let (fresh, changed) = advance(Some(material.clone()), 4000);
        assert!(changed && fresh.bundle() != material.bundle());
        assert!(trusted(&fresh.bundle(), &fresh, 4000));

        // Two thirds are over and nothing was staged: the new authority is published first and signs later.
        let (late, _) = advance(Some(material.clone()), 3000);
        assert_eq!(late.authorities.len(), 2);
        assert!(trusted(&material.bundle(), &late, 3000));
    }

    #[test]
    fn clocks_that_differ_by_minutes_agree_on_what_is_due() {
        let (names, minutes) = (serving_names("sealane-system"), Duration::minutes);
        let at = |held, after: Duration| Material::advance(held, &names, START + after).unwrap();
        // One that is ahead makes it, for clients that are behind, and the other way round.
        for (made, used) in [(minutes(5), minutes(-5)), (minutes(-5), minutes(5))] {
            let (material, _) = at(None, made);
            assert!(trusted_after(&material.bundle(), &material, used));
            let (same, changed) = at(Some(material.clone()), used);
            assert!(!changed && same.leaf.certificate == material.leaf.certificate);
        }
        // What one that is ahead has replaced, one that is behind does not replace again.
        let (material, _) = at(None, Duration::ZERO);
        for due in [Duration::days(60), Duration::days(1830), Duration::days(2450)] {
            let (replaced, changed) = at(Some(material.clone()), due + minutes(5));
            assert!(changed, "{due}");
            let (same, changed) = at(Some(replaced.clone()), due - minutes(5));
            assert!(!changed && same.bundle() == replaced.bundle(), "{due}");
        }
    }

    #[test]
    fn it_survives_the_secret_and_never_shows_keys() {
        let (material, _) = advance(None, 0);
        let json = serde_json::to_vec(&material).unwrap();
        let (read, changed) = advance(Some(serde_json::from_slice(&json).unwrap()), 1);
        assert!(!changed && trusted(&read.bundle(), &read, 1));
        assert!(!format!("{material:?}").contains("PRIVATE KEY"));
    }
}
