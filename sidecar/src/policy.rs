//! The policy that this process stands on.
//!
//! Chains arrive from the operator, from peers and from the last run; all of them pass through
//! [`PolicyKeeper::propose`], which verifies them against this process's roots. Nothing else makes a policy. While
//! there is none in force, [`Standing`] says why, and every session stays closed.

mod anchor;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealane_policy::{PolicyError, Timestamp, VerifiedPolicy};
use sealane_protocol::Moment;
use sealane_types::{Digest, Namespace, PolicyName, Reason, RootSource, Roots, SignedChain};
use tokio::sync::watch;

use crate::config::Anchors;
use crate::session::clock::Clock;
use anchor::Anchor;

/// How long evidence that was made under the previous epoch is still accepted.
pub(crate) const OVERLAP: Duration = Duration::from_secs(60);
/// Superseded epochs remembered at most; more than this in a minute is not a policy but a fault.
const SUPERSEDED_MAX: usize = 8;
/// Longest sleep before expiry is looked at again, so that a clock that jumps ahead is noticed.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// A verified policy in force, with what it lately replaced.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) policy: VerifiedPolicy,
    superseded: Vec<(Digest, Moment)>,
}

impl Held {
    /// Digests that a prover may have run under: the current one, and those replaced within [`OVERLAP`].
    #[must_use]
    pub(crate) fn acceptable(&self, now: Moment) -> Vec<Digest> {
        let recent = |(_, at): &&(Digest, Moment)| u128::from(now.micros_since(*at)) <= OVERLAP.as_micros();
        std::iter::once(self.policy.digest())
            .chain(self.superseded.iter().filter(recent).map(|(digest, _)| *digest))
            .collect()
    }
}

/// Whether there is a policy to act on.
#[derive(Debug, Clone)]
pub(crate) enum Standing {
    InForce(Arc<Held>),
    /// Fail closed; `message` is for the person who looks at the condition.
    Closed {
        reason: Reason,
        message: String,
    },
}

impl Standing {
    fn closed(error: &PolicyProblem) -> Self {
        Self::Closed { reason: error.reason(), message: error.to_string() }
    }

    /// The policy in force, or the reason why there is none.
    ///
    /// # Errors
    /// The reason of the closed standing.
    pub(crate) fn held(&self) -> Result<&Arc<Held>, Reason> {
        match self {
            Self::InForce(held) => Ok(held),
            Self::Closed { reason, .. } => Err(*reason),
        }
    }
}

/// Why a chain was not adopted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyProblem {
    #[error("no policy was received yet")]
    Missing,
    #[error(
        "there are no roots for policy `{policy}`; set TrustPolicy.spec.roots or start the sidecar with a roots file"
    )]
    NoRoots { policy: PolicyName },
    #[error(transparent)]
    Refused(#[from] PolicyError),
}

impl PolicyProblem {
    #[must_use]
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Missing => Reason::PolicyMissing,
            Self::NoRoots { .. } => Reason::PolicyRootsMissing,
            Self::Refused(error) => error.reason(),
        }
    }
}

/// What [`PolicyKeeper::propose`] did with a chain that is in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adoption {
    Adopted,
    /// It is the one that is held.
    Unchanged,
}

/// Holds the verified policy. The only place where chains are verified.
#[derive(Debug)]
pub(crate) struct PolicyKeeper {
    clock: Arc<Clock>,
    inner: Mutex<Inner>,
    standing: watch::Sender<Standing>,
}

#[derive(Debug)]
struct Inner {
    anchor: Anchor,
    held: Option<Arc<Held>>,
    /// Both documents of a forked epoch: kept as proof until a later epoch settles it.
    fork: Option<(SignedChain, SignedChain)>,
    name: Option<PolicyName>,
    /// Why the last proposal was refused, until one is accepted.
    refusal: Option<(Reason, String)>,
}

impl PolicyKeeper {
    #[must_use]
    pub(crate) fn new(clock: Arc<Clock>, namespace: Namespace, anchors: Anchors) -> Self {
        let inner = Inner {
            anchor: Anchor::new(namespace, anchors),
            held: None,
            fork: None,
            name: None,
            refusal: None,
        };
        let standing = watch::Sender::new(Standing::closed(&PolicyProblem::Missing));
        Self { clock, inner: Mutex::new(inner), standing }
    }

