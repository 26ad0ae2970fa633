//! Turns waiting handshakes into quotes: one quote at a time, and each serves everyone who was waiting.
//!
//! The report data is composed here from this process's own identity, static key and policy digest, and from leaves
//! that the protocol computed. No caller ever supplies raw bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sealane_attestation::binding::{Leaf, ReportSubject, Tree, report_data};
use sealane_attestation::limits::LEAVES_MAX;
use sealane_attestation::{Evidence, EvidenceMessage, StatedWorkload};
use sealane_types::{Digest, PodIdentity, Reason};
use tokio::sync::{mpsc, oneshot, watch};

use super::provider::{Provider, ProviderError, Quote, QuoteRequest};
use crate::metrics::Proofs;
use crate::metrics::labels::OutcomeLabel;

/// Proofs that wait at most; a caller beyond that waits for room.
const WAITING_MAX: usize = 1024;
/// How long a quote that is not urgent waits for others. Connections of a pair of replicas are attested again at one moment,
/// which is not quite the same at both ends.
const COMPANY: Duration = Duration::from_millis(100);
/// Longest time that a platform may take.
const QUOTE_DEADLINE: Duration = Duration::from_secs(8);

/// There is no evidence, for the peer's ears (the reason) and for ours (the message).
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(crate) struct NoEvidence {
    pub(crate) reason: Reason,
    message: Arc<str>,
}

impl From<&ProviderError> for NoEvidence {
    fn from(error: &ProviderError) -> Self {
        let mut message = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            message = format!("{message}: {cause}");
            source = cause.source();
        }
        Self { reason: error.reason(), message: message.into() }
    }
}

/// The platform in use, or why there is none. Configuration chooses it and may change it.
pub(crate) type Source = Result<Arc<dyn Provider>, NoEvidence>;

/// What evidence is bound to besides its handshake: digests of the policy and of the trust configuration that were stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PolicyBinding {
    pub(crate) policy: Digest,
    pub(crate) trust: Digest,
}

#[derive(Debug)]
struct Request {
    leaf: Leaf,
    binding: PolicyBinding,
    /// Somebody waits for the connection that it opens.
    urgent: bool,
    answer: oneshot::Sender<Result<EvidenceMessage, NoEvidence>>,
}

/// Asks for evidence. Clones share the one quoter.
#[derive(Debug, Clone)]
pub(crate) struct Prover {
    requests: mpsc::Sender<Request>,
    source: Arc<watch::Sender<Source>>,
}

impl Prover {
    /// Starts the quoter, which ends when the last clone is dropped.
    #[must_use]
    pub(crate) fn start(pod: PodIdentity, own_static: [u8; 32], metrics: Proofs) -> Self {
        let (requests, waiting) = mpsc::channel(WAITING_MAX);
        let source = Arc::new(watch::Sender::new(Err(NoEvidence::from(&ProviderError::Unavailable))));
        let source_used = source.subscribe();
        let quoter =
            Quoter { pod, own_static, source: source_used, waiting, later: VecDeque::new(), metrics };
        tokio::spawn(quoter.run());
        Self { requests, source }
    }

    /// Uses another platform from the next quote on.
    pub(crate) fn select(&self, source: Source) {
        drop(self.source.send_replace(source));
    }

    /// Evidence for one handshake.
    ///
    /// # Errors
    /// [`NoEvidence`] when the platform gives none in time.
    pub(crate) async fn prove(
        &self,
        leaf: Leaf,
        binding: PolicyBinding,
    ) -> Result<EvidenceMessage, NoEvidence> {
        self.ask(leaf, binding, true).await
    }

    /// The same for a connection that is attested again: it goes on meanwhile, so the quote waits for those that are about
    /// to be asked for.
    ///
    /// # Errors
    /// As [`Prover::prove`].
    pub(crate) async fn prove_again(
        &self,
        leaf: Leaf,
        binding: PolicyBinding,
    ) -> Result<EvidenceMessage, NoEvidence> {
        self.ask(leaf, binding, false).await
    }

    async fn ask(
        &self,
        leaf: Leaf,
        binding: PolicyBinding,
        urgent: bool,
    ) -> Result<EvidenceMessage, NoEvidence> {
        let (answer, answered) = oneshot::channel();
        let gone = |()| NoEvidence::from(&ProviderError::Unavailable);
        self.requests.send(Request { leaf, binding, urgent, answer }).await.map_err(|_| gone(()))?;
        answered.await.map_err(|_| gone(()))?
    }
}

struct Quoter {
    pod: PodIdentity,
    own_static: [u8; 32],
    source: watch::Receiver<Source>,
    waiting: mpsc::Receiver<Request>,
    /// Requests with another binding than the batch before them.
    later: VecDeque<Request>,
    metrics: Proofs,
}

