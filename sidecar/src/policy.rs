//! The policy that this process stands on.
//!
//! Chains arrive from the operator, from peers and from the last run; all of them pass through
//! [`PolicyKeeper::propose`], which verifies them against this process's roots. Nothing else makes a policy. While
//! there is none in force, [`Standing`] says why, and every session stays closed.

mod anchor;
mod history;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sealane_attestation::TrustConfiguration;
use sealane_policy::{PolicyError, Timestamp, VerifiedPolicy};
use sealane_protocol::Moment;
use sealane_types::{Digest, Namespace, PolicyName, Reason, RootSource, Roots, SignedChain};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::config::Anchors;
use crate::session::clock::Clock;
use anchor::Anchor;
use history::History;

/// How long evidence that was made under the previous epoch is still accepted.
pub(crate) const OVERLAP: Duration = Duration::from_secs(60);
/// Superseded epochs remembered at most; more than this in a minute is not a policy but a fault.
const SUPERSEDED_MAX: usize = 8;
/// Longest sleep before expiry is looked at again, so that a clock that jumps ahead is noticed.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);

/// Peers' chains that are parsed and verified at one time. Each may take a thread some tenths of a second.
const VERIFYING_MAX: usize = 2;

/// A verified policy in force, with what it lately replaced.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) policy: VerifiedPolicy,
    /// What it was verified from, as this process states it in handshakes.
    pub(crate) trust: Arc<TrustConfiguration>,
    superseded: Vec<(Digest, Moment)>,
}

impl Held {
    /// `policy` in the place of `before`.
    fn after(before: &Self, policy: VerifiedPolicy, now: Moment) -> Self {
        let mut superseded = before.superseded.clone();
        superseded.push((before.policy.digest(), now));
        superseded.drain(..superseded.len().saturating_sub(SUPERSEDED_MAX));
        Self { policy, trust: Arc::clone(&before.trust), superseded }
    }

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
    #[error(
        "the roots in the initdata count once this pod's own evidence shows that its guest was started with it"
    )]
    RootsAwaited,
    #[error("the roots in the initdata do not count: {why}")]
    RootsUnproven { why: String },
    #[error(transparent)]
    Refused(#[from] PolicyError),
}

impl PolicyProblem {
    #[must_use]
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Missing | Self::RootsAwaited => Reason::PolicyMissing,
            Self::NoRoots { .. } | Self::RootsUnproven { .. } => Reason::PolicyRootsMissing,
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
    verifying: Arc<Semaphore>,
}

#[derive(Debug)]
struct Inner {
    anchor: Anchor,
    history: History,
    /// Why the last proposal was refused, until one is accepted.
    refusal: Option<(Reason, String)>,
    /// The last proposal, if only its time has not come.
    early: Option<Arc<Early>>,
    unproven: Unproven,
}

/// While roots of initdata are not proven.
#[derive(Debug, Default)]
struct Unproven {
    /// None: nobody has looked yet.
    why: Option<String>,
    /// The last one.
    proposal: Option<(PolicyName, SignedChain)>,
}

impl Unproven {
    fn problem(&self) -> PolicyProblem {
        match &self.why {
            None => PolicyProblem::RootsAwaited,
            Some(why) => PolicyProblem::RootsUnproven { why: why.clone() },
        }
    }
}

/// A proposal that is in order but not in force yet.
#[derive(Debug)]
struct Early {
    name: PolicyName,
    chain: SignedChain,
    roots: Roots,
    not_before: Timestamp,
}

