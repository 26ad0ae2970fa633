//! Whether whoever answers is the kubelet.
//!
//! Most kubelets serve under a certificate that they signed themselves, and nobody on the node can check it without the
//! kubelet's own folder of keys, which the agent must not see. On loopback the port itself tells: it is the kubelet's
//! while the kubelet runs, and everything on this node's loopback is inside the same TEE. An authority, where given, is
//! always asked.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{KubeletAddress, KubeletError};

/// How to speak TLS to the kubelet, and what it is called there.
pub(super) fn config(at: &KubeletAddress) -> Result<(ClientConfig, ServerName<'static>), KubeletError> {
    let unusable = |error: rustls::Error| KubeletError::Authority(Box::new(error));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    if let Some((pem, name)) = &at.authority {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| KubeletError::Authority(Box::new(error)))?;
            roots.add(certificate).map_err(unusable)?;
        }
        if roots.is_empty() {
            return Err(KubeletError::Authority("no certificate in it".into()));
        }
        return Ok((builder.with_root_certificates(roots).with_no_client_auth(), name.clone()));
    }
    if !at.address.ip().is_loopback() {
        return Err(KubeletError::Unverified(at.address));
    }
    let verifier = Arc::new(OwnLoopback(provider));
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok((config, ServerName::IpAddress(at.address.ip().into())))
}

/// Takes any certificate, for the one place where it adds nothing.
#[derive(Debug)]
struct OwnLoopback(Arc<CryptoProvider>);

impl ServerCertVerifier for OwnLoopback {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