impl Quoter {
    async fn run(mut self) {
        while let Some(batch) = self.next_batch().await {
            let source = self.source.borrow_and_update().clone();
            let proofs = match source {
                Ok(provider) => self.prove(provider.as_ref(), &batch).await,
                Err(missing) => Err(missing),
            };
            answer(batch, proofs);
        }
    }

    /// Everyone who waits now and has the same binding.
    async fn next_batch(&mut self) -> Option<Vec<Request>> {
        let first = match self.later.pop_front() {
            Some(first) => first,
            None => self.waiting.recv().await?,
        };
        if !first.urgent {
            self.gather().await;
        }
        let binding = first.binding;
        while let Ok(request) = self.waiting.try_recv() {
            self.later.push_back(request);
        }
        let mut batch = vec![first];
        let mut others = VecDeque::new();
        for request in self.later.drain(..) {
            let fits = request.binding == binding && batch.len() < LEAVES_MAX as usize;
            if request.answer.is_closed() {
                // The handshake ended meanwhile.
            } else if fits {
                batch.push(request);
            } else {
                others.push_back(request);
            }
        }
        self.later = others;
        Some(batch)
    }

    /// Lets others come, until one of them is urgent.
    async fn gather(&mut self) {
        let until = tokio::time::Instant::now() + COMPANY;
        while let Ok(Some(request)) = tokio::time::timeout_at(until, self.waiting.recv()).await {
            let urgent = request.urgent;
            self.later.push_back(request);
            if urgent {
                return;
            }
        }
    }

    async fn prove(
        &self,
        provider: &dyn Provider,
        batch: &[Request],
    ) -> Result<Vec<EvidenceMessage>, NoEvidence> {
        let leaves: Vec<Leaf> = batch.iter().map(|request| request.leaf).collect();
        let Some(binding) = batch.first().map(|request| request.binding) else { return Ok(Vec::new()) };
        let refused = |error| NoEvidence::from(&ProviderError::Refused(Box::new(error)));
        let tree = Tree::new(&leaves).map_err(refused)?;
        let began = Instant::now();
        let evidence = tokio::time::timeout(QUOTE_DEADLINE, self.evidence(provider, binding, &tree))
            .await
            .unwrap_or(Err(ProviderError::TimedOut));
        self.count(evidence.is_ok(), began.elapsed(), batch.len());
        let (evidence, workload) = evidence.map_err(|error| NoEvidence::from(&error))?;
        let paths = (0..tree.leaves()).map_while(|index| tree.path(index));
        Ok(paths
            .map(|path| EvidenceMessage {
                pod: self.pod.clone(),
                policy: binding.policy,
                path,
                evidence: evidence.clone(),
                workload: workload.clone(),
            })
            .collect())
    }

    async fn evidence(
        &self,
        provider: &dyn Provider,
        binding: PolicyBinding,
        tree: &Tree,
    ) -> Result<(Evidence, Option<StatedWorkload>), ProviderError> {
        let format = provider.format().await?;
        let PolicyBinding { policy, trust } = binding;
        let subject = ReportSubject {
            platform: format.platform(),
            pod: &self.pod,
            own_static: &self.own_static,
            policy: &policy,
            trust: &trust,
            workload: None,
        };
        let (leaves, tree_root, own_static) = (tree.leaves(), *tree.root(), self.own_static);
        let report_data = report_data(&subject, leaves, &tree_root);
        let request = QuoteRequest { report_data, tree_root, own_static, policy, trust, leaves };
        let Quote { report, certificates, workload } = provider.quote(request).await?;
        Ok((Evidence { format, report, certificates }, workload))
    }

    fn count(&self, made: bool, took: Duration, handshakes: usize) {
        let outcome = if made { "made" } else { "failed" };
        self.metrics.quotes.get_or_create(&OutcomeLabel { outcome }).inc();
        self.metrics.quote_seconds.observe(took.as_secs_f64());
        if made {
            self.metrics.quote_handshakes.observe(handshakes as f64);
        }
    }
}

