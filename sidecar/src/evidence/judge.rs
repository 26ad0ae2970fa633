//! Judges evidence away from the threads that move bytes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sealane_attestation::{
    ChainCache, Claims, Collateral, Evidence, EvidenceMessage, Rejection, VerifiedPeer, inspect_with,
    judge_with, rejudge, rejudge_with,
};
use sealane_policy::CollateralRules;
use sealane_protocol::connection::EvidenceReceived;
use sealane_types::{Digest, PeerName, Reason, UnixSeconds};
use tokio::sync::{Semaphore, watch};

use crate::collateral::CollateralKeeper;
use crate::metrics::Proofs;
use crate::metrics::labels::VerdictLabels;
use crate::policy::Held;

/// Verifications at once; each is a few hundred microseconds of signature checks.
const AT_ONCE: usize = 2;

/// Holds the chains of certificates that were verified before. The only place where evidence is judged.
#[derive(Debug)]
pub(crate) struct Judge {
    keeper: Arc<CollateralKeeper>,
    /// One for each verification at once, so that none waits for another's.
    chains: Arc<Mutex<Vec<ChainCache>>>,
    at_once: Semaphore,
    metrics: Proofs,
}

impl Judge {
    /// Judges by what `keeper` holds at each time.
    #[must_use]
    pub(crate) fn new(keeper: Arc<CollateralKeeper>, metrics: Proofs) -> Self {
        Self { keeper, chains: Arc::default(), at_once: Semaphore::new(AT_ONCE), metrics }
    }

    /// The collateral that is judged by, and every later one.
    #[must_use]
    pub(crate) fn collateral(&self) -> watch::Receiver<Arc<Collateral>> {
        self.keeper.subscribe()
    }

    /// Judges what a peer sent in a handshake.
    ///
    /// # Errors
    /// The reason that the peer is told; the log has the details.
    pub(crate) async fn judge(
        &self,
        received: Box<EvidenceReceived>,
        held: Arc<Held>,
        acceptable: Vec<Digest>,
        now: UnixSeconds,
    ) -> Result<VerifiedPeer, Reason> {
        let peer = received.introduction.peer.clone();
        let began = Instant::now();
        let received = self
            .completed(received, |received| &received.message.evidence, &held.policy.document().collateral)
            .await;
        let verdict = self.work(move |Verifier { collateral, chains }| {
            let expected = received.expected(&acceptable);
            judge_with(chains, &received.message, &expected, &peer, &held.policy, collateral, now).map_err(|rejection| {
                tracing::warn!(%peer, pod = %received.introduction.pod, reason = %rejection.reason(), "evidence refused: {rejection}");
                rejection.reason()
            })
        })
        .await;
        self.metrics.verification_seconds.observe(began.elapsed().as_secs_f64());
        self.metrics.verdicts.get_or_create(&VerdictLabels::of(&verdict)).inc();
        verdict
    }

    /// Judges this replica's own evidence as a peer would.
    ///
    /// # Errors
    /// The reason and what is wrong, for the condition.
    pub(crate) async fn judge_own(
        &self,
        message: EvidenceMessage,
        expected: OwnExpected,
        peer: PeerName,
        held: Arc<Held>,
        now: UnixSeconds,
    ) -> Result<VerifiedPeer, (Reason, String)> {
        let message =
            self.completed(message, |message| &message.evidence, &held.policy.document().collateral).await;
        self.work(move |Verifier { collateral, chains }| {
            let policies = [held.policy.digest()];
            let expected = sealane_attestation::Expected {
                leaf: expected.leaf,
                prover_static: &expected.own_static,
                pod: &message.pod,
                trust: &held.trust,
                policies: &policies,
            };
            judge_with(chains, &message, &expected, &peer, &held.policy, collateral, now)
                .map_err(|rejection| (rejection.reason(), rejection.to_string()))
        })
        .await
    }

    /// What this replica's own evidence shows, whatever a policy says of it.
    ///
    /// # Errors
    /// [`Rejection`] when the evidence is not genuine, or collateral is missing to tell.
    pub(crate) async fn inspect_own(
        &self,
        evidence: Evidence,
        now: UnixSeconds,
    ) -> Result<Claims, Rejection> {
        let evidence = self.completed(evidence, |evidence| evidence, &CollateralRules::default()).await;
        self.work(move |Verifier { collateral, chains }| inspect_with(chains, &evidence, collateral, now))
            .await
    }

