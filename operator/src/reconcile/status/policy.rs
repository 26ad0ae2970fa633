//! What a TrustPolicy's status says: the operator's verdict, made as a sidecar makes it.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sealane_operator_api::TrustPolicyStatus;
use sealane_operator_api::well_known::condition::{EXPIRING, READY, VERIFIED};
use sealane_policy::VerifiedPolicy;
use sealane_types::{Reason, UnixSeconds};

use super::summary::count;
use crate::condition::{Finding, conditions, time};
use crate::limits::EXPIRY_NOTICE_SECONDS;
use crate::spec::{Problem, Valid, ValidPolicy, word};

/// The status, and when it changes by the passing of time.
pub(super) fn status(valid: &Valid, policy: &ValidPolicy) -> (TrustPolicyStatus, Option<Duration>) {
    let object = valid.snapshot.policies.get(policy.index);
    let generation = object.and_then(|object| object.metadata.generation);
    let previous = object.and_then(|object| object.status.clone()).unwrap_or_default();
    let now = valid.snapshot.now;
    match &policy.verdict {
        Ok(verified) => {
            let expires = verified.expires().unix();
            let conditions = conditions(&previous.conditions, in_force(verified, now), generation, now);
            (described(verified, conditions, generation), next_change(expires, now))
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
) -> TrustPolicyStatus {
    TrustPolicyStatus {
        observed_generation: generation,
        conditions,
        epoch: i64::try_from(verified.epoch()).ok(),
        digest: Some(verified.digest().to_string()),
        threshold: Some(count(verified.document().authorities.threshold as usize)),
        signers: verified.signers().iter().map(ToString::to_string).collect(),
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