/// A dropped receiver is a handshake that ended meanwhile: nobody is left to be told.
fn answer(batch: Vec<Request>, proofs: Result<Vec<EvidenceMessage>, NoEvidence>) {
    match proofs {
        Ok(messages) => {
            for (request, message) in batch.into_iter().zip(messages) {
                let _ = request.answer.send(Ok(message));
            }
        }
        Err(missing) => {
            tracing::warn!(reason = %missing.reason, "no evidence of our own: {missing}");
            for request in batch {
                let _ = request.answer.send(Err(missing.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use sealane_attestation::Format;
    use sealane_attestation::binding::{Purpose, Role};
    use sealane_types::{Platform, UnixSeconds};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::metrics::Metrics;

    #[derive(Debug)]
    struct Slow {
        allowed: Semaphore,
        quotes: AtomicUsize,
    }

    impl Provider for Slow {
        fn format(&self) -> BoxFuture<'_, Result<Format, ProviderError>> {
            async { Ok(Format::SimulatedSevSnp) }.boxed()
        }

        fn quote(&self, request: QuoteRequest) -> BoxFuture<'_, Result<Quote, ProviderError>> {
            async move {
                self.allowed.acquire().await.unwrap().forget();
                self.quotes.fetch_add(1, Ordering::Relaxed);
                Ok(Quote { report: request.report_data.to_vec(), certificates: vec![], workload: None })
            }
            .boxed()
        }
    }

    fn leaf(number: u8) -> Leaf {
        Leaf::new(Purpose::Handshake, Role::Initiator, &[number; 32], &[0; 32], &[0; 32], &[0; 32])
    }

    fn binding(policy: u8, trust: u8) -> PolicyBinding {
        PolicyBinding { policy: Digest::new([policy; 32]), trust: Digest::new([trust; 32]) }
    }

    fn data_of(message: &EvidenceMessage, number: u8, binding: PolicyBinding) -> Vec<u8> {
        let subject = ReportSubject {
            platform: Platform::Simulated,
            pod: &message.pod,
            own_static: &[7; 32],
            policy: &binding.policy,
            trust: &binding.trust,
            workload: None,
        };
        report_data(&subject, message.path.leaves(), &message.path.root(&leaf(number))).to_vec()
    }

    #[tokio::test]
    async fn one_quote_serves_everyone_who_waits() {
        let slow = Arc::new(Slow { allowed: Semaphore::new(0), quotes: AtomicUsize::new(0) });
        let pod = PodIdentity::new("demo", "embedder-0", "u").unwrap();
        let prover = Prover::start(pod.clone(), [7; 32], Metrics::new(UnixSeconds(0)).proofs);
        prover.select(Ok(Arc::clone(&slow) as Arc<dyn Provider>));
        let binding = binding(1, 2);
        let proofs: Vec<_> = (0..10)
            .map(|number| {
                let prover = prover.clone();
                tokio::spawn(async move { prover.prove(leaf(number), binding).await.unwrap() })
            })
            .collect();
        tokio::task::yield_now().await;
        slow.allowed.add_permits(2);
        for (number, proof) in proofs.into_iter().enumerate() {
            let message = proof.await.unwrap();
            let data = data_of(&message, number as u8, binding);
            assert_eq!(message.evidence.report, data, "each path leads to the quoted root");
        }
        assert!(slow.quotes.load(Ordering::Relaxed) <= 2);
    }

    #[tokio::test]
    async fn one_quote_is_for_one_policy_and_one_trust_configuration() {
        let slow = Arc::new(Slow { allowed: Semaphore::new(8), quotes: AtomicUsize::new(0) });
        let pod = PodIdentity::new("demo", "embedder-0", "u").unwrap();
        let prover = Prover::start(pod.clone(), [7; 32], Metrics::new(UnixSeconds(0)).proofs);
        prover.select(Ok(Arc::clone(&slow) as Arc<dyn Provider>));
        let proofs = (0..8).map(|number| {
            let (prover, binding) = (prover.clone(), binding(number % 2, number / 2 % 2));
            async move { (binding, prover.prove(leaf(number), binding).await.unwrap()) }
        });
        for (number, (binding, message)) in (0..).zip(futures::future::join_all(proofs).await) {
            let data = data_of(&message, number, binding);
            assert_eq!((message.policy, message.evidence.report), (binding.policy, data), "{number}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn quotes_that_are_not_urgent_wait_for_company() {
        let slow = Arc::new(Slow { allowed: Semaphore::new(8), quotes: AtomicUsize::new(0) });
        let pod = PodIdentity::new("demo", "embedder-0", "u").unwrap();
        let prover = Prover::start(pod, [7; 32], Metrics::new(UnixSeconds(0)).proofs);
        prover.select(Ok(Arc::clone(&slow) as Arc<dyn Provider>));
        let again = |number| prover.prove_again(leaf(number), binding(1, 1));
        let later = async {
            tokio::task::yield_now().await;
            again(1).await
        };
        let (first, second) = tokio::join!(again(0), later);
        assert_eq!(first.unwrap().evidence, second.unwrap().evidence);
        assert_eq!(slow.quotes.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn without_a_platform_the_reason_is_told() {
        let prover = Prover::start(
            PodIdentity::new("demo", "p", "u").unwrap(),
            [7; 32],
            Metrics::new(UnixSeconds(0)).proofs,
        );
        let missing = prover.prove(leaf(0), binding(1, 1)).await.unwrap_err();
        assert_eq!(missing.reason, Reason::ProviderUnavailable);
    }
}
