//! The last step: writes statuses that changed, and an event for every condition that turned.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource};
use sealane_operator_api::well_known::condition::{COMPLETE, DEGRADED, EXPIRING, FAILED};
use sealane_operator_api::{
    Peer, PeerStatus, TransferSession, TransferSessionStatus, TrustPolicy, TrustPolicyStatus,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{Statuses, earlier};
use crate::names::FIELD_MANAGER;
use crate::reconcile::Context;
use crate::spec::Valid;

/// A status that could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the status of {kind} {namespace}/{name}")]
pub struct WriteError {
    kind: String,
    namespace: String,
    name: String,
    #[source]
    source: Box<kube::Error>,
}

/// A status of which part is counters, which may wait.
trait Status: Serialize + PartialEq + Clone + Default {
    fn conditions(&self) -> &[Condition];

    /// Takes the counters of another status of the same object.
    fn with_counters_of(self, _: &Self) -> Self {
        self
    }
}

impl Status for PeerStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl Status for TrustPolicyStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }
}

impl Status for TransferSessionStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn with_counters_of(self, other: &Self) -> Self {
        Self {
            bytes_transferred: other.bytes_transferred,
            tensors_transferred: other.tensors_transferred,
            forwarded: other.forwarded,
            ..self
        }
    }
}

/// Writes what differs. Returns when to look again.
///
/// # Errors
/// The first [`WriteError`]; the others are written all the same.
pub async fn write(
    context: &Context,
    valid: &Valid,
    statuses: Statuses,
) -> Result<Option<Duration>, WriteError> {
    let Statuses { peers, sessions, policies, again_in } = statuses;
    let mut again = again_in;
    let mut failure = None;
    let mut keep = |written: Result<Option<Duration>, WriteError>| match written {
        Ok(wait) => again = earlier(again, wait),
        Err(error) => failure = failure.take().or(Some(error)),
    };
    for (name, status) in policies {
        let object = valid.policies.get(&name).and_then(|policy| valid.snapshot.policies.get(policy.index));
        if let Some(object) = object {
            keep(object_status::<TrustPolicy, _>(context, object, object.status.as_ref(), &status).await);
        }
    }
    for (name, status) in peers {
        let object = valid.peers.get(&name).and_then(|peer| valid.snapshot.peers.get(peer.index));
        if let Some(object) = object {
            keep(object_status::<Peer, _>(context, object, object.status.as_ref(), &status).await);
        }
    }
    for (name, status) in sessions {
        let object = valid.sessions.get(&name).and_then(|session| valid.snapshot.sessions.get(session.index));
        if let Some(object) = object {
            keep(object_status::<TransferSession, _>(context, object, object.status.as_ref(), &status).await);
        }
    }
    failure.map_or(Ok(again), Err)
}

/// Writes one status; returns how long its counters must wait, if they were held back.
async fn object_status<K, S>(
    context: &Context,
    object: &K,
    live: Option<&S>,
    wanted: &S,
) -> Result<Option<Duration>, WriteError>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    S: Status,
{
    let none = S::default();
    let live = live.unwrap_or(&none);
    if live == wanted {
        return Ok(None);
    }
    let meta = object.meta();
    let uid = meta.uid.as_deref().unwrap_or_default();
    let only_counters = wanted.clone().with_counters_of(live) == *live;
    if only_counters && let Some(wait) = context.counters_wait(uid) {
        return Ok(Some(wait));
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    let api: Api<K> = Api::namespaced(context.client.clone(), namespace);
    // The uid makes the patch fail instead of making a new object when this one has been deleted meanwhile.
    let patch = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": name, "uid": uid}, "status": wanted,
    });
    let written =
        api.patch_status(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(patch)).await;
    match written {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => return Ok(None),
        Err(source) => {
            return Err(WriteError {
                kind: K::kind(&()).into_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                source: Box::new(source),
            });
        }
    }
    context.counted(uid);
    announce(context, &object.object_ref(&()), live.conditions(), wanted.conditions()).await;
    Ok(None)
}

