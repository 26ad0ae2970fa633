//! Work that a connection waits for: quoting, judging, verifying a policy.

use std::sync::Arc;

use futures::future::BoxFuture;
use sealane_attestation::{EvidenceMessage, VerifiedPeer};
use sealane_types::{Reason, SignedChain};

use crate::evidence::prover::NoEvidence;
use crate::policy::{Held, PolicyKeeper};

/// The outcome of such work.
#[derive(Debug)]
pub(super) enum Answer {
    Proved(Result<Box<EvidenceMessage>, NoEvidence>),
    Judged(Box<Result<VerifiedPeer, Reason>>),
    Adopted(Result<Arc<Held>, Reason>),
}

/// Verifies a chain that a peer handed over, when its turn comes and away from the threads that move bytes: it may be
/// large, and anyone may send one.
pub(super) fn adopt(keeper: Arc<PolicyKeeper>, chain: Vec<u8>) -> BoxFuture<'static, Answer> {
    Box::pin(async move {
        let turn = keeper.turn().await;
        let verify = move || {
            // Kept to the end, even when the connection is over before.
            let _turn = turn;
            let chain: SignedChain = serde_json::from_slice(&chain).map_err(|_| Reason::PolicyMalformed)?;
            keeper.receive(&chain).map_err(|problem| {
                tracing::warn!(reason = %problem.reason(), "a peer's policy was refused: {problem}");
                problem.reason()
            })?;
            keeper.standing().held().cloned()
        };
        match tokio::task::spawn_blocking(verify).await {
            Ok(adopted) => Answer::Adopted(adopted),
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use sealane_types::{Namespace, RootSource};

    use super::*;
    use crate::config::Anchors;
    use crate::session::clock::Clock;

    #[tokio::test]
    async fn few_chains_are_verified_at_one_time() {
        let anchors = Anchors { roots: vec![], source: RootSource::File };
        let namespace = Namespace::new("demo").unwrap();
        let keeper = Arc::new(PolicyKeeper::new(Arc::new(Clock::new()), namespace, anchors));
        let turns = [keeper.turn().await, keeper.turn().await];
        let mut adopted = adopt(Arc::clone(&keeper), b"{".to_vec());
        let early = tokio::time::timeout(Duration::from_millis(200), &mut adopted).await;
        assert!(early.is_err(), "all turns are taken");
        drop(turns);
        let answer = adopted.await;
        assert!(matches!(answer, Answer::Adopted(Err(Reason::PolicyMalformed))), "{answer:?}");
        assert!(keeper.turn().now_or_never().is_some(), "and given back");
    }
}
