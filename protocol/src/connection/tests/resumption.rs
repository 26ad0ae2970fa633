//! Rogue ends of connections that are resumed, and of tickets.

use sealane_support::rehearsal::rehearsed;
use sealane_support::world::Who;

use super::*;
use crate::handshake::{Presented, Resuming, Terms};
use crate::keys::{EvidenceDigests, TicketId};
use crate::limits::{LIFE_MICROS, REATTEST_INTERVAL_MICROS_MIN, TICKETS_OF_ATTESTATION_MAX};
use crate::ticket::Past;

const ID: TicketId = TicketId([7; 16]);

/// The responder's half of a ticket that a rogue embedder got.
fn ticket() -> Ticket {
    let remote = Arc::new(rehearsed(Who::Embedder).verdict.clone());
    Ticket {
        id: ID,
        secret: Secret::take(&mut [7; 32]),
        exchange: crate::handshake::KeyExchange::Hybrid,
        role: Role::Responder,
        own_static: *key(2).public(),
        epoch: 7,
        deadline: NOW.plus_micros(LIFE_MICROS),
        past: Past { remote, evidence: EvidenceDigests::NONE, attested: NOW, began: NOW },
    }
}

/// A rogue that resumes, with the genuine secret of a ticket.
fn resumes() -> Rogue {
    let setup = AcceptSetup { local: local("ranker", 2, 7), audit: true };
    let mut honest = Connection::accept(setup, &mut Fixed(4), NOW).unwrap();
    let Ticket { id, secret, exchange, past, .. } = ticket();
    let presented = Presented { id, secret, exchange, remote_static: *past.remote.static_key() };
    let suites = Suite::offer(&[Cipher::Aes256Gcm], false);
    let (rogue, opening) =
        Resuming::begin(presented, suites, crate::handshake::capability::of(false), &mut Fixed(3)).unwrap();
    let mut first = [opening.hello, framed(RecordKind::Handshake, &opening.message)].concat();
    let mut seen = Count(0);
    honest.handle_input(NOW, &mut first, &mut seen).unwrap();
    assert_eq!(honest.poll_event(), Some(Event::TicketPresented(ID)));
    honest.answer_ticket(Some(ticket())).unwrap();
    let reply = drain(&mut honest);
    let finished = rogue.on_message2(&reply[RECORD_HEADER_BYTES..]).unwrap();
    let sealer = Sealer::new(finished.root.link(Label::Initiator), Rekey::default(), NOW);
    Rogue { honest, sealer, finished, seen }
}

/// Up to the honest side's acceptance.
fn accepted() -> Rogue {
    let mut rogue = resumes();
    rogue.say(&Control::Confirm(genuine())).unwrap();
    let Some(Event::ResumptionOffered(past)) = rogue.events().pop() else { panic!() };
    rogue.honest.judged(Ok((*past).clone())).unwrap();
    rogue
}

/// What the replica of the ticket says about itself.
fn genuine() -> Confirm {
    Confirm { pod: rehearsed(Who::Embedder).verdict.pod().clone(), ..confirm("embedder", "ranker") }
}

#[test]
fn data_waits_for_both_acceptances() {
    assert_order(resumes().send(&ENDED));
    let mut confirmed = resumes();
    confirmed.say(&Control::Confirm(genuine())).unwrap();
    assert_order(confirmed.send(&ENDED));
    // The honest side accepts; the rogue has not said that it does.
    assert_order(accepted().send(&ENDED));
    let mut rogue = accepted();
    rogue.say(&Control::Ready).unwrap();
    assert!(rogue.honest.is_established());
    rogue.send(&ENDED).unwrap();
    assert_eq!(rogue.seen.0, 1);
}

#[test]
fn acceptance_by_the_rogue_alone_opens_nothing() {
    let mut rogue = resumes();
    rogue.say(&Control::Confirm(genuine())).unwrap();
    rogue.say(&Control::Ready).unwrap();
    assert!(!rogue.honest.is_established());
    assert_order(rogue.send(&ENDED));
    let mut rogue = resumes();
    rogue.say(&Control::Confirm(genuine())).unwrap();
    rogue.say(&Control::Ready).unwrap();
    assert_order(rogue.say(&Control::Ready));
}

