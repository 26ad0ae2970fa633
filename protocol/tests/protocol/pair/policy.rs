//! The side that is behind receives the newer signed policy first.

use sealane_policy::Floors;
use sealane_protocol::connection::{ApiMisuse, ClosedBy, Event, Fail, PolicyView};
use sealane_protocol::limits::POLICY_CHAIN_BYTES_MAX;
use sealane_types::Reason;

use super::support::{Held, Pair, Recipe};
use super::world::{Who, chain, policy, verified, view};

#[test]
fn either_side_catches_up_before_evidence() {
    for (ours, theirs) in [(5, 3), (3, 5)] {
        let pair = Pair::connected_of(Recipe {
            initiator_policy: policy(ours),
            responder_policy: policy(theirs),
            ..Recipe::default()
        });
        assert_eq!(pair.initiator.policy.epoch(), 5);
        assert_eq!(pair.responder.policy.epoch(), 5);
        let offered = |events: &[Event]| {
            events.iter().any(|event| matches!(event, Event::PolicyOffered { epoch: 5, .. }))
        };
        assert_eq!(offered(&pair.initiator.events), ours == 3);
        assert_eq!(offered(&pair.responder.events), theirs == 3);
    }
}

#[test]
fn a_side_without_any_policy_receives_one() {
    for responder_is_new in [true, false] {
        let without = |local: &mut sealane_protocol::connection::Local| {
            local.policy = PolicyView::none(local.policy.floor.clone());
        };
        let recipe = if responder_is_new {
            Recipe { responder: Box::new(without), ..Recipe::default() }
        } else {
            Recipe { initiator: Box::new(without), ..Recipe::default() }
        };
        Pair::connected_of(recipe);
    }
}

#[test]
fn two_sides_without_any_policy_do_not_connect() {
    let without = |local: &mut sealane_protocol::connection::Local| {
        local.policy = PolicyView::none(local.policy.floor.clone());
    };
    let mut pair =
        Pair::of(Recipe { initiator: Box::new(without), responder: Box::new(without), ..Recipe::default() });
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.responder.fail, Some(Fail::PolicyMissing));
}

#[test]
fn two_policies_of_one_epoch_fail_closed() {
    let other = verified(&chain(1, &Floors::default(), 7200)).unwrap();
    let mut pair = Pair::of(Recipe { responder_policy: other, ..Recipe::default() });
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.responder.fail, Some(Fail::PolicyConflict));
    assert_eq!(pair.initiator.closed().map(|(_, reason)| reason), Some(Reason::PolicyConflict));
}

#[test]
fn evidence_that_overtakes_the_verification_waits() {
    for fragmented in [false, true] {
        let mut pair = Pair::of(Recipe { initiator_policy: policy(5), ..Recipe::default() });
        pair.fragmented = fragmented;
        pair.responder.held = vec![Held::Policy];
        pair.run();
        // The initiator has long sent its evidence; the responder still verifies the policy.
        pair.assert_nobody_established();
        let Some(Event::PolicyOffered { chain, .. }) = pair.responder.events.last().cloned_offer() else {
            panic!("{:?}", pair.responder.events)
        };
        pair.responder.adopt(&chain);
        pair.run();
        assert!(pair.initiator.established().is_some() && pair.responder.established().is_some());
    }
}

trait ClonedOffer {
    fn cloned_offer(self) -> Option<Event>;
}

impl ClonedOffer for Option<&Event> {
    fn cloned_offer(self) -> Option<Event> {
        match self {
            Some(Event::PolicyOffered { epoch, chain }) => {
                Some(Event::PolicyOffered { epoch: *epoch, chain: chain.clone() })
            }
            _ => None,
        }
    }
}

#[test]
fn a_promised_policy_must_come() {
    // A peer that claims a higher epoch and cannot show it gets nowhere, whatever it sends instead.
    let mut pair =
        Pair::of(Recipe { initiator: Box::new(|local| local.policy.epoch = 9), ..Recipe::default() });
    pair.run();
    pair.assert_nobody_established();
    assert!(pair.responder.connection.is_closed());
}

