//! The strongest real platform that is there.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use sealane_attestation::Format;
use sealane_types::Platform;
use tokio::sync::OnceCell;

use super::coco::{self, CocoAgent};
use super::configfs::ConfigfsTsm;
use super::node_agent::{self, NodeAgent};
use super::nsm::Nsm;
use super::sev_guest::SevGuest;
use crate::evidence::provider::{Provider, ProviderError, Quote, QuoteRequest};

/// Longest wait for a candidate's word on what it is. An agent's port may be anybody's, and whoever has it may never say a
/// word; two of them leave most of the time that a quote may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks until it has found one, then stays with it: evidence that changes its platform between two handshakes
/// would only look like an attack. Simulation is not among what it looks for.
#[derive(Debug)]
pub(super) struct Auto {
    candidates: Vec<Arc<dyn Provider>>,
    patience: Duration,
    found: OnceCell<(Arc<dyn Provider>, Format)>,
}

impl Auto {
    /// An enclave first, then a pod that is a confidential VM of its own. A node agent comes before the devices that
    /// only privileged pods see: where there is one, they are the node's, and it states the workload besides.
    pub(super) fn new() -> Self {
        Self::among(vec![
            Arc::new(Nsm::default()),
            Arc::new(CocoAgent::new(coco::AGENT)),
            Arc::new(NodeAgent::new(node_agent::SOCKET)),
            Arc::new(ConfigfsTsm::default()),
            Arc::new(SevGuest::default()),
        ])
    }

    fn among(candidates: Vec<Arc<dyn Provider>>) -> Self {
        Self { candidates, patience: PATIENCE, found: OnceCell::new() }
    }

    async fn found(&self) -> Result<&(Arc<dyn Provider>, Format), ProviderError> {
        self.found
            .get_or_try_init(|| async {
                for candidate in &self.candidates {
                    match tokio::time::timeout(self.patience, candidate.format()).await {
                        // A node agent may run on a simulated platform.
                        Ok(Ok(format)) if format.platform() == Platform::Simulated => {
                            tracing::warn!("{candidate:?} is a simulation, which Auto never means");
                        }
                        Ok(Ok(format)) => {
                            tracing::info!(platform = %format.platform(), "evidence comes from {candidate:?}");
                            return Ok((Arc::clone(candidate), format));
                        }
                        Ok(Err(error)) => tracing::debug!("no evidence from {candidate:?}: {error}"),
                        Err(_) => {
                            let waited = self.patience;
                            tracing::info!(
                                "no evidence from {candidate:?}, which said nothing for {waited:?}; a Peer may name its provider"
                            );
                        }
                    }
                }
                Err(ProviderError::Unavailable)
            })
            .await
    }
}

impl Provider for Auto {
    fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
        async { self.found().await.map(|(_, format)| *format) }.boxed()
    }

    fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
        async move {
            let (provider, _) = self.found().await?;
            provider.quote(request).await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use sealane_types::Digest;

    use super::*;

    #[derive(Debug)]
    struct Device {
        there: AtomicBool,
        format: Format,
    }

    impl Provider for Device {
        fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
            let there = self.there.load(Ordering::SeqCst);
            async move { if there { Ok(self.format) } else { Err(ProviderError::Unavailable) } }.boxed()
        }

        fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
            async move {
                Ok(Quote { report: request.report_data.to_vec(), certificates: Vec::new(), workload: None })
            }
            .boxed()
        }
    }

    fn device(there: bool, format: Format) -> Arc<Device> {
        Arc::new(Device { there: AtomicBool::new(there), format })
    }

    const REQUEST: QuoteRequest = QuoteRequest {
        report_data: [1; 64],
        tree_root: [2; 32],
        own_static: [3; 32],
        policy: Digest::new([0; 32]),
        trust: Digest::new([0; 32]),
        leaves: 1,
    };

    #[tokio::test]
    async fn the_first_that_is_there_is_kept() {
        let (enclave, guest) = (device(false, Format::Nitro), device(false, Format::Tdx));
        let candidates: Vec<Arc<dyn Provider>> = vec![enclave.clone(), guest.clone()];
        let auto = Auto::among(candidates);
        assert!(matches!(auto.quote(REQUEST).await, Err(ProviderError::Unavailable)));
        guest.there.store(true, Ordering::SeqCst);
        assert_eq!(auto.format().await.unwrap(), Format::Tdx);
        enclave.there.store(true, Ordering::SeqCst);
        assert_eq!(auto.format().await.unwrap(), Format::Tdx, "a platform does not change");
        assert_eq!(auto.quote(REQUEST).await.unwrap().report, [1; 64]);
    }

    #[derive(Debug)]
    struct Silent;

    impl Provider for Silent {
        fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
            std::future::pending().boxed()
        }

        fn quote(&self, _: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
            std::future::pending().boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_says_nothing_is_passed_over() {
        let candidates: Vec<Arc<dyn Provider>> = vec![Arc::new(Silent), device(true, Format::Tdx)];
        let auto = Auto { patience: Duration::from_millis(20), ..Auto::among(candidates) };
        assert_eq!(auto.quote(REQUEST).await.unwrap().report, [1; 64]);
    }

    #[tokio::test]
    async fn simulation_is_never_found() {
        let simulated = device(true, Format::SimulatedSevSnp);
        let auto = Auto::among(vec![simulated, device(true, Format::Tdx)]);
        assert_eq!(auto.format().await.unwrap(), Format::Tdx);
        let auto = Auto::new();
        for candidate in &auto.candidates {
            if let Ok(format) = candidate.format().await {
                assert_ne!(format.platform(), sealane_types::Platform::Simulated);
            }
        }
    }
}