#[test]
fn frames_out_of_turn_end_a_resumption() {
    let fragment = Fragment { epoch: 0, total: 9, offset: 0, bytes: b"part" };
    for frame in [Control::Evidence(fragment), Control::Policy(fragment), Control::Ping(1)] {
        let mut rogue = resumes();
        rogue.say(&Control::Confirm(genuine())).unwrap();
        assert_order(rogue.say(&frame));
    }
    for frame in [Control::Ready, Control::Evidence(fragment)] {
        assert_order(resumes().say(&frame));
    }
}

#[test]
fn another_replica_of_the_peer_does_not_use_it() {
    let pod = PodIdentity::new("demo", "embedder-9", "6f1c").unwrap();
    for claim in [Confirm { pod, ..genuine() }, Confirm { peer: "other".parse().unwrap(), ..genuine() }] {
        let refused = resumes().say(&Control::Confirm(claim));
        assert!(matches!(refused, Err(Fail::Identity(_))), "{refused:?}");
    }
}

#[test]
fn a_renewal_shows_the_static_key_of_the_ticket() {
    let mut rogue = accepted();
    rogue.say(&Control::Ready).unwrap();
    let later = NOW.plus_micros(REATTEST_INTERVAL_MICROS_MIN);
    rogue.honest.handle_timeout(later);
    let Finished { handshake_hash, version, suite, capabilities, .. } = rogue.finished;
    let terms = Terms { handshake_hash, version, kind: Kind::Full, suite, capabilities };
    // Not the one that the ticket's evidence is bound to.
    let (initiator, message) = Initiator::again(&terms, &key(9), &MlKem768, &mut Fixed(3)).unwrap();
    let mut opener = crate::record::Opener::new(rogue.finished.root.link(Label::Responder), NOW);
    let renew = |step, message: &[u8]| {
        let mut bytes = vec![0; 70_000];
        let used = encode(&Control::Renew { step, message }, &mut bytes).unwrap();
        bytes.truncate(used);
        bytes
    };
    rogue.raw(RecordKind::Data, &renew(1, &message)).unwrap();
    rogue.honest.answer_reattestation(&mut Fixed(4)).unwrap();
    let mut said = Vec::new();
    let mut flight = drain(&mut rogue.honest);
    let mut rest = flight.as_mut_slice();
    // The first flight begins with message 2 of the resumption, which is read already.
    while let Some((head, body)) = rest.split_first_chunk_mut::<RECORD_HEADER_BYTES>() {
        let header = crate::record::Header::parse(*head, crate::record::Level::Records).unwrap();
        let (body, after) = body.split_at_mut(header.length);
        said.extend_from_slice(opener.open(header, body, later).unwrap());
        rest = after;
    }
    let second = said.windows(2).position(|window| window == [0x09, 0]).unwrap();
    let (_, third) = initiator.on_message2(&said[second + 5..]).unwrap();
    let refused = rogue.raw(RecordKind::Data, &renew(3, &third));
    assert!(matches!(refused, Err(Fail::Identity(_))), "{refused:?}");
}

#[test]
fn tickets_come_from_the_side_that_accepted_in_their_turn_and_are_few() {
    let ticket = Control::Ticket { id: ID, seconds: 60 };
    // To a responder, before or after it is established.
    assert_order(Rogue::initiator(7).say(&ticket));
    let mut rogue = accepted();
    rogue.say(&Control::Ready).unwrap();
    assert_order(rogue.say(&ticket));
    // To an initiator: not before it has its verdict.
    assert_order(Rogue::responder().say(&ticket));
    let mut rogue = established_responder();
    for _ in 0..TICKETS_OF_ATTESTATION_MAX {
        rogue.say(&ticket).unwrap();
    }
    assert_eq!(rogue.say(&ticket), Err(Fail::Limit("tickets")));
}

/// A rogue responder whom an honest initiator takes for what it claims to be.
fn established_responder() -> Rogue {
    let verdict = &rehearsed(Who::Ranker).verdict;
    let mut rogue = Rogue::responder();
    let claim = Confirm { pod: verdict.pod().clone(), ..confirm("ranker", "embedder") };
    rogue.say(&Control::Confirm(claim)).unwrap();
    rogue.honest.supply_evidence(&EvidenceMessage::decode(&evidence_message()).unwrap()).unwrap();
    rogue.prove().unwrap();
    rogue.honest.judged(Ok(verdict.clone())).unwrap();
    assert!(rogue.honest.is_established());
    rogue
}
