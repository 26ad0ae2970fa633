//! Pods that cannot be made: what the controllers of workloads say of it, in events alone.
//!
//! A Peer whose pods are refused, by a quota or at admission, looks like one whose workload nobody started.

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use sealane_policy::Timestamp;

/// What says so.
const SELECTED: &str = "reason=FailedCreate,type=Warning";
/// As long as the API server keeps events, unless it is told otherwise.
const RECENT_SECONDS: i64 = 60 * 60;
/// Of a message, in one line.
const MESSAGE_CHARACTERS_MAX: usize = 400;

/// A workload whose pods cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) namespace: String,
    /// `KIND/NAME`.
    pub(crate) workload: String,
    pub(crate) message: String,
}

impl Failure {
    /// For a Peer of `namespace` that has no pods: what is said there, the newest first.
    pub(crate) fn of_namespace<'a>(failures: &'a [Self], namespace: &str) -> Option<&'a Self> {
        failures.iter().find(|failure| failure.namespace == namespace)
    }

    pub(crate) fn text(&self) -> String {
        format!("pods of {} cannot be made: {}", self.workload, self.message)
    }
}

/// Those of a namespace, or of all. Events only add to what is known: where they cannot be read there are none.
pub(crate) async fn failures(client: &Client, namespace: Option<&str>, now: Timestamp) -> Vec<Failure> {
    let api: Api<Event> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let listed = api.list(&ListParams::default().fields(SELECTED)).await;
    listed.map(|listed| newest(listed.items, now)).unwrap_or_default()
}

/// One of each workload, the newest first.
fn newest(mut events: Vec<Event>, now: Timestamp) -> Vec<Failure> {
    let now = i64::try_from(now.unix().0).unwrap_or(i64::MAX);
    events.retain(|event| seen(event).saturating_add(RECENT_SECONDS) >= now);
    events.sort_by_key(|event| std::cmp::Reverse(seen(event)));
    let mut failures: Vec<Failure> = Vec::new();
    for event in events {
        let object = &event.involved_object;
        let (kind, name) = (object.kind.as_deref().unwrap_or_default(), object.name.as_deref());
        let workload = format!("{}/{}", kind.to_lowercase(), name.unwrap_or_default());
        let namespace = object.namespace.clone().unwrap_or_default();
        if failures.iter().any(|known| known.workload == workload && known.namespace == namespace) {
            continue;
        }
        let message = event.message.unwrap_or_default();
        let message = message.strip_prefix("Error creating: ").unwrap_or(&message);
        let message = message.chars().take(MESSAGE_CHARACTERS_MAX).collect();
        failures.push(Failure { namespace, workload, message });
    }
    failures
}

/// When it was seen last, in seconds since 1970.
fn seen(event: &Event) -> i64 {
    let micro = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let made = event.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let time = micro.map(|time| time.0).or(last).or(event.event_time.as_ref().map(|time| time.0)).or(made);
    time.map_or(0, |time| time.as_second())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(workload: &str, at: Value, message: &str) -> Event {
        let object = json!({"kind": "ReplicaSet", "name": workload, "namespace": "demo"});
        serde_json::from_value(json!({
            "metadata": {"namespace": "demo", "name": "e"}, "involvedObject": object, "reason": "FailedCreate",
            "message": message, "lastTimestamp": at,
        }))
        .unwrap()
    }

    #[test]
    fn what_a_workload_said_last_counts_and_for_an_hour() {
        let events = vec![
            event("embedder-1", json!("2026-11-20T11:10:00Z"), "Error creating: older"),
            event("embedder-1", json!("2026-11-20T11:50:00Z"), "Error creating: exceeded quota: q"),
            event("ranker-1", json!("2026-11-20T11:55:00Z"), "denied the request: sealane: no room"),
            event("done-1", json!("2026-11-20T10:00:00Z"), "Error creating: long ago"),
        ];
        let found = newest(events, "2026-11-20T12:00:00Z".parse().unwrap());
        let texts: Vec<String> = found.iter().map(Failure::text).collect();
        assert_eq!(
            texts,
            [
                "pods of replicaset/ranker-1 cannot be made: denied the request: sealane: no room",
                "pods of replicaset/embedder-1 cannot be made: exceeded quota: q",
            ]
        );
        assert_eq!(Failure::of_namespace(&found, "demo"), found.first());
        assert_eq!(Failure::of_namespace(&found, "other"), None);
    }

    #[test]
    fn events_of_either_api_have_their_time() {
        let mut newer = event("a", json!(null), "m");
        let time = json!({"count": 3, "lastObservedTime": "2026-11-20T11:59:00.000000Z"});
        newer.series = serde_json::from_value(time).unwrap();
        assert_eq!(newest(vec![newer], "2026-11-20T12:00:00Z".parse().unwrap()).len(), 1);
        assert!(
            newest(vec![event("a", json!(null), "m")], "2026-11-20T12:00:00Z".parse().unwrap()).is_empty()
        );
    }
}
