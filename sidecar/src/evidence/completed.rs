//! A platform whose host hands its guests no certificates: the one that a report needs comes from collateral.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use sealane_attestation::{Format, vcek_ids};

use super::provider::{Provider, ProviderError, Quote, QuoteRequest};
use crate::collateral::CollateralKeeper;

/// Quotes as `provider` does, with certificates where it gives none.
#[derive(Debug)]
pub(crate) struct Completed {
    provider: Arc<dyn Provider>,
    collateral: Arc<CollateralKeeper>,
}

impl Completed {
    #[must_use]
    pub(crate) fn new(provider: Arc<dyn Provider>, collateral: Arc<CollateralKeeper>) -> Self {
        Self { provider, collateral }
    }
}

impl Provider for Completed {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        self.provider.format()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        async move {
            let mut quote = self.provider.quote(request).await?;
            if !quote.certificates.is_empty() || self.provider.format().await? != Format::SevSnp {
                return Ok(quote);
            }
            let certificate = self.collateral.vcek(&quote.report).await;
            // Peers verify it under the pinned roots, whoever it comes from.
            quote.certificates = vec![certificate.ok_or_else(|| missing(&quote.report))?];
            Ok(quote)
        }
        .boxed()
    }
}

fn missing(report: &[u8]) -> ProviderError {
    match vcek_ids(report).first() {
        Some(id) => ProviderError::CertificateMissing { chip: id.chip.to_string() },
        None => ProviderError::Malformed(
            "the host gave no certificate, and the report names no chip whose certificate could be found",
        ),
    }
}

#[cfg(test)]
mod tests {
    use sealane_attestation::bundle::Bundle;
    use sealane_attestation::{Anchor, Collateral, Piece, TdxRoot, VendorRoots};
    use sealane_policy::SigningKey;
    use sealane_simulated::forge::{Authority, Recipe};
    use sealane_simulated::{Material, Platform};
    use sealane_types::{Digest, Product, Reason, UnixSeconds};

    use super::*;
    use crate::metrics::Metrics;
    use crate::session::clock::Clock;

    #[derive(Debug)]
    struct Bare(Platform, Format);

    impl Provider for Bare {
        fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
            std::future::ready(Ok(self.1)).boxed()
        }

        fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
            let report = self.0.quote(request.report_data).unwrap().report;
            std::future::ready(Ok(Quote { report, certificates: vec![], workload: None })).boxed()
        }
    }

    const REQUEST: QuoteRequest = QuoteRequest {
        report_data: [1; 64],
        tree_root: [2; 32],
        own_static: [3; 32],
        policy: Digest::new([4; 32]),
        trust: Digest::new([4; 32]),
        leaves: 1,
    };

    fn chip() -> Material {
        let recipe = Recipe { marked: false, ..Recipe::new(Product::Genoa).unwrap() };
        Authority::generate().unwrap().issue(&recipe).unwrap()
    }

    fn keeper(chip: &Material) -> Arc<CollateralKeeper> {
        let [_, ask, ark] = chip.certificates();
        let anchors = Collateral::empty().with_anchor(Anchor::new(ark, ask).unwrap());
        let roots = VendorRoots::new(anchors, TdxRoot::intel());
        let metrics = Metrics::new(UnixSeconds(0)).collateral;
        Arc::new(CollateralKeeper::new(roots, Arc::new(Clock::new()), None, metrics))
    }

    #[tokio::test]
    async fn a_certificate_that_the_host_keeps_back_comes_from_a_bundle() {
        let chip = chip();
        let (keeper, owner) = (keeper(&chip), SigningKey::from_seed(&[7; 32]).unwrap());
        let bare = || Arc::new(Bare(Platform::new(chip.clone(), None).unwrap(), Format::SevSnp));
        let completed = Completed::new(bare(), Arc::clone(&keeper));
        let refused = completed.quote(REQUEST).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::CollateralMissing, "{refused}");
        assert!(refused.to_string().contains(&chip.chip().id.to_string()), "{refused}");
        let [vcek, ..] = chip.certificates();
        let bundle = Bundle {
            issued: Clock::new().unix(),
            min_tcb_evaluation: None,
            pieces: vec![Piece::Vcek(vcek.to_vec())],
        };
        keeper.adopt(&bundle.sign(&owner).unwrap(), &[owner.public_key()].into()).unwrap();
        let quote = completed.quote(REQUEST).await.unwrap();
        assert_eq!(quote.certificates, [vcek.to_vec()]);
    }

    #[tokio::test]
    async fn other_platforms_bring_what_they_need() {
        let chip = chip();
        let bare = Bare(Platform::new(chip.clone(), None).unwrap(), Format::Tdx);
        let completed = Completed::new(Arc::new(bare), keeper(&chip));
        assert!(completed.quote(REQUEST).await.unwrap().certificates.is_empty());
    }
}
