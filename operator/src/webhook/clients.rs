//! Who may ask the webhooks: everybody who reaches them, unless the chart names the API servers.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

/// A range of addresses as it is written: with its length, or one address.
///
/// # Errors
/// The text is neither.
pub fn parse_sources(text: &str) -> Result<IpNet, String> {
    let range = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    range.map_err(|_| format!("`{text}` is no address and no range of them such as 10.0.0.0/28"))
}

/// The authorities of client certificates.
#[derive(Debug, Clone)]
pub struct ClientAuthorities(Arc<RootCertStore>);

impl ClientAuthorities {
    /// From PEM.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(pem: &str) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| format!("no certificates in PEM: {error}"))?;
            roots.add(certificate).map_err(|error| format!("not a certificate of an authority: {error}"))?;
        }
        if roots.is_empty() {
            return Err("no certificate in PEM".to_owned());
        }
        Ok(Self(Arc::new(roots)))
    }

    /// Lets in whoever has a certificate of these authorities.
    ///
    /// # Errors
    /// rustls's own.
    pub fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, rustls::server::VerifierBuilderError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.0), provider).build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_addresses_or_ranges() {
        for (text, expected) in
            [("10.0.0.1", "10.0.0.1/32"), ("10.0.0.0/28", "10.0.0.0/28"), ("fd00::/8", "fd00::/8")]
        {
            assert_eq!(parse_sources(text).unwrap().to_string(), expected);
        }
        for wrong in ["", "10.0.0.0/33", "api.example", "10.0.0.0/8/8"] {
            assert!(parse_sources(wrong).unwrap_err().contains("10.0.0.0/28"), "{wrong}");
        }
    }

    #[test]
    fn authorities_have_to_be_there() {
        for wrong in ["", "PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            ClientAuthorities::parse(wrong).unwrap_err();
        }
    }
}
