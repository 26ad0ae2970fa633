//! Hands the current serving certificate to each TLS handshake.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use super::{CertificateError, Material};

/// The certificate in use; handshakes fail while there is none.
#[derive(Debug, Default)]
pub struct Resolver {
    current: RwLock<Option<Current>>,
}

#[derive(Debug, Clone)]
struct Current {
    certified: Arc<CertifiedKey>,
    expires: i64,
}

impl Resolver {
    /// Serves with `material` from the next handshake on.
    ///
    /// # Errors
    /// [`CertificateError`] when the material cannot be loaded; what was in use stays in use.
    pub fn install(&self, material: &Material) -> Result<(), CertificateError> {
        let certificate = CertificateDer::from_pem_slice(material.leaf.certificate.as_bytes())
            .map_err(|_| CertificateError::Load("serving certificate"))?;
        if self.serves(&certificate) {
            return Ok(());
        }
        let key = PrivateKeyDer::from_pem_slice(material.leaf.key.as_bytes())
            .map_err(|_| CertificateError::Load("serving key"))?;
        let certified = CertifiedKey::from_der(vec![certificate], key, &aws_lc_rs::default_provider())
            .map_err(CertificateError::Mismatch)?;
        let current = Current { certified: Arc::new(certified), expires: material.leaf.expires() };
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(current);
        Ok(())
    }

    /// Whether a handshake can succeed.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.current().is_some()
    }

    /// When the certificate in use expires, in seconds since 1970.
    #[must_use]
    pub fn expires(&self) -> Option<i64> {
        self.current().map(|current| current.expires)
    }

    fn serves(&self, certificate: &CertificateDer<'_>) -> bool {
        self.current().is_some_and(|current| current.certified.cert.first() == Some(certificate))
    }

    fn current(&self) -> Option<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A TLS server that speaks `protocol` (ALPN) with the current certificate, for everybody.
    ///
    /// # Errors
    /// [`CertificateError`] when the cryptography cannot be set up.
    pub fn server(self: &Arc<Self>, protocol: &[u8]) -> Result<Arc<ServerConfig>, CertificateError> {
        self.server_for(WebPkiClientVerifier::no_client_auth(), protocol)
    }

    /// The same, for `clients`.
    ///
    /// # Errors
    /// [`CertificateError`] when the cryptography cannot be set up.
    pub fn server_for(
        self: &Arc<Self>,
        clients: Arc<dyn ClientCertVerifier>,
        protocol: &[u8],
    ) -> Result<Arc<ServerConfig>, CertificateError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(CertificateError::Mismatch)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current().map(|current| current.certified)
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    #[test]
    fn a_new_certificate_replaces_the_old_one_without_a_restart() {
        let now = OffsetDateTime::now_utc();
        let resolver = Resolver::default();
        assert!(!resolver.is_loaded());
        let (first, _) = Material::advance(None, &["a.svc".to_owned()], now).unwrap();
        resolver.install(&first).unwrap();
        let held = resolver.current().unwrap();
        resolver.install(&first).unwrap();
        let again = resolver.current().unwrap();
        assert!(Arc::ptr_eq(&held.certified, &again.certified), "nothing changed, nothing is loaded");

        let (second, _) = Material::advance(Some(first), &["b.svc".to_owned()], now).unwrap();
        resolver.install(&second).unwrap();
        assert_ne!(held.certified.cert, resolver.current().unwrap().certified.cert);
        assert_eq!(resolver.expires(), Some(second.leaf.expires()));
    }
}
