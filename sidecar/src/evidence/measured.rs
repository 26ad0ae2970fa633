//! Whether this pod's guest was started with the initdata that the control plane tells of.

use std::time::Duration;

use sealane_attestation::binding::{ReportSubject, report_data};
use sealane_attestation::measures_initdata;
use sealane_types::{Digest, PodIdentity};

use super::own::Appraisal;
use super::prover::PolicyBinding;
use crate::config::initdata::Initdata;

/// A platform that gave nothing is asked again after this.
const RETRY_AFTER: Duration = Duration::from_secs(15);

/// Who asks, and what.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) initdata: Initdata,
    pub(crate) pod: PodIdentity,
    /// Who asks for own evidence, and by what it is looked at.
    pub(crate) appraisal: Appraisal,
}

impl Measured {
    /// Has the roots in the initdata count once own evidence shows that it was measured.
    pub(crate) async fn prove(mut self) {
        // Before there is a configuration nobody has chosen a platform.
        if self.appraisal.peer.changed().await.is_err() {
            return;
        }
        loop {
            self.appraisal.collateral.mark_unchanged();
            self.appraisal.peer.mark_unchanged();
            match self.look().await {
                Ok(()) => return self.appraisal.policy.roots_proven(),
                Err(why) => self.appraisal.policy.roots_unproven(&why),
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_AFTER) => {}
                changed = self.appraisal.peer.changed() => if changed.is_err() { return },
                changed = self.appraisal.collateral.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn look(&self) -> Result<(), String> {
        let Appraisal { own_static, clock, prover, judge, .. } = &self.appraisal;
        let leaf = self.appraisal.leaf();
        // Nothing is stated yet, and nobody is shown this evidence.
        let nothing = Digest::new([0; 32]);
        let binding = PolicyBinding { policy: nothing, trust: nothing };
        let message = prover.prove(leaf, binding).await.map_err(|missing| missing.to_string())?;
        if message.workload.is_some() {
            return Err("the evidence is that of a node, which measures no pod's initdata".to_owned());
        }
        let subject = ReportSubject {
            platform: message.evidence.platform(),
            pod: &self.pod,
            own_static,
            policy: &nothing,
            trust: &nothing,
            workload: None,
        };
        let (leaves, root) = (message.path.leaves(), message.path.root(&leaf));
        let expected = report_data(&subject, leaves, &root);
        let inspected = judge.inspect_own(message.evidence, clock.unix()).await;
        let claims = inspected.map_err(|rejection| rejection.to_string())?;
        if claims.report_data() != Some(&expected) {
            return Err("the evidence is not of this process".to_owned());
        }
        if !measures_initdata(&claims, self.initdata.measured()) {
            let message = "the guest was started with other initdata than the pod's annotation holds, or its `algorithm` is not sha256 (SEV-SNP) or sha384 (TDX)";
            return Err(message.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use sealane_attestation::{Format, StatedWorkload, VendorRoots};
    use sealane_fixtures::keys::MATERIAL;
    use sealane_simulated::Platform;
    use sealane_types::{Namespace, RootSource, UnixSeconds};

    use tokio::sync::watch;

    use super::*;
    use crate::collateral::CollateralKeeper;
    use crate::config::Anchors;
    use crate::evidence::judge::Judge;
    use crate::evidence::prover::Prover;
    use crate::evidence::provider::{Provider, ProviderError, Quote, QuoteRequest};
    use crate::metrics::Metrics;
    use crate::policy::PolicyKeeper;
    use crate::session::clock::Clock;

    const INITDATA: &[u8] = b"version = \"0.1.0\"\n";

    /// A guest that was started with [`INITDATA`].
    #[derive(Debug)]
    struct Started {
        of_a_node: bool,
        of_another: bool,
    }

    impl Provider for Started {
        fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
            async { Ok(Format::SimulatedSevSnp) }.boxed()
        }

        fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
            let data = if self.of_another { [7; 64] } else { request.report_data };
            let quote = Platform::new(MATERIAL.clone(), Some(INITDATA)).unwrap().quote(data).unwrap();
            let sealane_simulated::Quote { report, certificates } = quote;
            let images = [("app".to_owned(), Digest::new([1; 32]))].into();
            let workload = StatedWorkload::new("embedder".to_owned(), images).unwrap();
            let workload = self.of_a_node.then_some(workload);
            std::future::ready(Ok(Quote { report, certificates, workload })).boxed()
        }
    }

    fn measured(annotation: &[u8], guest: Started) -> Measured {
        let (clock, metrics) = (Arc::new(Clock::new()), Metrics::new(UnixSeconds(0)));
        let anchors = Anchors { roots: vec![], source: RootSource::Initdata };
        let namespace = Namespace::new("demo").unwrap();
        let policy = Arc::new(PolicyKeeper::new(Arc::clone(&clock), namespace, anchors, true));
        let pod = PodIdentity::new("demo", "embedder-0", "e").unwrap();
        let prover = Prover::start(pod.clone(), [7; 32], metrics.proofs.clone());
        prover.select(Ok(Arc::new(guest)));
        let roots = VendorRoots::pinned().allowing_simulated();
        let collateral = CollateralKeeper::new(roots, Arc::clone(&clock), None, metrics.collateral.clone());
        let collateral = Arc::new(collateral);
        Measured {
            initdata: Initdata::read(annotation).unwrap(),
            pod,
            appraisal: Appraisal {
                own_static: [7; 32],
                clock,
                policy,
                prover,
                judge: Arc::new(Judge::new(Arc::clone(&collateral), metrics.proofs)),
                peer: watch::channel(None).1,
                collateral: collateral.subscribe(),
            },
        }
    }

    #[tokio::test]
    async fn initdata_counts_if_own_evidence_shows_it_and_not_otherwise() {
        let honest = || Started { of_a_node: false, of_another: false };
        measured(INITDATA, honest()).look().await.unwrap();
        for (annotation, guest, why) in [
            (&b"version = \"0.1.1\"\n"[..], honest(), "other initdata"),
            (INITDATA, Started { of_a_node: true, ..honest() }, "that of a node"),
            (INITDATA, Started { of_another: true, ..honest() }, "not of this process"),
        ] {
            let refused = measured(annotation, guest).look().await.unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[tokio::test]
    async fn without_a_platform_initdata_counts_for_nothing() {
        let measured = measured(INITDATA, Started { of_a_node: false, of_another: false });
        measured.appraisal.prover.select(Err((&ProviderError::Unavailable).into()));
        assert!(measured.look().await.unwrap_err().contains("no attestation platform"));
    }
}
