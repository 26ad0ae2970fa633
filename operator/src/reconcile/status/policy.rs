//! What a TrustPolicy's status says: the operator's verdict, made as a sidecar makes it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sealane_operator_api::TrustPolicyStatus;
use sealane_operator_api::well_known::condition::{EXPIRING, READY, VERIFIED};
use sealane_policy::VerifiedPolicy;
use sealane_types::{PeerName, Reason, UnixSeconds};

use super::replica::Replica;
use super::summary::count;
use crate::condition::{Finding, conditions, time};
use crate::limits::EXPIRY_NOTICE_SECONDS;
use crate::spec::{Problem, Valid, ValidPolicy, word};

/// How far a policy has come: how many replicas follow it, and which epochs they act by.
#[derive(Debug, Default)]
pub(super) struct Followers {
    epochs: Vec<Option<i64>>,
}

impl Followers {
    /// Of the policy `name`, among the replicas of pods: whoever is outside of the cluster says nothing of its epoch.
    pub(super) fn of(valid: &Valid, name: &str, replicas: &BTreeMap<&PeerName, Vec<Replica<'_>>>) -> Self {
        let follows =
            |peer: &PeerName| valid.peers.get(peer).is_some_and(|peer| peer.policy.as_str() == name);
        let following = replicas.iter().filter(|(peer, _)| follows(peer)).flat_map(|(_, replicas)| replicas);
        Self { epochs: following.map(Replica::epoch).collect() }
    }

    fn at(&self, epoch: Option<i64>) -> usize {
        self.epochs.iter().filter(|of_one| of_one.is_some() && **of_one == epoch).count()
    }
}

/// The status, and when it changes by the passing of time.
pub(super) fn status(
    valid: &Valid,
    policy: &ValidPolicy,
    followers: &Followers,
) -> (TrustPolicyStatus, Option<Duration>) {
    let object = valid.snapshot.policies.get(policy.index);
    let generation = object.and_then(|object| object.metadata.generation);
    let previous = object.and_then(|object| object.status.clone()).unwrap_or_default();
    let now = valid.snapshot.now;
    match &policy.verdict {
        Ok(verified) => {
            let expires = verified.expires().unix();
            let conditions = conditions(&previous.conditions, in_force(verified, now), generation, now);
            (described(verified, conditions, generation, followers), next_change(expires, now))
        }
        // What was verified last stays visible beside the reason why its successor is not.
        Err(problem) => {
            let conditions = conditions(&previous.conditions, refused(problem), generation, now);
            let retry =
                (problem.reason == Reason::PolicyNotYetValid.as_str()).then_some(Duration::from_secs(60));
            (
                TrustPolicyStatus {
                    observed_generation: generation,
                    conditions,
                    replicas: Some(count(followers.epochs.len())),
                    adopted: Some(count(followers.at(previous.epoch))),
                    stale_after: None,
                    ..previous
                },
                retry,
            )
        }
    }
}

fn described(
    verified: &VerifiedPolicy,
    conditions: Vec<Condition>,
    generation: Option<i64>,
    followers: &Followers,
) -> TrustPolicyStatus {
    let epoch = i64::try_from(verified.epoch()).ok();
    TrustPolicyStatus {
        observed_generation: generation,
        conditions,
        epoch,
        digest: Some(verified.digest().to_string()),
        threshold: Some(count(verified.document().authorities.threshold as usize)),
        signers: verified.signers().iter().map(ToString::to_string).collect(),
        replicas: Some(count(followers.epochs.len())),
        adopted: Some(count(followers.at(epoch))),
        expires: Some(time(verified.expires().unix())),
        // The last step's to say.
        stale_after: None,
    }
}

fn in_force(verified: &VerifiedPolicy, now: UnixSeconds) -> Vec<Finding> {
    let threshold = verified.document().authorities.threshold;
    let signed =
        format!("epoch {}, {} signers, threshold {threshold}", verified.epoch(), verified.signers().len());
    let expiring = if now.plus(EXPIRY_NOTICE_SECONDS) >= verified.expires().unix() {
        let message = format!(
            "expires at {}: sign the next epoch, or every session under this policy ends",
            verified.expires()
        );
        Finding::yes(EXPIRING, word::POLICY_EXPIRING, message)
    } else {
        Finding::no(EXPIRING, word::IN_FORCE, "more than a day is left")
    };
    vec![
        Finding::yes(READY, word::IN_FORCE, signed.clone()),
        Finding::yes(VERIFIED, word::VERIFIED, signed),
        expiring,
    ]
}

fn refused(problem: &Problem) -> Vec<Finding> {
    let expired = problem.reason == Reason::PolicyExpired.as_str();
    let expiring = if expired {
        Finding::yes(EXPIRING, problem.reason, problem.message.clone())
    } else {
        Finding::unknown(EXPIRING, problem.reason, "the document is not verified")
    };
    vec![Finding::not(READY, problem), Finding::not(VERIFIED, problem), expiring]
}

/// A day before the end, then at the end.
fn next_change(expires: UnixSeconds, now: UnixSeconds) -> Option<Duration> {
    let notice = expires.0.saturating_sub(EXPIRY_NOTICE_SECONDS);
    let next = if now.0 < notice { notice } else { expires.0 };
    Some(Duration::from_secs(next.saturating_sub(now.0).max(1)))
}