    /// The current standing, and every later one.
    #[must_use]
    pub(crate) fn subscribe(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    #[must_use]
    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    #[must_use]
    pub(crate) fn root_source(&self) -> RootSource {
        self.lock().anchor.source()
    }

    /// Why the newest proposal was refused, if it was. What is held stays in force meanwhile.
    #[must_use]
    pub(crate) fn refusal(&self) -> Option<(Reason, String)> {
        self.lock().refusal.clone()
    }

    /// The control plane proposes a chain, and roots that are kept if there are none for this policy.
    ///
    /// # Errors
    /// [`PolicyProblem`]. The held policy stays in force, except after a fork.
    pub(crate) fn propose(
        &self,
        name: &PolicyName,
        chain: &SignedChain,
        offered: Option<&Roots>,
    ) -> Result<Adoption, PolicyProblem> {
        let mut inner = self.lock();
        if inner.name.as_ref() != Some(name) {
            // Another policy is another document with other owners: its epochs do not compare with ours.
            inner.held = None;
            inner.fork = None;
            inner.name = Some(name.clone());
        }
        let roots =
            inner.anchor.roots(name, offered).ok_or_else(|| PolicyProblem::NoRoots { policy: name.clone() });
        let outcome = roots.and_then(|roots| self.verify(&mut inner, chain, &roots));
        self.settle(&mut inner, &outcome);
        outcome
    }

    /// A connected peer hands over a newer chain of the policy that is held.
    ///
    /// # Errors
    /// As [`PolicyKeeper::propose`].
    pub(crate) fn receive(&self, chain: &SignedChain) -> Result<Adoption, PolicyProblem> {
        let mut inner = self.lock();
        let name = inner.name.clone().ok_or(PolicyProblem::Missing)?;
        let roots = inner.anchor.roots(&name, None).ok_or(PolicyProblem::NoRoots { policy: name })?;
        let outcome = self.verify(&mut inner, chain, &roots);
        self.settle(&mut inner, &outcome);
        outcome
    }

    /// The control plane names no policy (any more). What is held stays in force until it expires: a withheld policy
    /// is not a revoked one.
    pub(crate) fn none_proposed(&self) {
        let inner = self.lock();
        if inner.held.is_none() {
            self.close(&PolicyProblem::Missing);
        }
    }

    /// Closes the standing when the policy expires. Runs for the life of the process.
    pub(crate) async fn watch_expiry(&self) {
        loop {
            let wait = {
                let mut inner = self.lock();
                self.expire(&mut inner);
                let now = self.clock.unix();
                let left =
                    inner.held.as_ref().map(|held| held.policy.expires().unix().0.saturating_sub(now.0));
                left.map_or(WATCH_INTERVAL, |seconds| Duration::from_secs(seconds.max(1)).min(WATCH_INTERVAL))
            };
            tokio::time::sleep(wait).await;
        }
    }

    fn verify(
        &self,
        inner: &mut Inner,
        chain: &SignedChain,
        roots: &Roots,
    ) -> Result<Adoption, PolicyProblem> {
        let now = Timestamp::from(self.clock.unix());
        let held = inner.held.as_ref();
        let policy = match sealane_policy::verify(chain, roots, now, held.map(|held| &held.policy)) {
            Ok(policy) => policy,
            Err(error) => {
                if matches!(error, PolicyError::ConflictingEpoch { .. })
                    && let Some(held) = held
                {
                    inner.fork = Some((held.policy.chain().clone(), chain.clone()));
                }
                return Err(error.into());
            }
        };
        if held.is_some_and(|held| held.policy.digest() == policy.digest()) {
            return Ok(Adoption::Unchanged);
        }
        self.clock.at_least(policy.document().not_before.unix());
        let moment = self.clock.moment();
        let mut superseded = held.map_or_else(Vec::new, |held| {
            let mut superseded = held.superseded.clone();
            superseded.push((held.policy.digest(), moment));
            superseded
        });
        superseded.drain(..superseded.len().saturating_sub(SUPERSEDED_MAX));
        inner.held = Some(Arc::new(Held { policy, superseded }));
        inner.fork = None;
        Ok(Adoption::Adopted)
    }

    /// Publishes the standing that follows from what is held now.
    fn settle(&self, inner: &mut Inner, outcome: &Result<Adoption, PolicyProblem>) {
        inner.refusal = outcome.as_ref().err().map(|error| (error.reason(), error.to_string()));
        match (outcome, &inner.held, &inner.fork) {
            (Err(error), _, Some(_)) | (Err(error), None, _) => self.close(error),
            (Ok(Adoption::Adopted), Some(held), None) => {
                tracing::info!(epoch = held.policy.epoch(), digest = %held.policy.digest(), "policy in force");
                self.standing.send_replace(Standing::InForce(Arc::clone(held)));
            }
            _ => self.expire(inner),
        }
    }

    fn expire(&self, inner: &mut Inner) {
        let Some(held) = inner.held.as_ref().filter(|_| inner.fork.is_none()) else { return };
        if let Err(error) = held.policy.in_force(Timestamp::from(self.clock.unix())) {
            self.close(&error.into());
        }
    }

    fn close(&self, problem: &PolicyProblem) {
        let reason = problem.reason();
        self.standing.send_if_modified(|standing| {
            if matches!(standing, Standing::Closed { reason: known, .. } if *known == reason) {
                return false;
            }
            tracing::error!(%reason, "no policy in force: {problem}");
            *standing = Standing::closed(problem);
            true
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
