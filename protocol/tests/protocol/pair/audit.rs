//! Connections that ask for evidence and carry nothing.

use sealane_attestation::binding::Purpose;
use sealane_protocol::connection::{ApiMisuse, ClosedBy, Event, SendError};
use sealane_protocol::handshake::Kind;
use sealane_types::Reason;

use super::support::{Held, Pair, Recipe, open_frame};

fn recipe() -> Recipe {
    Recipe { kind: Kind::Audit, ..Recipe::default() }
}

#[test]
fn an_auditor_sees_evidence_and_shows_none() {
    let mut pair = Pair::connected_of(recipe());
    let asked = |events: &[Event]| {
        events.iter().find_map(|event| match event {
            Event::EvidenceWanted(wanted) => Some(wanted.purpose),
            _ => None,
        })
    };
    assert_eq!(asked(&pair.initiator.events), None);
    assert_eq!(asked(&pair.responder.events), Some(Purpose::Audit));
    assert!(pair.initiator.connection.peer().is_some());
    assert!(pair.responder.connection.peer().is_none());
    pair.initiator.connection.close(Reason::Finished);
    pair.run();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Remote, Reason::Finished)));
}

#[test]
fn no_data_flows_in_an_audit() {
    let mut pair = Pair::connected_of(recipe());
    let refused = Err(SendError::Misuse(ApiMisuse::NotEstablished));
    assert_eq!(pair.initiator.connection.send(&open_frame()), refused);
    assert_eq!(pair.responder.connection.send(&open_frame()), refused);
}

#[test]
fn an_unknown_auditor_gets_no_quote() {
    let mut pair = Pair::of(recipe());
    pair.responder.held = vec![Held::Auditor];
    pair.run();
    assert!(pair.responder.events.iter().any(|event| matches!(event, Event::AuditorIntroduced)));
    assert!(!pair.responder.events.iter().any(|event| matches!(event, Event::EvidenceWanted(_))));
    pair.responder.connection.close(Reason::KeyMismatch);
    pair.run();
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Remote, Reason::KeyMismatch)));
}

#[test]
fn an_auditor_may_be_behind() {
    let pair = Pair::connected_of(Recipe {
        kind: Kind::Audit,
        initiator: Box::new(|local| {
            local.policy = sealane_protocol::connection::PolicyView::none(local.policy.floor.clone());
        }),
        responder_policy: super::world::policy(4),
        ..Recipe::default()
    });
    assert_eq!(pair.initiator.policy.epoch(), 4);
}
