//! Connections that come about, and what both sides then know.

use proptest::prelude::*;
use sealane_protocol::connection::{ApiMisuse, Event, SendError};
use sealane_protocol::handshake::{KeyExchange, Kind, Suite};
use sealane_types::Cipher;

use super::support::{Held, Pair, Recipe, Seen, open_frame};
use super::world::{Who, session};

#[test]
fn two_honest_sides_connect() {
    let pair = Pair::connected();
    let hybrid = Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm);
    for (side, remote, remote_local) in [
        (&pair.initiator, Who::Ranker, &pair.responder.local),
        (&pair.responder, Who::Embedder, &pair.initiator.local),
    ] {
        assert_eq!(side.established(), Some(hybrid));
        let introduction = side.connection.introduction().unwrap();
        assert_eq!(introduction.kind, Kind::Full);
        assert_eq!(introduction.peer, remote.peer());
        assert_eq!(introduction.session, session());
        assert_eq!(introduction.pod, remote.pod());
        assert_eq!(&introduction.static_key, remote_local.static_key.public());
        let peer = side.connection.peer().unwrap();
        assert_eq!(peer.peer(), &remote.peer());
        assert_eq!(peer.static_key(), remote_local.static_key.public());
        assert_eq!(side.fail, None);
    }
}

#[test]
fn every_suite_works() {
    for suite in Suite::offer(Cipher::ALL, true) {
        let mut pair = Pair::connected_of(Recipe::with_suites(&[suite], true));
        assert_eq!(pair.initiator.established(), Some(suite));
        assert_eq!(pair.responder.connection.suite(), Some(suite));
        pair.initiator.connection.send(&open_frame()).unwrap();
        pair.run();
        assert!(matches!(pair.responder.seen.0[..], [Seen::Open(_)]));
    }
}

#[test]
fn hybrid_is_preferred_and_classical_only_a_last_resort() {
    let suites = Suite::offer(Cipher::ALL, true);
    let pair = Pair::connected_of(Recipe::with_suites(&suites, true));
    assert!(pair.initiator.established().unwrap().post_quantum());
}

#[test]
fn the_initiator_proves_first() {
    let mut pair = Pair::new();
    pair.initiator.held = vec![Held::Quote];
    pair.run();
    assert!(pair.initiator.events.iter().any(|event| matches!(event, Event::EvidenceWanted(_))));
    let responder_asked =
        |pair: &Pair| pair.responder.events.iter().any(|event| matches!(event, Event::EvidenceWanted(_)));
    assert!(!responder_asked(&pair), "a responder quotes for nobody unproved");
    pair.initiator.held.clear();
    let Some(Event::EvidenceWanted(wanted)) = pair.initiator.events.pop() else { panic!() };
    let message = pair.initiator.guest.prove(wanted.leaf, &pair.initiator.local, &pair.initiator.policy);
    pair.initiator.connection.supply_evidence(&message).unwrap();
    pair.run();
    assert!(responder_asked(&pair));
    assert!(pair.initiator.established().is_some() && pair.responder.established().is_some());
}

#[test]
fn nothing_flows_before_both_verdicts() {
    let mut pair = Pair::new();
    pair.initiator.held = vec![Held::Verdict];
    let refused = Err(SendError::Misuse(ApiMisuse::NotEstablished));
    assert_eq!(pair.initiator.connection.send(&open_frame()), refused);
    pair.run();
    // The responder has accepted and proved; the initiator has not judged yet.
    assert!(pair.initiator.received.is_some());
    assert_eq!(pair.initiator.connection.send(&open_frame()), refused);
    assert_eq!(pair.responder.connection.send(&open_frame()), refused);
    pair.assert_nobody_established();
}

#[test]
fn answers_that_nobody_awaits_change_nothing() {
    let mut pair = Pair::connected();
    let message = {
        let leaf = sealane_attestation::binding::Leaf::new(
            sealane_attestation::binding::Purpose::Handshake,
            sealane_attestation::binding::Role::Initiator,
            &[0; 32],
            &[0; 32],
            &[0; 32],
            &[0; 32],
        );
        pair.initiator.guest.prove(leaf, &pair.initiator.local, &pair.initiator.policy)
    };
    let connection = &mut pair.initiator.connection;
    assert_eq!(connection.supply_evidence(&message), Err(ApiMisuse::NotAwaited));
    assert_eq!(connection.admit_auditor(), Err(ApiMisuse::NotAwaited));
    assert_eq!(connection.supply_policy(2, &[]), Err(ApiMisuse::TooLarge));
    assert!(connection.is_established());
}

#[test]
fn one_quote_serves_several_handshakes() {
    let mut pairs = [1, 2, 3].map(|seed| Pair::of(Recipe { seed, ..Recipe::default() }));
    // One replica has one static key, whichever connection it speaks on.
    let key = pairs[0].initiator.local.static_key.clone();
    for (index, pair) in pairs.iter_mut().enumerate() {
        let key = key.clone();
        *pair = Pair::of(Recipe {
            seed: 10 + index as u64,
            initiator: Box::new(move |local| local.static_key = key.clone()),
            ..Recipe::default()
        });
        pair.initiator.held = vec![Held::Quote];
        pair.run();
    }
    let leaves: Vec<_> = pairs
        .iter()
        .map(|pair| match pair.initiator.events.last() {
            Some(Event::EvidenceWanted(wanted)) => wanted.leaf,
            other => panic!("{other:?}"),
        })
        .collect();
    for (index, pair) in pairs.iter_mut().enumerate() {
        let side = &mut pair.initiator;
        let message = side.guest.prove_together(&leaves, index as u32, &side.local, &side.policy);
        side.connection.supply_evidence(&message).unwrap();
        pair.run();
        assert!(pair.initiator.established().is_some() && pair.responder.established().is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_fragmentation_connects(seed: u64) {
        let mut pair = Pair::of(Recipe { seed, ..Recipe::default() });
        pair.fragmented = true;
        pair.run();
        prop_assert!(pair.initiator.established().is_some());
        prop_assert!(pair.responder.established().is_some());
    }
}
