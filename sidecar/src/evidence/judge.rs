//! Judges evidence away from the threads that move bytes.

use std::sync::Arc;
use std::time::Instant;

use sealane_attestation::{Collateral, EvidenceMessage, VerifiedPeer, judge, rejudge};
use sealane_protocol::connection::EvidenceReceived;
use sealane_types::{Digest, PeerName, Reason, UnixSeconds};
use tokio::sync::Semaphore;

use crate::metrics::Proofs;
use crate::metrics::labels::VerdictLabels;
use crate::policy::Held;

/// Verifications at once; each is a few hundred microseconds of signature checks.
const AT_ONCE: usize = 2;

/// Holds the collateral. The only place where evidence is judged.
#[derive(Debug)]
pub(crate) struct Judge {
    collateral: Arc<Collateral>,
    at_once: Semaphore,
    metrics: Proofs,
}

impl Judge {
    /// Looks at simulated evidence only where the binary was linked for it.
    #[must_use]
    pub(crate) fn new(allow_simulated: bool, metrics: Proofs) -> Self {
        let collateral = Collateral::builtin();
        let collateral = if allow_simulated { collateral.allowing_simulated() } else { collateral };
        Self { collateral: Arc::new(collateral), at_once: Semaphore::new(AT_ONCE), metrics }
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
        let verdict = self.work(move |collateral| {
            let expected = received.expected(&acceptable);
            judge(&received.message, &expected, &peer, &held.policy, collateral, now).map_err(|rejection| {
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
        self.work(move |collateral| {
            let policies = [held.policy.digest()];
            let expected = sealane_attestation::Expected {
                leaf: expected.leaf,
                prover_static: &expected.own_static,
                pod: &message.pod,
                policies: &policies,
            };
            judge(&message, &expected, &peer, &held.policy, collateral, now)
                .map_err(|rejection| (rejection.reason(), rejection.to_string()))
        })
        .await
    }

    async fn work<T: Send + 'static>(&self, work: impl FnOnce(&Collateral) -> T + Send + 'static) -> T {
        // The semaphore is never closed, so there is always a permit in the end.
        let _permit = self.at_once.acquire().await;
        let collateral = Arc::clone(&self.collateral);
        match tokio::task::spawn_blocking(move || work(&collateral)).await {
            Ok(verdict) => verdict,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }
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
