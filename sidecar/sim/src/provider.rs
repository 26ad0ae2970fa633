//! The simulated platform as a provider of evidence.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use sealane_sidecar::config::initdata::Initdata;
use sealane_sidecar::evidence::{Format, Provider, ProviderError, ProviderInput, Quote, QuoteRequest};
use sealane_simulated::{Guest, Installation, Request};
use sealane_types::SimulatedForm;

#[derive(Debug)]
struct Simulated(Guest);

/// Opens the platform whose material the environment holds, in the form that it names.
pub(crate) fn open(input: &ProviderInput) -> Result<Arc<dyn Provider>, ProviderError> {
    const WHAT: &str = "SEALANE_SIMULATED_PLATFORM";
    let text = input.simulated.as_deref().ok_or(ProviderError::MaterialMissing { what: WHAT })?;
    let guest = Installation::from_json(text)
        .and_then(|installation| {
            Guest::new(&installation, input.form, input.initdata.as_ref().map(Initdata::measured))
        })
        .map_err(|source| ProviderError::MaterialMalformed { what: WHAT, source: Box::new(source) })?;
    Ok(Arc::new(Simulated(guest)))
}

impl Provider for Simulated {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        let format = match self.0.form() {
            SimulatedForm::SevSnp => Format::SimulatedSevSnp,
            SimulatedForm::Tdx => Format::SimulatedTdx,
            SimulatedForm::Nitro => Format::SimulatedNitro,
        };
        std::future::ready(Ok(format)).boxed()
    }

    /// A signature or two, a fraction of a millisecond: nothing to wait for.
    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        let QuoteRequest { report_data, tree_root, own_static, .. } = request;
        let quote = self.0.quote(&Request { report_data, tree_root, own_static });
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

    const REQUEST: QuoteRequest = QuoteRequest {
        report_data: [9; 64],
        tree_root: [0; 32],
        own_static: [0; 32],
        policy: Digest::new([0; 32]),
        trust: Digest::new([0; 32]),
        leaves: 1,
    };

    #[test]
    fn quotes_what_it_is_asked_for_in_every_form() {
        let simulated = Some(Installation::generate().unwrap().to_json().unwrap());
        for (form, format) in [
            (SimulatedForm::SevSnp, Format::SimulatedSevSnp),
            (SimulatedForm::Tdx, Format::SimulatedTdx),
            (SimulatedForm::Nitro, Format::SimulatedNitro),
        ] {
            let initdata = Some(Initdata::read(b"sealane simulated initdata\n").unwrap());
            let provider = open(&ProviderInput {
                simulated: simulated.clone(),
                form,
                initdata,
                ..ProviderInput::default()
            })
            .unwrap();
            assert_eq!(provider.format().now_or_never().unwrap().unwrap(), format);
            let quote = provider.quote(REQUEST).now_or_never().unwrap().unwrap();
            assert!(quote.report.windows(64).any(|window| window == REQUEST.report_data), "{form}");
        }
    }

    #[test]
    fn no_or_other_material_is_an_error_that_names_the_variable() {
        let missing = open(&ProviderInput::default()).unwrap_err();
        assert!(missing.to_string().contains("SEALANE_SIMULATED_PLATFORM"), "{missing}");
        let other = ProviderInput { simulated: Some("{}".to_owned()), ..ProviderInput::default() };
        let malformed = open(&other).unwrap_err();
        assert!(malformed.to_string().contains("SEALANE_SIMULATED_PLATFORM"), "{malformed}");
    }
}