impl PolicyKeeper {
    /// `simulation`: whether this process accepts simulated evidence.
    #[must_use]
    pub(crate) fn new(clock: Arc<Clock>, namespace: Namespace, anchors: Anchors, simulation: bool) -> Self {
        let anchor = Anchor::new(namespace, anchors, simulation);
        let inner = Inner {
            anchor,
            history: History::default(),
            refusal: None,
            early: None,
            unproven: Unproven::default(),
        };
        let standing = watch::Sender::new(Standing::closed(&PolicyProblem::Missing));
        let verifying = Arc::new(Semaphore::new(VERIFYING_MAX));
        Self { clock, inner: Mutex::new(inner), standing, verifying }
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

    /// The control plane proposes a chain, and roots that are kept if there are none for this policy. One whose time has
    /// not come is looked at again when it has.
    ///
    /// # Errors
    /// [`PolicyProblem`]. What is held stays in force, whichever policy it is of, except after a fork.
    pub(crate) fn propose(
        &self,
        name: &PolicyName,
        chain: &SignedChain,
        offered: Option<&Roots>,
    ) -> Result<Adoption, PolicyProblem> {
        let roots = {
            let mut inner = self.lock();
            if !inner.anchor.is_proven() {
                inner.unproven.proposal = Some((name.clone(), chain.clone()));
                let outcome = Err(inner.unproven.problem());
                self.conclude(&mut inner, None, &outcome);
                return outcome;
            }
            inner.anchor.roots(name, offered)
        };
        let outcome = match &roots {
            Some(roots) => self.verify(name, chain, roots),
            None => Err(PolicyProblem::NoRoots { policy: name.clone() }),
        };
        let early = match (&outcome, roots) {
            (Err(PolicyProblem::Refused(PolicyError::NotYetValid { not_before })), Some(roots)) => {
                let (name, chain, not_before) = (name.clone(), chain.clone(), *not_before);
                Some(Arc::new(Early { name, chain, roots, not_before }))
            }
            _ => None,
        };
        self.conclude(&mut self.lock(), early, &outcome);
        outcome
    }

    /// Own evidence shows that the guest was started with the initdata that the roots are from: they count from now on.
    pub(crate) fn roots_proven(&self) {
        let proposed = {
            let mut inner = self.lock();
            inner.anchor.prove();
            inner.unproven.proposal.take()
        };
        tracing::info!(
            "the roots in the initdata count: this pod's own evidence shows that its guest was started with it"
        );
        if let Some((name, chain)) = proposed {
            // The outcome is kept as that of any proposal.
            let _ = self.propose(&name, &chain, None);
        }
    }

    /// It does not show that, or there is none.
    pub(crate) fn roots_unproven(&self, why: &str) {
        let mut inner = self.lock();
        if inner.unproven.why.as_deref() != Some(why) {
            tracing::warn!("the roots in the initdata do not count: {why}");
            inner.unproven.why = Some(why.to_owned());
        }
        if inner.unproven.proposal.is_some() {
            let outcome = Err(inner.unproven.problem());
            self.conclude(&mut inner, None, &outcome);
        }
    }

    /// Waits for the right to parse and verify a peer's chain; whoever drops what is returned lets the next one in.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Nothing closes the semaphore, which would be the only error.
        Arc::clone(&self.verifying).acquire_owned().await.ok()
    }

    /// A connected peer hands over a chain of the policy that is followed. One that is older than what came meanwhile
    /// is no fault of the peer.
    ///
    /// # Errors
    /// As [`PolicyKeeper::propose`].
    pub(crate) fn receive(&self, chain: &SignedChain) -> Result<(), PolicyProblem> {
        let (name, roots) = {
            let mut inner = self.lock();
            let name = inner.history.followed().cloned().ok_or(PolicyProblem::Missing)?;
            let roots = inner.anchor.roots(&name, None);
            (name.clone(), roots.ok_or(PolicyProblem::NoRoots { policy: name })?)
        };
        match self.verify(&name, chain, &roots) {
            Ok(_) | Err(PolicyProblem::Refused(PolicyError::RolledBack { .. })) => Ok(()),
            Err(problem) => Err(problem),
        }
    }

    /// The control plane names no policy (any more). What is held stays in force until it expires: a withheld policy
    /// is not a revoked one.
    pub(crate) fn none_proposed(&self) {
        let inner = self.lock();
        if inner.history.held().is_none() {
            self.close(&PolicyProblem::Missing);
        }
    }

