//! What is not as it should be, and what to do about it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use sealane_operator_api::well_known::condition::{DEGRADED, EXPIRING};
use sealane_operator_api::{ReplicaStatus, word};
use serde_json::{Value, json};

use super::{Declared, has_no_replicas, ready};
use crate::creations::Failure;
use crate::explain::{peer_remedy, remedies, remedy};
use crate::output::printable;

/// One object that is not ready, or less than it could be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    namespace: Option<String>,
    /// `KIND/NAME`.
    what: String,
    pub(super) degraded: bool,
    reason: String,
    message: String,
    remedy: String,
}

impl Complaint {
    pub(super) fn text(&self) -> String {
        let Self { namespace, what, degraded: _, reason, message, remedy } = self;
        let place = namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace} "));
        let said = printable(&format!("{place}{what}: {reason}: {message}"));
        format!("  {said}\n      -> {remedy}\n")
    }

    pub(super) fn value(&self) -> Value {
        let Self { namespace, what, degraded: _, reason, message, remedy } = self;
        json!({
            "namespace": namespace, "object": what, "reason": reason, "message": message, "remedy": remedy,
        })
    }
}

/// Everything that somebody should look at, policies first: what they say explains much of the rest.
pub(super) fn complaints(declared: &Declared) -> Vec<Complaint> {
    let Declared { namespace, peers, sessions, policies, failures, strange: _ } = declared;
    // Where there is only one namespace nobody needs to be told which.
    let place = |of: Option<String>| of.filter(|_| namespace.is_none());
    let policies = policies.iter().flat_map(|policy| {
        let conditions =
            policy.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        about(place(policy.namespace()), &format!("trustpolicy/{}", policy.name_any()), conditions)
    });
    let peers = peers.iter().flat_map(|peer| {
        let status = peer.status.clone().unwrap_or_default();
        let mut own =
            about(place(peer.namespace()), &format!("peer/{}", peer.name_any()), &status.conditions);
        let of_namespace = Failure::of_namespace(failures, &peer.namespace().unwrap_or_default());
        for complaint in own.iter_mut().filter(|complaint| !complaint.degraded) {
            complaint.remedy = peer_remedy(&complaint.reason);
            if let Some(failure) = of_namespace.filter(|_| has_no_replicas(peer)) {
                complaint.message.push_str(&format!("; in its namespace {}", failure.text()));
            }
        }
        let unready = status.replicas.into_iter().filter(|replica| !replica.ready);
        own.into_iter()
            .chain(unready.map(|unready| replica(place(peer.namespace()), unready)))
            .collect::<Vec<_>>()
    });
    let sessions = sessions.iter().flat_map(|session| {
        let conditions =
            session.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        about(place(session.namespace()), &format!("transfersession/{}", session.name_any()), conditions)
    });
    policies.chain(peers).chain(sessions).collect()
}

fn about(namespace: Option<String>, what: &str, conditions: &[Condition]) -> Vec<Complaint> {
    let complaint = |degraded, reason: &str, message: &str| Complaint {
        namespace: namespace.clone(),
        what: what.to_owned(),
        degraded,
        reason: reason.to_owned(),
        message: message.to_owned(),
        remedy: if degraded { remedies(reason, message) } else { remedy(reason) },
    };
    let unready = match ready(conditions) {
        Some(condition) if condition.status == "True" => None,
        Some(Condition { reason, message, .. }) => Some(complaint(false, reason, message)),
        None => Some(complaint(false, word::NOT_REPORTED, "the operator has not reported on it yet")),
    };
    let stated = conditions.iter().filter(|condition| condition.status == "True");
    let degraded = stated
        .filter(|condition| [DEGRADED, EXPIRING].contains(&condition.type_.as_str()))
        // An expired policy is not ready for the same reason.
        .filter(|condition| unready.as_ref().is_none_or(|unready| unready.reason != condition.reason))
        .map(|Condition { reason, message, .. }| complaint(true, reason, message));
    let degraded: Vec<Complaint> = degraded.collect();
    unready.into_iter().chain(degraded).collect()
}

fn replica(namespace: Option<String>, replica: ReplicaStatus) -> Complaint {
    let reason = replica.reason.unwrap_or_else(|| word::NOT_REPORTED.to_owned());
    Complaint {
        namespace,
        what: format!("pod/{}", replica.pod),
        degraded: false,
        remedy: remedy(&reason),
        reason,
        message: replica.message.unwrap_or_default(),
    }
}