    /// `carrier`, once what a verdict on its evidence needs is held, or did not come soon.
    async fn completed<T: Send + 'static>(
        &self,
        carrier: T,
        evidence: impl FnOnce(&T) -> &Evidence + Send + 'static,
        rules: &CollateralRules,
    ) -> T {
        let Some(roots) = self.keeper.looks_for() else { return carrier };
        // Nobody is asked for the sake of a stranger's word, and to tell takes signatures.
        let needs = move |_: Verifier<'_>| {
            let needed = roots.needs(evidence(&carrier));
            (carrier, needed)
        };
        let (carrier, needed) = self.work(needs).await;
        self.keeper.complete(needed, rules).await;
        carrier
    }

    /// Judges the evidence of a peer that was accepted once more, by the collateral that is held now.
    ///
    /// # Errors
    /// The reason why the peer is no longer accepted.
    pub(crate) async fn judge_again_with(
        &self,
        peer: VerifiedPeer,
        held: Arc<Held>,
        now: UnixSeconds,
    ) -> Result<VerifiedPeer, Reason> {
        self.work(move |Verifier { collateral, chains }| {
            let verdict = rejudge_with(chains, &peer, &held.policy, collateral, now);
            verdict.map_err(|rejection| lost(&peer, &rejection))
        })
        .await
    }

    async fn work<T: Send + 'static>(&self, work: impl FnOnce(Verifier<'_>) -> T + Send + 'static) -> T {
        // The semaphore is never closed, so there is always a permit in the end.
        let _permit = self.at_once.acquire().await;
        let (collateral, pool) = (self.keeper.current(), Arc::clone(&self.chains));
        let work = move || {
            let known = pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut chains = known.unwrap_or_default();
            let verdict = work(Verifier { collateral: &collateral, chains: &mut chains });
            let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever gave up waiting gave its place to another while this went on.
            if pool.len() < AT_ONCE {
                pool.push(chains);
            }
            verdict
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(verdict) => verdict,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
}

/// What one verification has at hand.
struct Verifier<'a> {
    collateral: &'a Collateral,
    chains: &'a mut ChainCache,
}

/// What this replica's own evidence must be bound to.
#[derive(Debug, Clone)]
pub(crate) struct OwnExpected {
    pub(crate) leaf: sealane_attestation::binding::Leaf,
    pub(crate) own_static: [u8; 32],
}

/// Holds stored claims against a newer policy.
///
/// # Errors
/// The reason why the peer is no longer accepted.
pub(crate) fn judge_again(
    peer: &VerifiedPeer,
    held: &Held,
    now: UnixSeconds,
) -> Result<VerifiedPeer, Reason> {
    rejudge(peer, &held.policy, now).map_err(|rejection| lost(peer, &rejection))
}

fn lost(peer: &VerifiedPeer, rejection: &Rejection) -> Reason {
    let reason = rejection.reason();
    tracing::warn!(peer = %peer.peer(), pod = %peer.pod(), %reason, "no longer accepted: {rejection}");
    reason
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sealane_attestation::VendorRoots;

    use super::*;
    use crate::metrics::Metrics;

    fn judge() -> Judge {
        let metrics = Metrics::new(UnixSeconds(0));
        let keeper =
            CollateralKeeper::new(VendorRoots::pinned(), Arc::default(), None, metrics.collateral.clone());
        Judge::new(Arc::new(keeper), metrics.proofs)
    }

    #[tokio::test]
    async fn evidence_is_verified_two_at_a_time() {
        let judge = judge();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let verify = || {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            judge.work(move |_| {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Long enough for others to begin, if they may.
                std::thread::sleep(std::time::Duration::from_millis(20));
                running.fetch_sub(1, Ordering::SeqCst);
            })
        };
        futures::future::join_all((0..8).map(|_| verify())).await;
        assert!(most.load(Ordering::SeqCst) <= AT_ONCE);
    }

    #[tokio::test]
    async fn known_chains_are_kept_between_verifications_and_for_no_more_than_run_at_once() {
        let judge = judge();
        let begun = Arc::new(std::sync::Barrier::new(AT_ONCE));
        let verify = || {
            let begun = Arc::clone(&begun);
            judge.work(move |_| {
                begun.wait();
            })
        };
        futures::future::join_all((0..AT_ONCE).map(|_| verify())).await;
        assert_eq!(judge.chains.lock().unwrap().len(), AT_ONCE, "each had its own");
        judge.work(|_| ()).await;
        assert_eq!(judge.chains.lock().unwrap().len(), AT_ONCE);
    }
}
