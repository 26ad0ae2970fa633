//! Work that a connection waits for: quoting, judging, verifying a policy.

use std::sync::Arc;

use futures::future::BoxFuture;
use sealane_attestation::{EvidenceMessage, VerifiedPeer};
use sealane_protocol::connection::Connection;
use sealane_types::{Reason, SignedChain};

use super::traffic::Traffic;
use crate::context::view;
use crate::evidence::prover::NoEvidence;
use crate::policy::{Held, PolicyKeeper};

/// The outcome of such work.
#[derive(Debug)]
pub(super) enum Answer {
    Proved(Result<Box<EvidenceMessage>, NoEvidence>),
    Judged(Box<Result<VerifiedPeer, Reason>>),
    Adopted(Result<Arc<Held>, Reason>),
    Rejudged(Box<Rejudged>),
}

/// A verdict that was given again.
#[derive(Debug)]
pub(super) struct Rejudged {
    /// The evidence that it is on, by what it was made for: the connection may have been attested again meanwhile.
    pub(super) of: Option<[u8; 64]>,
    pub(super) verdict: Result<VerifiedPeer, Reason>,
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

/// Gives the protocol what it asked for.
pub(super) fn give(answer: Answer, connection: &mut Connection, traffic: &mut dyn Traffic) {
    let given = match answer {
        Answer::Proved(Ok(message)) => connection.supply_evidence(&message),
        Answer::Judged(verdict) => {
            // What arrives is dealt with by the first verdict; a later one changes nothing about it.
            if let (Ok(peer), false) = (verdict.as_ref(), connection.is_established()) {
                traffic.verified(peer);
            }
            connection.judged(*verdict)
        }
        Answer::Adopted(Ok(held)) => {
            connection.policy_adopted(view(&held));
            Ok(())
        }
        Answer::Proved(Err(missing)) => {
            connection.close(missing.reason);
            Ok(())
        }
        Answer::Adopted(Err(reason)) => {
            connection.close(reason);
            Ok(())
        }
        // Nobody asked for it: whoever began it deals with it.
        Answer::Rejudged(_) => Ok(()),
    };
    if let Err(misuse) = given {
        // The connection closed while the answer was being made: there is nobody to give it to.
        tracing::debug!(%misuse, "an answer came too late");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use sealane_types::{Namespace, RootSource};

    use super::*;
    use crate::config::Anchors;
    use crate::session::clock::Clock;

    #[tokio::test(start_paused = true)]
    async fn few_chains_are_verified_at_one_time() {
        let anchors = Anchors { roots: vec![], source: RootSource::File };
        let namespace = Namespace::new("demo").unwrap();
        let keeper = Arc::new(PolicyKeeper::new(Arc::new(Clock::new()), namespace, anchors, false));
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
