//! Judges the peer of a connection again when other collateral is there: from the evidence that it showed, away from the
//! threads that move bytes.

use std::sync::Arc;

use futures::future::BoxFuture;
use sealane_attestation::{Collateral, VerifiedPeer};
use sealane_types::{Reason, UnixSeconds};
use tokio::sync::watch;

use super::answer::{Answer, Rejudged};
use crate::evidence::judge::Judge;
use crate::policy::Held;

/// What one connection's verdict rests on, and whether it is being given again.
#[derive(Debug)]
pub(super) struct Rejudging {
    judge: Arc<Judge>,
    collateral: watch::Receiver<Arc<Collateral>>,
    under_way: bool,
}

impl Rejudging {
    pub(super) fn new(judge: &Arc<Judge>) -> Self {
        Self { judge: Arc::clone(judge), collateral: judge.collateral(), under_way: false }
    }

    /// Resolves when other collateral is there. Cancel safe.
    pub(super) async fn changed(&mut self) {
        if self.collateral.changed().await.is_err() {
            // The keeper lives as long as the judge, which is held here.
            std::future::pending().await
        }
    }

    /// Whether the verdict on `peer` is of other collateral than is held now.
    pub(super) fn is_stale(&self, peer: &VerifiedPeer) -> bool {
        self.collateral.borrow().edition() != peer.edition()
    }

    /// Whether `verdict` is only that collateral is over which has been replaced since: what the newer one says of `peer`
    /// is on its way, and ends the connection or not.
    pub(super) fn overtakes(
        &self,
        verdict: &Result<VerifiedPeer, Reason>,
        peer: Option<&VerifiedPeer>,
    ) -> bool {
        matches!(verdict, Err(Reason::CollateralExpired)) && peer.is_some_and(|peer| self.is_stale(peer))
    }

    /// The work of judging `peer` again, if its verdict is not of the collateral that is held now.
    pub(super) fn due(
        &mut self,
        peer: &VerifiedPeer,
        held: &Arc<Held>,
        now: UnixSeconds,
    ) -> Option<BoxFuture<'static, Answer>> {
        if self.under_way || !self.is_stale(peer) {
            return None;
        }
        self.under_way = true;
        let (judge, peer, held) = (Arc::clone(&self.judge), peer.clone(), Arc::clone(held));
        Some(Box::pin(async move {
            let of = peer.claims().report_data().copied();
            let verdict = judge.judge_again_with(peer, held, now).await;
            Answer::Rejudged(Box::new(Rejudged { of, verdict }))
        }))
    }

    /// The verdict, if it is on the evidence that `peer` rests on.
    pub(super) fn done(
        &mut self,
        rejudged: Rejudged,
        peer: Option<&VerifiedPeer>,
    ) -> Option<Result<VerifiedPeer, Reason>> {
        self.under_way = false;
        let same = peer.is_some_and(|peer| peer.claims().report_data() == rejudged.of.as_ref());
        same.then_some(rejudged.verdict)
    }
}
