//! Appraises this replica by itself, so that its Peer becomes ready, or says why not, before anyone connects.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealane_attestation::binding::{Leaf, Purpose, Role};
use sealane_attestation::{Collateral, VerifiedPeer};
use sealane_types::{PeerName, Reason, UnixSeconds};
use tokio::sync::{Notify, watch};

use super::judge::{Judge, OwnExpected};
use super::prover::{PolicyBinding, Prover};
use crate::policy::{Held, PolicyKeeper, Standing};
use crate::session::clock::Clock;

/// Own evidence is renewed this often, which shows early what peers would refuse.
const RENEW_AFTER: Duration = Duration::from_secs(600);
/// A platform that gave nothing is asked again after this.
const RETRY_AFTER: Duration = Duration::from_secs(15);

/// What this replica can prove about itself.
#[derive(Debug, Clone)]
pub(crate) enum OwnEvidence {
    Verified(Box<VerifiedPeer>),
    Refused { reason: Reason, message: String },
}

/// Holds the last self-appraisal.
#[derive(Debug)]
pub(crate) struct Own {
    state: Mutex<OwnEvidence>,
    changed: Arc<Notify>,
}

/// Who appraises, and by what.
#[derive(Debug, Clone)]
pub(crate) struct Appraisal {
    pub(crate) own_static: [u8; 32],
    pub(crate) clock: Arc<Clock>,
    pub(crate) policy: Arc<PolicyKeeper>,
    pub(crate) prover: Prover,
    pub(crate) judge: Arc<Judge>,
    /// Which Peer this pod belongs to; the value changes when provider or Peer do.
    pub(crate) peer: watch::Receiver<Option<PeerName>>,
    pub(crate) collateral: watch::Receiver<Arc<Collateral>>,
}

impl Own {
    /// `changed` is told after every appraisal.
    #[must_use]
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        let state = OwnEvidence::Refused {
            reason: Reason::NotConfigured,
            message: "this replica has not been appraised yet".to_owned(),
        };
        Self { state: Mutex::new(state), changed }
    }

    #[must_use]
    pub(crate) fn last(&self) -> OwnEvidence {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Appraises on every change of policy, collateral, Peer or provider, and from time to time. Runs for the life of the process.
    pub(crate) async fn keep_fresh(&self, mut appraisal: Appraisal) {
        let mut standing = appraisal.policy.subscribe();
        loop {
            let now = standing.borrow_and_update().clone();
            let state = appraisal.appraise(&now).await;
            let wait = match &state {
                OwnEvidence::Verified(peer) => {
                    renew_after([peer.expires(), peer.counts_until()], appraisal.clock.unix())
                }
                OwnEvidence::Refused { .. } => RETRY_AFTER,
            };
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
            self.changed.notify_one();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                changed = standing.changed() => if changed.is_err() { return },
                changed = appraisal.peer.changed() => if changed.is_err() { return },
                changed = appraisal.collateral.changed() => if changed.is_err() { return },
            }
        }
    }
}

/// The wait until the next appraisal: from time to time, and once an end is past, since the verdict is another one then.
fn renew_after(ends: [UnixSeconds; 2], now: UnixSeconds) -> Duration {
    let left = ends.into_iter().filter_map(|end| end.0.checked_sub(now.0));
    let past = left.map(|seconds| Duration::from_secs(seconds.saturating_add(1)));
    past.fold(RENEW_AFTER, Duration::min)
}

impl Appraisal {
    async fn appraise(&mut self, standing: &Standing) -> OwnEvidence {
        self.collateral.mark_unchanged();
        let peer = self.peer.borrow_and_update().clone();
        let held = match standing {
            Standing::InForce(held) => Arc::clone(held),
            Standing::Closed { reason, message } => {
                return OwnEvidence::Refused { reason: *reason, message: message.clone() };
            }
        };
        let Some(peer) = peer else {
            let message = "this pod belongs to no Peer".to_owned();
            return OwnEvidence::Refused { reason: Reason::NotConfigured, message };
        };
        self.prove_and_judge(peer, held).await.map_or_else(
            |(reason, message)| OwnEvidence::Refused { reason, message },
            |peer| OwnEvidence::Verified(Box::new(peer)),
        )
    }

    /// There is no handshake, so nothing of one is bound; the purpose keeps a quote for it from serving as any other.
    pub(super) fn leaf(&self) -> Leaf {
        let (nothing, own) = ([0; 32], &self.own_static);
        Leaf::new(Purpose::Audit, Role::Initiator, &nothing, &nothing, own, own)
    }

    async fn prove_and_judge(
        &self,
        peer: PeerName,
        held: Arc<Held>,
    ) -> Result<VerifiedPeer, (Reason, String)> {
        let leaf = self.leaf();
        let message = self
            .prover
            .prove(leaf, PolicyBinding { policy: held.policy.digest(), trust: held.trust.digest() })
            .await
            .map_err(|missing| (missing.reason, missing.to_string()))?;
        let expected = OwnExpected { leaf, own_static: self.own_static };
        self.judge.judge_own(message, expected, peer, held, self.clock.unix()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_that_changes_by_itself_is_given_again_in_time() {
        let now = UnixSeconds(1_000_000);
        let after = |ends: [i64; 2]| {
            let ends = ends.map(|offset| UnixSeconds(now.0.checked_add_signed(offset).unwrap()));
            renew_after(ends, now).as_secs()
        };
        assert_eq!(after([86_400, 86_400]), 600, "nothing ends soon");
        assert_eq!(after([60, 60]), 61, "the second in which it ends still counts");
        assert_eq!(after([60, 660]), 61, "within the grace it is degraded");
        assert_eq!(after([-540, 60]), 61, "after the grace it is refused");
        assert_eq!(after([-1, 0]), 1);
        assert_eq!(renew_after([UnixSeconds::NEVER; 2], now), RENEW_AFTER);
    }
}
