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
    Proved(Result<EvidenceMessage, NoEvidence>),
    Judged(Box<Result<VerifiedPeer, Reason>>),
    Adopted(Result<Arc<Held>, Reason>),
}

/// Verifies a chain that a peer handed over, away from the threads that move bytes: it may be large.
pub(super) fn adopt(keeper: Arc<PolicyKeeper>, chain: Vec<u8>) -> BoxFuture<'static, Answer> {
    let verify = move || {
        let chain: SignedChain = serde_json::from_slice(&chain).map_err(|_| Reason::PolicyMalformed)?;
        keeper.receive(&chain).map_err(|problem| {
            tracing::warn!(reason = %problem.reason(), "a peer's policy was refused: {problem}");
            problem.reason()
        })?;
        keeper.standing().held().cloned()
    };
    Box::pin(async move {
        match tokio::task::spawn_blocking(verify).await {
            Ok(adopted) => Answer::Adopted(adopted),
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    })
}
