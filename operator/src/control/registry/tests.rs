use sealane_sidecar_api::control::{EvidenceReport, SessionReport};

use sealane_types::{Delivery, PeerName, Provider};

use super::*;
use crate::desired::{Kind, Membership, Preferred, Session, Terms};

fn identity(uid: &str) -> PodIdentity {
    PodIdentity::new("demo", "embedder-0", uid).unwrap()
}

fn registration(incarnation: u8) -> Registration {
    Registration {
        version: "0.1.0".to_owned(),
        node: "node-1".to_owned(),
        addresses: vec!["10.0.0.7".parse().unwrap()],
        data_port: 14710,
        static_key: [1; 32],
        incarnation: [incarnation; 16],
        deltas: true,
    }
}

fn report(tensors: u64) -> Report {
    let session = SessionReport {
        uid: "s".to_owned(),
        tensors,
        bytes: tensors * 10,
        forwarded: 1,
        ..Default::default()
    };
    Report { sessions: vec![session], ..Default::default() }
}

fn member(peer: &str) -> Desired {
    Desired::Member(Membership {
        peer: PeerName::new(peer).unwrap(),
        provider: Provider::Auto,
        reattest_seconds: 600,
        policy: None,
        sessions: Arc::default(),
    })
}

/// A member that takes part in session `s`.
fn side(sending: bool) -> Desired {
    let session = Session {
        name: "activations".parse().unwrap(),
        uid: "s".to_owned(),
        sending,
        terms: Terms {
            kind: Kind::Stream { delivery: Delivery::RoundRobin, fanout: 16 },
            carrier: Default::default(),
            congestion: Default::default(),
            cipher: Default::default(),
            rekey_bytes: 1,
            rekey_messages: 1,
            rekey_seconds: 1,
        },
        preferred: Preferred::default(),
        suspend: false,
        remotes: Vec::new(),
    };
    Desired::Member(Membership {
        peer: PeerName::new("ranker").unwrap(),
        provider: Provider::Auto,
        reattest_seconds: 600,
        policy: None,
        sessions: [session].into(),
    })
}

#[tokio::test]
async fn only_changes_are_pushed_and_the_newest_wins() {
    let registry = Registry::default();
    let mut attachment = registry.attach(identity("u"), registration(1)).unwrap();
    assert!(registry.push("u", &member("a")));
    assert!(!registry.push("u", &member("a")));
    assert!(registry.push("u", &member("b")));
    attachment.outgoing.changed().await.unwrap();
    let told = attachment.outgoing.borrow_and_update().clone().unwrap();
    assert_eq!((told.rendered.desired(), told.generation), (&member("b"), 2));
    assert!(!registry.push("unknown", &member("a")));
}

#[tokio::test]
async fn what_is_asked_for_goes_to_the_stream_that_asks() {
    let registry = Registry::default();
    let mut first = registry.attach(identity("u"), registration(1)).unwrap();
    registry.resend("u", first.id);
    assert!(!first.outgoing.has_changed().unwrap(), "it was told nothing yet");
    registry.push("u", &member("a"));
    first.outgoing.mark_unchanged();
    registry.resend("u", first.id + 1);
    assert!(!first.outgoing.has_changed().unwrap());
    registry.resend("u", first.id);
    let told = first.outgoing.borrow_and_update().clone().unwrap();
    assert_eq!((told.asked, told.generation), (1, 1));
    assert!(!registry.push("u", &member("a")), "what is to be told is the same");
}

#[tokio::test]
async fn a_second_stream_of_a_pod_ends_the_first() {
    let registry = Registry::default();
    let first = registry.attach(identity("u"), registration(1)).unwrap();
    let second = registry.attach(identity("u"), registration(1)).unwrap();
    assert!(first.ended.is_cancelled() && !second.ended.is_cancelled());
    // What the first one still says or how it ends changes nothing.
    assert_eq!(registry.report("u", first.id, report(1)), Change::Nothing);
    registry.detach("u", first.id);
    assert_eq!(registry.attached(), 1);
    assert!(registry.push("u", &member("a")), "a new stream is told everything again");
}

#[tokio::test]
async fn counters_are_told_from_state() {
    let registry = Registry::default();
    let attachment = registry.attach(identity("u"), registration(1)).unwrap();
    assert_eq!(registry.report("u", attachment.id, report(1)), Change::State);
    assert_eq!(registry.report("u", attachment.id, report(1)), Change::Nothing);
    assert_eq!(registry.report("u", attachment.id, report(2)), Change::Counters);
    let attested =
        Report { evidence: Some(EvidenceReport { verified: true, ..Default::default() }), ..report(3) };
    assert_eq!(registry.report("u", attachment.id, attested), Change::State);
}

#[tokio::test]
async fn totals_survive_their_process_once() {
    let registry = Registry::default();
    let retired = || {
        let of_session = registry.retired("demo").remove("s").unwrap_or_default();
        of_session.into_values().fold(Totals::default(), Totals::plus)
    };
    let first = registry.attach(identity("u"), registration(1)).unwrap();
    registry.push("u", &side(false));
    registry.report("u", first.id, report(5));
    // The same process comes back: nothing is counted twice.
    registry.detach("u", first.id);
    let again = registry.attach(identity("u"), registration(1)).unwrap();
    assert_eq!(retired(), Totals::default());
    assert_eq!(registry.in_namespace("demo")[0].report.as_ref().unwrap().sessions[0].tensors, 5);
    // Another process in the same pod starts from zero.
    registry.attach(identity("u"), registration(2)).unwrap();
    assert_eq!(retired(), Totals { tensors: 5, bytes: 50, forwarded: 1 });
    assert_eq!(registry.report("u", again.id, report(9)), Change::Nothing);
    assert!(registry.in_namespace("demo")[0].report.is_none());
    // The pod is gone, then the session.
    registry.remove("u");
    assert_eq!(retired(), Totals { tensors: 5, bytes: 50, forwarded: 1 });
    registry.keep_retired("other", |_, _, _| false);
    assert_eq!(retired(), Totals { tensors: 5, bytes: 50, forwarded: 1 });
    // A status has it, and nobody else needs to remember it.
    registry.keep_retired("demo", |session, process, totals| {
        assert_eq!((session, process.pod.as_str(), process.incarnation), ("s", "u", [1; 16]));
        totals.tensors > 5
    });
    assert_eq!(retired(), Totals::default());
}

#[tokio::test]
async fn what_a_sender_counted_is_not_counted_again() {
    let registry = Registry::default();
    let attachment = registry.attach(identity("u"), registration(1)).unwrap();
    registry.push("u", &side(true));
    registry.report("u", attachment.id, report(5));
    registry.remove("u");
    assert!(registry.retired("demo").is_empty());
}

#[tokio::test]
async fn a_detached_sidecar_stays_known_with_its_absence() {
    let registry = Registry::default();
    let attachment = registry.attach(identity("u"), registration(1)).unwrap();
    assert_eq!(registry.in_namespace("demo")[0].detached, None);
    registry.detach("u", attachment.id);
    assert!(registry.in_namespace("demo")[0].detached.unwrap() < Duration::from_secs(60));
    assert!(registry.in_namespace("other").is_empty());
}

#[tokio::test]
async fn losing_leadership_ends_every_stream() {
    let registry = Registry::default();
    let attachment = registry.attach(identity("u"), registration(1)).unwrap();
    registry.close();
    assert!(attachment.ended.is_cancelled());
    assert_eq!(registry.attached(), 0);
    let refused = registry.attach(identity("u"), registration(1));
    assert_eq!(refused.unwrap_err(), AttachError::NotLeading);
}
