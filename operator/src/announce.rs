//! An event for every condition that turned.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType, Recorder};
use sealane_operator_api::well_known::condition::{
    COMPLETE, DEGRADED, EXPIRING, FAILED, READY, RECOMMENDED, REGRESSED, RUNNING,
};

use sealane_operator_api::word;

use crate::names::OPERATOR_VERSION;
use crate::spec::Unreadable;

/// One event for every condition that turned.
pub(crate) async fn announce(
    recorder: &Recorder,
    reference: &ObjectReference,
    before: &[Condition],
    after: &[Condition],
) {
    for condition in news(before, after) {
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
        if let Err(error) = recorder.publish(&event, reference).await {
            tracing::debug!(%error, "an event was not written");
        }
    }
}

/// An event for every object that cannot be read: its status, which this operator cannot write, says nothing of it.
pub(crate) async fn announce_unreadable(recorder: &Recorder, objects: &[&Unreadable]) {
    for Unreadable { reference, error, kept } in objects {
        let goes_on = if *kept {
            "what runs by it goes on as it was read last, until this operator ends"
        } else {
            "nothing is done by it"
        };
        let note = format!("this operator (release {OPERATOR_VERSION}) cannot read it: {error}; {goes_on}");
        tracing::warn!(
            kind = reference.kind,
            namespace = reference.namespace,
            name = reference.name,
            error,
            kept,
            "an object cannot be read; was it written by a newer release?"
        );
        let event = Event {
            type_: EventType::Warning,
            reason: word::UNREADABLE.to_owned(),
            note: Some(note.chars().take(1000).collect()),
            action: "Reading".to_owned(),
            secondary: None,
        };
        if let Err(error) = recorder.publish(&event, reference).await {
            tracing::debug!(%error, "an event was not written");
        }
    }
}

/// How every object begins: no news.
const BEGINNINGS: [&str; 8] = [
    "NoReplicas",
    "NotAttached",
    "NotConfigured",
    "NotConnected",
    "PeerUnknown",
    "PolicyMissing",
    "EvidenceMissing",
    "Connecting",
];

/// Conditions that turned, each cause once: what follows from it would repeat its word.
fn news<'a>(before: &'a [Condition], after: &'a [Condition]) -> Vec<&'a Condition> {
    let mut told: Vec<&Condition> = Vec::new();
    for condition in turned(before, after) {
        let same = |earlier: &&Condition| {
            earlier.reason == condition.reason && is_good(earlier) == is_good(condition)
        };
        if !told.iter().any(same) {
            told.push(condition);
        }
    }
    told
}

/// Conditions that changed their status, to one that is known. A first one counts only when it has something to say, and one that was
/// never good does not become news by still not being it.
fn turned<'a>(before: &'a [Condition], after: &'a [Condition]) -> impl Iterator<Item = &'a Condition> {
    let was_ready = before.iter().any(|earlier| earlier.type_ == READY && earlier.status == "True");
    // Connections open one after the other: that some are not open yet is no news of an object that was not ready.
    let opening = move |condition: &Condition| {
        !was_ready && condition.type_ == DEGRADED && condition.reason == word::SOME_UNCONNECTED
    };
    let known = after.iter().filter(move |condition| condition.status != "Unknown" && !opening(condition));
    known.filter(|condition| {
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
        DEGRADED | EXPIRING | FAILED | REGRESSED => condition.status != "True",
        // Not complete is no fault; a run that failed says so in its reason.
        COMPLETE => condition.reason != word::RUN_FAILED,
        RUNNING => true,
        // Unknown is how it stands where nobody measures transports.
        RECOMMENDED => condition.status != "False",
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
        // What is not known any more is told by what is: Ready says why.
        let unknown = [condition("Ready", "True"), condition("PolicyVerified", "Unknown")];
        assert!(
            types(&[condition("Ready", "True"), condition("PolicyVerified", "True")], &unknown).is_empty()
        );
        assert!(!is_good(&condition("Degraded", "True")) && is_good(&condition("Complete", "True")));
    }

    /// Objects of one apply come in any order, pods attach and prove themselves, connections open one by one.
    #[test]
    fn a_healthy_start_has_no_warning() {
        let with = |type_: &str, status: &str, reason: &str| Condition {
            reason: reason.to_owned(),
            ..condition(type_, status)
        };
        let steps = [
            vec![with("Ready", "False", "PeerUnknown"), with("Degraded", "False", "AsDeclared")],
            vec![with("Ready", "False", "PolicyMissing"), with("Degraded", "False", "AsDeclared")],
            vec![with("Ready", "False", "NotAttached"), with("EvidenceVerified", "Unknown", "NotAttached")],
            vec![
                with("Ready", "False", "EvidenceMissing"),
                with("EvidenceVerified", "False", "EvidenceMissing"),
            ],
            vec![with("Ready", "False", "NotConnected"), with("EvidenceVerified", "True", "AllVerified")],
            vec![with("Ready", "True", "Connected"), with("Degraded", "True", "SomeUnconnected")],
            vec![with("Ready", "True", "Connected"), with("Degraded", "False", "AsDeclared")],
        ];
        let mut before: Vec<Condition> = Vec::new();
        for after in steps {
            let warnings: Vec<_> = news(&before, &after).into_iter().filter(|news| !is_good(news)).collect();
            assert!(warnings.is_empty(), "{warnings:?}");
            before = after;
        }
        // What was well and is not any more is news.
        let lost = [with("Ready", "True", "Connected"), with("Degraded", "True", "SomeUnconnected")];
        assert_eq!(news(&before, &lost).len(), 1);
        let missing = [with("Ready", "False", "PolicyMissing")];
        assert!(news(&lost, &missing).iter().any(|news| news.reason == "PolicyMissing"));
    }

    #[test]
    fn one_cause_is_one_event() {
        let types = |after: &[Condition]| {
            news(&[], after).iter().map(|condition| condition.type_.clone()).collect::<Vec<_>>()
        };
        let (ready, policy) = (condition("Ready", "False"), condition("PolicyVerified", "False"));
        assert_eq!(types(&[ready.clone(), policy.clone()]), ["Ready"]);
        let other = Condition { reason: "Other".to_owned(), ..policy };
        assert_eq!(types(&[ready, other]), ["Ready", "PolicyVerified"]);
    }
}