#[test]
fn an_epoch_below_the_promised_one_is_no_answer() {
    let mut pair = Pair::of(Recipe { initiator_policy: policy(5), ..Recipe::default() });
    pair.responder.held = vec![Held::Policy];
    pair.run();
    pair.responder.connection.policy_adopted(view(&policy(4)));
    pair.run();
    assert!(!pair.responder.events.iter().any(|event| matches!(event, Event::EvidenceWanted(_))));
    pair.assert_nobody_established();
    pair.advance(10_000_000);
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::HandshakeTimeout)));
}

#[test]
fn a_policy_adopted_meanwhile_does_not_confuse_the_two_sides() {
    // Both confirm epoch 1; the initiator adopts epoch 2 before it hears the responder's confirm.
    let mut pair = Pair::new();
    for _ in 0..2 {
        let there = pair.flight(Who::Embedder);
        pair.deliver(Who::Ranker, &there);
        if pair.initiator.connection.suite().is_none() {
            let back = pair.flight(Who::Ranker);
            pair.deliver(Who::Embedder, &back);
        }
    }
    assert!(pair.initiator.connection.introduction().is_none());
    pair.initiator.connection.policy_adopted(view(&policy(2)));
    pair.run();
    assert!(pair.initiator.established().is_some(), "{:?}", pair.initiator.events);
}

#[test]
fn a_policy_newer_than_promised_is_welcome() {
    let mut pair = Pair::of(Recipe { initiator_policy: policy(5), ..Recipe::default() });
    pair.initiator.held = vec![Held::Policy];
    pair.run();
    pair.initiator.held.clear();
    pair.initiator.policy = policy(6);
    pair.initiator.connection.policy_adopted(view(&policy(6)));
    let chain = serde_json::to_vec(pair.initiator.policy.chain()).unwrap();
    pair.initiator.connection.supply_policy(6, &chain).unwrap();
    pair.run();
    assert_eq!(pair.responder.policy.epoch(), 6);
    assert!(pair.initiator.established().is_some() && pair.responder.established().is_some());
}

#[test]
fn a_policy_older_than_promised_is_refused() {
    let mut pair = Pair::of(Recipe { initiator_policy: policy(5), ..Recipe::default() });
    pair.initiator.held = vec![Held::Policy];
    pair.run();
    pair.initiator.connection.supply_policy(4, b"{}").unwrap();
    pair.run();
    assert!(matches!(pair.responder.fail, Some(Fail::Order(_))));
}

#[test]
fn a_newer_policy_travels_on_an_established_connection() {
    let mut pair = Pair::connected();
    let newer = chain(2, &Floors::default(), 3600);
    let bytes = serde_json::to_vec(&newer).unwrap();
    pair.initiator.connection.supply_policy(2, &bytes).unwrap();
    pair.run();
    assert_eq!(pair.responder.policy.epoch(), 2);
    assert!(pair.responder.connection.is_established());
    // What the remote holds already is not offered again.
    let offers = pair.responder.events.len();
    pair.initiator.connection.supply_policy(1, &bytes).unwrap();
    pair.run();
    assert_eq!(pair.responder.events.len(), offers);
}

#[test]
fn an_older_policy_is_never_adopted() {
    // Were it, the newer one would be offered again.
    let mut pair = Pair::connected_of(Recipe {
        initiator_policy: policy(5),
        responder_policy: policy(5),
        ..Recipe::default()
    });
    pair.responder.connection.policy_adopted(view(&policy(3)));
    let chain = serde_json::to_vec(pair.initiator.policy.chain()).unwrap();
    pair.initiator.connection.supply_policy(5, &chain).unwrap();
    pair.run();
    assert!(!pair.responder.events.iter().any(|event| matches!(event, Event::PolicyOffered { .. })));
}

#[test]
fn a_policy_has_a_size_limit() {
    let mut pair = Pair::connected();
    let refused = pair.initiator.connection.supply_policy(2, &vec![b' '; POLICY_CHAIN_BYTES_MAX + 1]);
    assert_eq!(refused, Err(ApiMisuse::TooLarge));
    // The largest one passes in fragments, through a full output.
    pair.initiator.connection.supply_policy(2, &vec![b' '; POLICY_CHAIN_BYTES_MAX]).unwrap();
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::PolicyUnsigned)));
    assert!(pair.flight(Who::Embedder).is_empty());
}
