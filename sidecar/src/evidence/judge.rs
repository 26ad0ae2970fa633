//! Judges evidence away from the threads that move bytes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sealane_attestation::{ChainCache, Collateral, EvidenceMessage, VerifiedPeer, judge_with, rejudge};
use sealane_protocol::connection::EvidenceReceived;
use sealane_types::{Digest, PeerName, Reason, UnixSeconds};
use tokio::sync::Semaphore;

use crate::metrics::Proofs;
use crate::metrics::labels::VerdictLabels;
use crate::policy::Held;

/// Verifications at once; each is a few hundred microseconds of signature checks.
const AT_ONCE: usize = 2;

/// Holds the collateral, and the chains of certificates that were verified before. The only place where evidence is
/// judged.
#[derive(Debug)]
pub(crate) struct Judge {
    collateral: Arc<Collateral>,
    /// One for each verification at once, so that none waits for another's.
    chains: Arc<Mutex<Vec<ChainCache>>>,
    at_once: Semaphore,
    metrics: Proofs,
}

impl Judge {
    /// Looks at simulated evidence only where the binary was linked for it.
    #[must_use]
    pub(crate) fn new(allow_simulated: bool, metrics: Proofs) -> Self {
        let collateral = Collateral::builtin();
        let collateral = if allow_simulated { collateral.allowing_simulated() } else { collateral };
        Self {
            collateral: Arc::new(collateral),
            chains: Arc::default(),
            at_once: Semaphore::new(AT_ONCE),
            metrics,
        }
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
        self.work(move |Verifier { collateral, chains }| {
            let policies = [held.policy.digest()];
            let expected = sealane_attestation::Expected {
                leaf: expected.leaf,
                prover_static: &expected.own_static,
                pod: &message.pod,
                policies: &policies,
            };
            judge_with(chains, &message, &expected, &peer, &held.policy, collateral, now)
                .map_err(|rejection| (rejection.reason(), rejection.to_string()))
        })
        .await
    }

    async fn work<T: Send + 'static>(&self, work: impl FnOnce(Verifier<'_>) -> T + Send + 'static) -> T {
        // The semaphore is never closed, so there is always a permit in the end.
        let _permit = self.at_once.acquire().await;
        let (collateral, pool) = (Arc::clone(&self.collateral), Arc::clone(&self.chains));
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
    rejudge(peer, &held.policy, now).map_err(|rejection| {
        tracing::warn!(peer = %peer.peer(), pod = %peer.pod(), reason = %rejection.reason(), "no longer accepted: {rejection}");
        rejection.reason()
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn evidence_is_verified_two_at_a_time() {
        let judge = Judge::new(false, Metrics::new(UnixSeconds(0)).proofs);
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
        let judge = Judge::new(false, Metrics::new(UnixSeconds(0)).proofs);
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
