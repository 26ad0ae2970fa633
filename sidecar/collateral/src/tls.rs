//! TLS towards services. What they hand out is signed by their vendors, so that TLS only keeps others from withholding it
//! unnoticed.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::error::SourceError;

/// Trusts `authorities` (PEM), or else those of the system.
pub(crate) fn config(authorities: Option<&str>) -> Result<Arc<ClientConfig>, SourceError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(|_| SourceError::Authorities)?;
                roots.add(certificate).map_err(|_| SourceError::Authorities)?;
            }
            if roots.is_empty() {
                return Err(SourceError::Authorities);
            }
        }
        None => {
            // A certificate that cannot be read is only missed.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(SourceError::NoAuthorities);
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(SourceError::Tls)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