/// One event for every condition that turned.
async fn announce(context: &Context, reference: &ObjectReference, before: &[Condition], after: &[Condition]) {
    for condition in turned(before, after) {
        let event = Event {
            type_: if is_good(condition) { EventType::Normal } else { EventType::Warning },
            reason: condition.reason.clone(),
            note: Some(
                format!("{} is {}: {}", condition.type_, condition.status, condition.message)
                    .chars()
                    .take(1000)
                    .collect(),
            ),
            action: condition.type_.clone(),
            secondary: None,
        };
        // An event that is lost is not worth a retry: the condition says the same.
        if let Err(error) = context.recorder.publish(&event, reference).await {
            tracing::debug!(%error, "an event was not written");
        }
    }
}

/// How every object begins: no news.
const BEGINNINGS: [&str; 5] = ["NoReplicas", "NotAttached", "NotConfigured", "PeerUnknown", "Connecting"];

/// Conditions that changed their status. A first one counts only when it has something to say, and one that was
/// never good does not become news by still not being it.
fn turned<'a>(before: &'a [Condition], after: &'a [Condition]) -> impl Iterator<Item = &'a Condition> {
    after.iter().filter(|condition| {
        let beginning = BEGINNINGS.contains(&condition.reason.as_str());
        match before.iter().find(|earlier| earlier.type_ == condition.type_) {
            Some(earlier) if earlier.status == condition.status => false,
            Some(earlier) => condition.status == "True" || earlier.status == "True" || !beginning,
            None => {
                condition.status == "True"
                    || (condition.status == "False" && !is_good(condition) && !beginning)
            }
        }
    })
}

/// Whether the condition's status is the desirable one.
fn is_good(condition: &Condition) -> bool {
    match condition.type_.as_str() {
        DEGRADED | EXPIRING | FAILED => condition.status != "True",
        // Not complete is no fault.
        COMPLETE => true,
        _ => condition.status == "True",
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn condition(type_: &str, status: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: "R".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        }
    }

    #[test]
    fn events_tell_of_turns_and_of_nothing_else() {
        let types = |before: &[Condition], after: &[Condition]| {
            turned(before, after).map(|condition| condition.type_.clone()).collect::<Vec<_>>()
        };
        let (bad, good) = (condition("Ready", "False"), condition("Ready", "True"));
        assert_eq!(types(slice::from_ref(&bad), slice::from_ref(&good)), ["Ready"]);
        assert!(types(slice::from_ref(&good), slice::from_ref(&good)).is_empty());
        // A new object: it is news that it is not ready, not that it is not degraded or complete.
        let fresh =
            [bad, condition("Degraded", "False"), condition("Complete", "False"), condition("X", "Unknown")];
        assert_eq!(types(&[], &fresh), ["Ready"]);
        // Pods come and attach: the way up is no event, only its end is.
        let waiting = Condition { reason: "NotAttached".to_owned(), ..condition("Ready", "False") };
        assert!(types(&[], slice::from_ref(&waiting)).is_empty());
        assert!(types(&[condition("Ready", "Unknown")], slice::from_ref(&waiting)).is_empty());
        assert_eq!(types(&[condition("Ready", "True")], &[waiting]), ["Ready"]);
        assert!(!is_good(&condition("Degraded", "True")) && is_good(&condition("Complete", "True")));
    }

    #[test]
    fn counters_alone_are_told_from_the_rest() {
        let live = TransferSessionStatus { tensors_transferred: Some(1), ..Default::default() };
        let counted = TransferSessionStatus { tensors_transferred: Some(2), ..live.clone() };
        assert_eq!(counted.clone().with_counters_of(&live), live);
        let moved = TransferSessionStatus { connections: Some(1), ..counted };
        assert_ne!(moved.with_counters_of(&live), live);
    }
}
