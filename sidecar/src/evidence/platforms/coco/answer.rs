//! The agent's JSON, turned back into the bytes that the platform signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sealane_attestation::Format;
use sealane_attestation::limits::{CERTIFICATE_BYTES_MAX, CERTIFICATES_MAX, REPORT_BYTES_MAX};
use serde::Deserialize;
use sev::firmware::guest::AttestationReport;
use sev::parser::ByteParser as _;

use crate::evidence::provider::{ProviderError, Quote};

/// What guest-components send: SEV-SNP as the `sev` crate writes a parsed report, TDX as the quote itself.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    SevSnp { attestation_report: Box<AttestationReport>, cert_chain: Option<Vec<Certificate>> },
    Tdx { quote: String },
}

#[derive(Deserialize)]
struct Certificate {
    cert_type: String,
    data: Vec<u8>,
}

pub(super) fn read(body: &[u8]) -> Result<(Format, Quote), ProviderError> {
    match serde_json::from_slice(body) {
        Ok(Answer::SevSnp { attestation_report, cert_chain }) => {
            // Parsing kept every signed field; a report of a layout that it does not know fails its signature.
            let report = attestation_report
                .to_bytes()
                .map_err(|_| ProviderError::Malformed("the CoCo agent sent no SEV-SNP report"))?;
            let certificates = chain(cert_chain.unwrap_or_default());
            Ok((Format::SevSnp, Quote { report: report.to_vec(), certificates, workload: None }))
        }
        Ok(Answer::Tdx { quote }) if quote.len() <= 2 * REPORT_BYTES_MAX => {
            let report = STANDARD.decode(quote);
            let report = report.map_err(|_| ProviderError::Malformed("the CoCo agent sent no TDX quote"))?;
            Ok((Format::Tdx, Quote { report, certificates: Vec::new(), workload: None }))
        }
        Ok(Answer::Tdx { .. }) | Err(_) => Err(ProviderError::Malformed(
            "the CoCo agent's evidence is of a platform or release that Sealane does not know",
        )),
    }
}

/// Signing certificate first, then its issuers; what is too large for any verifier is left out.
fn chain(sent: Vec<Certificate>) -> Vec<Vec<u8>> {
    const ORDER: [&str; 4] = ["VCEK", "VLEK", "ASK", "ARK"];
    let mut chain: Vec<(usize, Vec<u8>)> = sent
        .into_iter()
        .take(CERTIFICATES_MAX)
        .filter(|certificate| certificate.data.len() <= CERTIFICATE_BYTES_MAX)
        .filter_map(|certificate| {
            let place = ORDER.iter().position(|name| *name == certificate.cert_type)?;
            Some((place, certificate.data))
        })
        .collect();
    chain.sort_by_key(|(place, _)| *place);
    // Issuers alone would be taken for the signing certificate.
    let signed = chain.first().is_some_and(|(place, _)| *place < 2);
    if signed { chain.into_iter().map(|(_, data)| data).collect() } else { Vec::new() }
}