    /// Closes the standing when the policy expires, and opens it when the time of the proposed one has come. Runs for
    /// the life of the process.
    pub(crate) async fn watch_expiry(&self) {
        loop {
            self.retry();
            let wait = {
                let inner = self.lock();
                self.expire(&inner);
                let expires = inner.history.held().map(|held| held.policy.expires());
                let begins = inner.early.as_ref().map(|early| early.not_before);
                let now = self.clock.unix().0;
                let left = |date: Timestamp| Duration::from_secs(date.unix().0.saturating_sub(now).max(1));
                expires.into_iter().chain(begins).map(left).fold(WATCH_INTERVAL, Duration::min)
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Verifies the proposal whose time has come.
    fn retry(&self) {
        let now = Timestamp::from(self.clock.unix());
        let Some(early) = self.lock().early.clone().filter(|early| early.not_before <= now) else { return };
        let outcome = self.verify(&early.name, &early.chain, &early.roots);
        let mut inner = self.lock();
        // Another proposal may have come meanwhile, and has its own outcome.
        if inner.early.as_ref().is_some_and(|waiting| Arc::ptr_eq(waiting, &early)) {
            self.conclude(&mut inner, None, &outcome);
        }
    }

    /// Remembers what became of a proposal.
    fn conclude(
        &self,
        inner: &mut Inner,
        early: Option<Arc<Early>>,
        outcome: &Result<Adoption, PolicyProblem>,
    ) {
        inner.early = early;
        inner.refusal = outcome.as_ref().err().map(|problem| (problem.reason(), problem.to_string()));
        if let Err(problem) = outcome
            && inner.history.held().is_none()
        {
            self.close(problem);
        }
    }

    /// Verifies `chain` against what is held of `name`, and follows it if it is good. Signatures of megabytes take their
    /// time, and whoever asks for the standing does not wait for them: the lock is taken afterwards, and what was
    /// verified against something that is no longer held is verified again.
    fn verify(
        &self,
        name: &PolicyName,
        chain: &SignedChain,
        roots: &Roots,
    ) -> Result<Adoption, PolicyProblem> {
        loop {
            let before = self.lock().history.highest(name).cloned();
            let now = Timestamp::from(self.clock.unix());
            let verified =
                sealane_policy::verify(chain, roots, now, before.as_ref().map(|held| &held.policy));
            let mut inner = self.lock();
            let same = match (&before, inner.history.highest(name)) {
                (Some(before), Some(held)) => Arc::ptr_eq(before, held),
                (None, None) => true,
                _ => false,
            };
            if same {
                let outcome = self.settle(&mut inner, roots, chain, verified);
                return outcome.map_err(PolicyProblem::from);
            }
        }
    }

    /// Takes over a verdict and publishes the standing that follows from it.
    fn settle(
        &self,
        inner: &mut Inner,
        roots: &Roots,
        chain: &SignedChain,
        verified: Result<VerifiedPolicy, PolicyError>,
    ) -> Result<Adoption, PolicyError> {
        let name = &roots.policy;
        let trust = inner.anchor.configuration(roots);
        let outcome = verified.and_then(|policy| {
            self.clock.at_least(policy.document().not_before.unix());
            inner.history.adopt(name, policy, trust, self.clock.moment())
        });
        if let Err(error @ PolicyError::ConflictingEpoch { .. }) = &outcome {
            inner.history.forked(name, chain, error);
        }
        match (inner.history.fork(), inner.history.held(), &outcome) {
            (Some(fork), ..) => self.close(&fork.clone().into()),
            (None, Some(held), Ok(Adoption::Adopted)) => {
                let policy = &held.policy;
                tracing::info!(%name, epoch = policy.epoch(), digest = %policy.digest(), "policy in force");
                self.standing.send_replace(Standing::InForce(Arc::clone(held)));
            }
            _ => self.expire(inner),
        }
        outcome
    }

    fn expire(&self, inner: &Inner) {
        let Some(held) = inner.history.held().filter(|_| inner.history.fork().is_none()) else { return };
        if let Err(error) = held.policy.in_force(Timestamp::from(self.clock.unix())) {
            self.close(&error.into());
        }
    }

    fn close(&self, problem: &PolicyProblem) {
        let (reason, words) = (problem.reason(), problem.to_string());
        self.standing.send_if_modified(|standing| {
            if matches!(standing, Standing::Closed { reason: known, message } if *known == reason && *message == words)
            {
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

#[cfg(test)]
mod tests;
