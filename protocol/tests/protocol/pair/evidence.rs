//! Evidence that is missing, foreign, relayed, or comes at the wrong time.

use sealane_protocol::connection::{ApiMisuse, ClosedBy, Event};
use sealane_types::{PodIdentity, Reason};

use super::support::{Held, Pair, Recipe};
use super::world::{Guest, Who, appraise};

#[test]
fn evidence_under_a_foreign_root_is_refused_on_either_side() {
    let mut pair = Pair::new();
    pair.initiator.guest = Guest::elsewhere(Who::Embedder);
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::RootMismatch)));
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Remote, Reason::RootMismatch)));

    let mut pair = Pair::new();
    pair.responder.guest = Guest::elsewhere(Who::Ranker);
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Local, Reason::RootMismatch)));
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Remote, Reason::RootMismatch)));
}

#[test]
fn another_workload_s_guest_is_refused() {
    let mut pair = Pair::new();
    pair.initiator.guest = Guest::of(Who::Ranker);
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::HostDataMismatch)));
}

/// The leaf that an initiator was asked to prove.
fn wanted(pair: &Pair) -> sealane_attestation::binding::Leaf {
    match pair.initiator.events.iter().find(|event| matches!(event, Event::EvidenceWanted(_))) {
        Some(Event::EvidenceWanted(wanted)) => wanted.leaf,
        other => panic!("{other:?}"),
    }
}

fn until_quote(seed: u64) -> Pair {
    let mut pair = Pair::of(Recipe { seed, ..Recipe::default() });
    pair.initiator.held = vec![Held::Quote];
    pair.run();
    pair
}

#[test]
fn evidence_of_another_handshake_is_refused() {
    // Relayed or replayed: genuine, from the right guest, for a handshake that is not this one.
    let (first, mut second) = (until_quote(1), until_quote(2));
    let message =
        first.initiator.guest.prove(wanted(&first), &first.initiator.local, &first.initiator.policy);
    second.initiator.connection.supply_evidence(&message).unwrap();
    second.run();
    second.assert_nobody_established();
    assert_eq!(second.responder.closed(), Some((ClosedBy::Local, Reason::EvidenceNotBound)));
}

#[test]
fn evidence_of_the_same_replica_s_other_handshake_is_refused() {
    let first = until_quote(1);
    let key = first.initiator.local.static_key.clone();
    let mut second = Pair::of(Recipe {
        seed: 2,
        initiator: Box::new(move |local| local.static_key = key.clone()),
        ..Recipe::default()
    });
    second.initiator.held = vec![Held::Quote];
    second.run();
    let message =
        first.initiator.guest.prove(wanted(&first), &first.initiator.local, &first.initiator.policy);
    second.initiator.connection.supply_evidence(&message).unwrap();
    second.run();
    second.assert_nobody_established();
    assert_eq!(second.responder.closed(), Some((ClosedBy::Local, Reason::EvidenceNotBound)));
}

#[test]
fn reflected_evidence_is_refused() {
    // A responder that sends the initiator's own message back has proved nothing.
    let mut pair = until_quote(1);
    pair.responder.held = vec![Held::Quote, Held::Verdict];
    let message = pair.initiator.guest.prove(wanted(&pair), &pair.initiator.local, &pair.initiator.policy);
    pair.initiator.connection.supply_evidence(&message).unwrap();
    pair.run();
    let received = pair.responder.received.take().unwrap();
    let verdict = appraise(&received, &pair.responder.policy).unwrap();
    pair.responder.connection.judged(Ok(verdict)).unwrap();
    pair.responder.connection.supply_evidence(&received.message).unwrap();
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Local, Reason::EvidenceNotBound)));
}

#[test]
fn a_verdict_about_somebody_else_is_refused() {
    // The shell mixes up two connections: the verdict of one does not open the other.
    let mut honest = Pair::new();
    honest.responder.held = vec![Held::Verdict];
    honest.run();
    let received = honest.responder.received.take().unwrap();
    let verdict = appraise(&received, &honest.responder.policy).unwrap();

    let mut other = Pair::of(Recipe { seed: 99, ..Recipe::default() });
    other.responder.held = vec![Held::Verdict];
    other.run();
    assert_eq!(other.responder.connection.judged(Ok(verdict)), Err(ApiMisuse::OtherPeer));
    other.run();
    other.assert_nobody_established();
    assert_eq!(other.responder.closed(), Some((ClosedBy::Local, Reason::PeerUnknown)));
}

#[test]
fn a_verdict_about_another_pod_or_peer_of_the_same_key_is_refused() {
    let mut honest = Pair::new();
    honest.responder.held = vec![Held::Verdict];
    honest.run();
    let received = honest.responder.received.take().unwrap();
    let verdict = appraise(&received, &honest.responder.policy).unwrap();
    for other_pod in [true, false] {
        let key = honest.initiator.local.static_key.clone();
        let mut other = Pair::of(Recipe {
            seed: 99,
            initiator: Box::new(move |local| {
                local.static_key = key.clone();
                if other_pod {
                    local.pod = PodIdentity::new("demo", "embedder-1", "6f1c").unwrap();
                } else {
                    local.peer = "another".parse().unwrap();
                }
            }),
            ..Recipe::default()
        });
        other.responder.held = vec![Held::Verdict];
        other.run();
        assert!(other.responder.received.is_some());
        assert_eq!(other.responder.connection.judged(Ok(verdict.clone())), Err(ApiMisuse::OtherPeer));
    }
}

#[test]
fn no_verdict_without_evidence() {
    let mut honest = Pair::new();
    honest.responder.held = vec![Held::Verdict];
    honest.run();
    let received = honest.responder.received.take().unwrap();
    let verdict = appraise(&received, &honest.responder.policy).unwrap();
    let mut early = until_quote(1);
    assert_eq!(early.responder.connection.judged(Ok(verdict)), Err(ApiMisuse::NotAwaited));
}

#[test]
fn a_later_verdict_replaces_the_first_or_ends_the_connection() {
    let mut pair = Pair::connected();
    let peer = pair.responder.connection.peer().unwrap().clone();
    pair.responder.connection.reconsidered(Ok(peer)).unwrap();
    assert!(pair.responder.connection.is_established());
    pair.responder.connection.reconsidered(Err(Reason::PeerNotInPolicy)).unwrap();
    pair.run();
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Remote, Reason::PeerNotInPolicy)));
}

#[test]
fn a_peer_that_is_not_the_expected_one_is_refused() {
    // The dialled side is a replica of another Peer than the session names.
    let mut pair = Pair::of(Recipe {
        responder: Box::new(|local| local.peer = "intruder".parse().unwrap()),
        ..Recipe::default()
    });
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::PeerUnknown)));
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Remote, Reason::PeerUnknown)));
}
