//! The simulated platform as a provider of evidence.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use sealane_sidecar::evidence::{Format, Provider, ProviderError, ProviderInput, Quote, QuoteRequest};

#[derive(Debug)]
struct Simulated(sealane_simulated::Platform);

/// Opens the platform whose material the environment holds.
pub(crate) fn open(input: &ProviderInput) -> Result<Arc<dyn Provider>, ProviderError> {
    const WHAT: &str = "SEALANE_SIMULATED_PLATFORM";
    let text = input.simulated.as_deref().ok_or(ProviderError::MaterialMissing { what: WHAT })?;
    let platform = sealane_simulated::Material::from_json(text)
        .and_then(|material| sealane_simulated::Platform::new(material, input.initdata.as_deref()))
        .map_err(|source| ProviderError::MaterialMalformed { what: WHAT, source: Box::new(source) })?;
    Ok(Arc::new(Simulated(platform)))
}

impl Provider for Simulated {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        std::future::ready(Ok(Format::SimulatedSevSnp)).boxed()
    }

    /// One signature, a fraction of a millisecond: nothing to wait for.
    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        let quote = self.0.quote(request.report_data);
        let quote = quote
            .map(|quote| Quote { report: quote.report, certificates: quote.certificates, workload: None })
            .map_err(|source| ProviderError::Refused(Box::new(source)));
        std::future::ready(quote).boxed()
    }
}

#[cfg(test)]
mod tests {
    use sealane_types::Digest;

    use super::*;

    #[test]
    fn quotes_what_it_is_asked_for() {
        let material = sealane_simulated::Material::generate().unwrap();
        let input = ProviderInput {
            simulated: Some(material.to_json().unwrap()),
            initdata: Some(b"sealane simulated initdata\n".to_vec()),
            ..ProviderInput::default()
        };
        let provider = open(&input).unwrap();
        assert_eq!(provider.format().now_or_never().unwrap().unwrap(), Format::SimulatedSevSnp);
        let quote = provider
            .quote(QuoteRequest {
                report_data: [9; 64],
                tree_root: [0; 32],
                own_static: [0; 32],
                policy: Digest::new([0; 32]),
                leaves: 1,
            })
            .now_or_never()
            .unwrap()
            .unwrap();
        assert_eq!(quote.report[0x50..0x90], [9; 64]);
        let host_data = sealane_simulated::host_data(input.initdata.as_deref());
        assert_eq!(quote.report[0xc0..0xe0], *host_data.as_bytes());
    }

    #[test]
    fn no_or_other_material_is_an_error_that_names_the_variable() {
        let missing = open(&ProviderInput::default()).unwrap_err();
        assert!(missing.to_string().contains("SEALANE_SIMULATED_PLATFORM"), "{missing}");
        let malformed = open(&ProviderInput { simulated: Some("{}".to_owned()), ..ProviderInput::default() })
            .unwrap_err();
        assert!(malformed.to_string().contains("SEALANE_SIMULATED_PLATFORM"), "{malformed}");
    }
}
