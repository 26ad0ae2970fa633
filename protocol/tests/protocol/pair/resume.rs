//! Connections that are resumed by a ticket, and tickets that are good for nothing.

use std::sync::Arc;

use sealane_attestation::{VerifiedPeer, rejudge};
use sealane_policy::{Floors, VerifiedPolicy};
use sealane_protocol::Moment;
use sealane_protocol::connection::{
    AcceptSetup, ApiMisuse, ClosedBy, Connection, Event, Fail, IssueError, Setup, StartError,
};
use sealane_protocol::frame::Sequence;
use sealane_protocol::handshake::{HandshakeError, KeyExchange, Kind, Suite};
use sealane_protocol::keys::{StaticKey, TicketId};
use sealane_protocol::limits::{REATTEST_INTERVAL_MICROS_MIN, TICKETS_OF_ATTESTATION_MAX};
use sealane_protocol::ticket::{Issued, Ticket};
use sealane_types::{Cipher, Reason};

use super::support::{Held, Pair, Recipe, STREAM, Side, taken_frame};
use super::world::{Counter, Who, chain, chain_with, policy, session, verified, view, wall_clock};

const LASTS: u64 = 600;

/// Offset of the kind, and of the ticket's id behind one version, one or two suites and the capabilities.
const KIND_AT: usize = 10;

fn quotes(side: &Side) -> usize {
    side.events.iter().filter(|event| matches!(event, Event::EvidenceWanted(_))).count()
}

fn issued(pair: &mut Pair) -> Ticket {
    pair.give_ticket(LASTS);
    pair.take_ticket()
}

/// About to be resumed: nothing has moved yet.
fn resuming(recipe: Recipe) -> Pair {
    let mut pair = Pair::connected_of(recipe);
    let ticket = issued(&mut pair);
    pair.resuming(ticket)
}

fn resumed() -> Pair {
    let mut pair = resuming(Recipe::default());
    pair.run();
    assert_established(&pair);
    pair
}

#[track_caller]
fn assert_established(pair: &Pair) {
    for side in [&pair.initiator, &pair.responder] {
        assert!(side.established().is_some(), "{:?} {:?}", side.fail, side.events);
    }
}

#[track_caller]
fn assert_refused(pair: &Pair, reason: Reason) {
    pair.assert_nobody_established();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, reason)));
    assert_eq!(pair.initiator.closed(), Some((ClosedBy::Unauthenticated, reason)));
}

fn send_both_ways(pair: &mut Pair) {
    let before = (pair.initiator.seen.0.len(), pair.responder.seen.0.len());
    let connection = &mut pair.initiator.connection;
    connection.send_bytes(STREAM, Sequence(1), 0, &[0; 10_000][..]).unwrap();
    pair.responder.connection.send(&taken_frame(&[Sequence(1)])).unwrap();
    pair.run();
    let after = (pair.initiator.seen.0.len(), pair.responder.seen.0.len());
    assert_eq!(after, (before.0 + 1, before.1 + 1));
}

#[test]
fn a_ticket_opens_a_connection_without_new_evidence() {
    for (fragmented, classical) in [(false, false), (true, false), (false, true)] {
        let exchange = if classical { KeyExchange::Classical } else { KeyExchange::Hybrid };
        let suite = Suite::new(exchange, Cipher::ChaCha20Poly1305);
        let mut pair = Pair::connected_of(Recipe::with_suites(&[suite], classical));
        let sides = [&pair.initiator, &pair.responder];
        let attested = sides.map(|side| side.connection.attested().unwrap());
        let name = pair.initiator.connection.public_id();
        pair.now = pair.now.plus_micros(3_000_000);
        let ticket = issued(&mut pair);
        let mut pair = pair.resuming(ticket);
        pair.fragmented = fragmented;
        pair.run();
        assert_established(&pair);
        for (side, attested) in [&pair.initiator, &pair.responder].into_iter().zip(attested) {
            assert_eq!(quotes(side), 0);
            assert_eq!(side.established(), Some(suite));
            assert_eq!(side.connection.attested(), Some(attested), "it keeps its age");
            let introduction = side.connection.introduction().unwrap();
            assert_eq!(introduction.kind, Kind::Resume);
            assert_eq!(side.connection.peer().unwrap().static_key(), &introduction.static_key);
        }
        assert_eq!(pair.initiator.connection.public_id(), pair.responder.connection.public_id());
        assert_ne!(pair.initiator.connection.public_id(), name);
        send_both_ways(&mut pair);
    }
}

#[test]
fn one_ticket_leads_to_the_next() {
    let mut pair = Pair::connected();
    let attested = pair.initiator.connection.attested();
    for _ in 0..5 {
        pair.now = pair.now.plus_micros(1_000_000);
        let ticket = issued(&mut pair);
        pair = pair.resuming(ticket);
        pair.run();
        send_both_ways(&mut pair);
        assert_eq!(pair.initiator.connection.attested(), attested);
    }
}

#[test]
fn a_first_flight_that_is_sent_again_meets_no_ticket() {
    let mut pair = resuming(Recipe::default());
    let first = pair.flight(Who::Embedder);
    let issued = std::mem::take(&mut pair.responder.issued);
    let mut replayed = Pair::new();
    replayed.responder.issued = issued;
    replayed.responder.local = pair.responder.local.clone();
    let accept = AcceptSetup { local: pair.responder.local.clone(), audit: false };
    replayed.responder.connection =
        Connection::accept(accept.clone(), &mut replayed.random, replayed.now).unwrap();
    replayed.now = pair.now;
    replayed.deliver(Who::Ranker, &first);
    assert!(!replayed.responder.connection.is_closed(), "{:?}", replayed.responder.fail);
    // The same bytes once more, to the same process.
    replayed.responder.connection = Connection::accept(accept, &mut replayed.random, replayed.now).unwrap();
    replayed.responder.events.clear();
    replayed.deliver(Who::Ranker, &first);
    assert_eq!(replayed.responder.closed(), Some((ClosedBy::Local, Reason::TicketRefused)));
}

#[test]
fn what_is_unknown_over_or_another_s_is_refused_in_clear() {
    // Nobody gave it out.
    let mut unknown = resuming(Recipe::default());
    unknown.responder.issued = Issued::default();
    unknown.run();
    assert_refused(&unknown, Reason::TicketRefused);

    // It is over where it was given out.
    let mut late = resuming(Recipe::default());
    late.now = late.now.plus_micros(LASTS * 1_000_000);
    late.responder.held = vec![Held::Ticket];
    late.run();
    let id = presented(&late.responder);
    let kept = late.responder.issued.take(id, Moment::default());
    assert!(kept.is_some());
    late.responder.connection.answer_ticket(kept).unwrap();
    late.run();
    assert_refused(&late, Reason::TicketRefused);

    // Another process has it: made afresh, it has another static key.
    let mut restarted = resuming(Recipe::default());
    let mut random = Counter(77);
    let local = sealane_protocol::connection::Local {
        static_key: Arc::new(StaticKey::generate(&mut random).unwrap()),
        ..restarted.responder.local.clone()
    };
    restarted.responder.connection =
        Connection::accept(AcceptSetup { local, audit: false }, &mut random, restarted.now).unwrap();
    restarted.run();
    assert_refused(&restarted, Reason::TicketRefused);

    // It is another ticket than the one that was asked for.
    let mut other = Pair::connected();
    let first = issued(&mut other);
    other.give_ticket(LASTS);
    let second = other.initiator.tickets.take(&(), other.now).unwrap().id();
    let mut other = other.resuming(first);
    other.responder.held = vec![Held::Ticket];
    other.run();
    let wrong = other.responder.issued.take(second, other.now);
    other.responder.connection.answer_ticket(wrong).unwrap();
    other.run();
    assert_refused(&other, Reason::TicketRefused);
}

/// The ticket that a side is asked for.
fn presented(side: &Side) -> TicketId {
    let presented = |event: &Event| match event {
        Event::TicketPresented(id) => Some(*id),
        _ => None,
    };
    side.events.iter().find_map(presented).unwrap()
}

/// What the initiator's side of `pair` gets when it tries to resume by `ticket`.
fn begin(pair: &Pair, ticket: Ticket, change: impl FnOnce(&mut Setup)) -> Result<Connection, StartError> {
    let local = pair.initiator.local.clone();
    let mut setup = Setup { local, kind: Kind::Full, expected: Who::Ranker.peer(), session: session() };
    change(&mut setup);
    Connection::resume(setup, ticket, &mut Counter(5), pair.now)
}

#[test]
fn a_ticket_is_good_for_its_own_end_alone() {
    let mut pair = Pair::connected();
    let mut refused = |change: fn(&mut Setup)| {
        let ticket = issued(&mut pair);
        begin(&pair, ticket, change).err()
    };
    assert_eq!(refused(|_| {}), None);
    assert_eq!(
        refused(|setup| setup.local.static_key = Arc::new(StaticKey::generate(&mut Counter(9)).unwrap())),
        Some(StartError::Ticket)
    );
    assert_eq!(refused(|setup| setup.expected = "other".parse().unwrap()), Some(StartError::Ticket));
    assert_eq!(refused(|setup| setup.kind = Kind::Audit), Some(StartError::Ticket));
    assert_eq!(refused(|setup| setup.local.policy.epoch = 0), Some(StartError::Ticket), "an older policy");
    // The half of the side that gave it out dials nobody.
    let deadline = pair.now.plus_micros(LASTS * 1_000_000);
    let given = pair.responder.connection.issue_ticket(deadline, &mut Counter(5)).unwrap();
    let local = pair.responder.local.clone();
    let setup = Setup { local, kind: Kind::Full, expected: Who::Embedder.peer(), session: session() };
    let refused = Connection::resume(setup, given, &mut Counter(5), pair.now).err();
    assert_eq!(refused, Some(StartError::Ticket));
}

#[test]
fn the_half_of_the_side_that_dialled_answers_nobody() {
    let mut pair = Pair::connected();
    let mut tickets = [issued(&mut pair), issued(&mut pair)];
    let [first, second] = &mut tickets;
    let id = first.id();
    std::mem::swap(first, second);
    let [own, presented] = tickets;
    assert_eq!(presented.id(), id);
    let mut pair = pair.resuming(presented);
    pair.responder.held = vec![Held::Ticket];
    pair.run();
    pair.responder.connection.answer_ticket(Some(own)).unwrap();
    pair.run();
    assert_refused(&pair, Reason::TicketRefused);
}

#[test]
fn a_ticket_ends_when_its_holder_thinks_so_too() {
    let mut pair = Pair::connected();
    let ticket = issued(&mut pair);
    let due = ticket.deadline();
    assert_eq!(due.micros_since(pair.now), LASTS * 1_000_000);
    pair.now = due;
    assert_eq!(begin(&pair, ticket, |_| {}).err(), Some(StartError::Ticket));
}

#[test]
fn hello_bytes_of_a_resumption_are_all_authenticated() {
    let length = {
        let first = resuming(Recipe::default()).flight(Who::Embedder);
        10 + usize::from(u16::from_be_bytes([first[8], first[9]]))
    };
    for at in 0..length {
        let mut pair = resuming(Recipe::default());
        let mut bent = false;
        pair.run_through(|who, mut bytes| {
            if who == Who::Embedder && !bent {
                bytes[at] ^= 0x01;
                bent = true;
            }
            bytes
        });
        pair.assert_nobody_established();
    }
}

#[test]
fn messages_of_a_resumption_are_all_authenticated() {
    for (who, offset) in [(Who::Embedder, 60), (Who::Embedder, 90), (Who::Ranker, 10), (Who::Ranker, 40)] {
        let mut pair = resuming(Recipe::default());
        let mut bent = false;
        pair.run_through(|from, mut bytes| {
            if from == who && !bent {
                bytes[offset] ^= 0x01;
                bent = true;
            }
            bytes
        });
        pair.assert_nobody_established();
        assert!(pair.responder.issued.is_empty(), "it was presented, and is gone");
    }
}

#[test]
fn a_full_hello_does_not_become_a_resumption_nor_the_other_way_round() {
    for (kind, mut pair) in
        [(1, Pair::new()), (0, resuming(Recipe::default())), (3, resuming(Recipe::default()))]
    {
        pair.run_through(|who, mut bytes| {
            if who == Who::Embedder && bytes.starts_with(b"SEALANE\0") {
                bytes[KIND_AT] = kind;
            }
            bytes
        });
        pair.assert_nobody_established();
    }
}

#[test]
fn a_ticket_of_classical_keys_opens_nothing_better_and_nothing_where_they_are_refused() {
    let classical = [Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm)];
    let mut pair = Pair::connected_of(Recipe::with_suites(&classical, true));
    let ticket = issued(&mut pair);
    // Hybrid suites are there by now, and preferred.
    let both = Suite::offer(&[Cipher::Aes256Gcm], true);
    pair.initiator.local.suites.clone_from(&both);
    pair.responder.local.suites = both;
    let mut pair = pair.resuming(ticket);
    pair.run();
    assert_eq!(pair.initiator.established(), Some(classical[0]));
    // A newer policy demands more.
    let ticket = issued(&mut pair);
    let strict = view(&policy(2));
    let refused = begin(&pair, ticket, |setup| setup.local.policy = strict);
    assert_eq!(refused.err(), Some(StartError::Ticket));
}

#[test]
fn a_responder_holds_the_exchange_against_its_own_half() {
    let suites = Suite::offer(&[Cipher::Aes256Gcm], true);
    let (hybrid, classical) = ([suites[0]], [suites[1]]);
    let mut strong = Pair::connected_of(Recipe::with_suites(&hybrid, true));
    let mut weak = Pair::connected_of(Recipe::with_suites(&classical, true));
    let (of_weak, _) = (issued(&mut weak), issued(&mut strong));
    // The same responder gave out both; what is presented is the classical one, what is found is not.
    let mut pair = weak.resuming(of_weak);
    pair.responder.held = vec![Held::Ticket];
    pair.run();
    let deadline = strong.now.plus_micros(LASTS * 1_000_000);
    let found = strong.responder.connection.issue_ticket(deadline, &mut Counter(8)).unwrap();
    pair.responder.connection.answer_ticket(Some(found)).unwrap();
    pair.run();
    pair.assert_nobody_established();
}

#[test]
fn whoever_resumes_is_the_replica_of_the_ticket() {
    for pretends in [true, false] {
        let mut pair = Pair::connected();
        let ticket = issued(&mut pair);
        if pretends {
            pair.initiator.local.peer = "other".parse().unwrap();
        } else {
            let pod = sealane_types::PodIdentity::new("demo", "embedder-1", "6f1c").unwrap();
            pair.initiator.local.pod = pod;
        }
        let mut pair = pair.resuming(ticket);
        pair.run();
        pair.assert_nobody_established();
        assert!(matches!(pair.responder.fail, Some(Fail::Identity(_))), "{:?}", pair.responder.fail);
    }
}

/// What a shell makes of a stored verdict at another time.
fn later(past: &VerifiedPeer, policy: &VerifiedPolicy, seconds: u64) -> Result<VerifiedPeer, Reason> {
    rejudge(past, policy, wall_clock().plus(seconds)).map_err(|rejection| rejection.reason())
}

fn offered(side: &Side) -> Arc<VerifiedPeer> {
    let offered = |event: &Event| match event {
        Event::ResumptionOffered(past) => Some(Arc::clone(past)),
        _ => None,
    };
    side.events.iter().find_map(offered).unwrap()
}

#[test]
fn either_side_may_find_that_the_other_is_due() {
    let year = 366 * 24 * 3600;
    let endless = verified(&chain(1, &Floors::default(), 40 * year)).unwrap();
    let recipe = || Recipe {
        initiator_policy: endless.clone(),
        responder_policy: endless.clone(),
        ..Recipe::default()
    };
    for at_initiator in [true, false] {
        let mut pair = resuming(recipe());
        let side = if at_initiator { &mut pair.initiator } else { &mut pair.responder };
        side.held = vec![Held::Verdict];
        pair.run();
        pair.assert_nobody_established();
        let side = if at_initiator { &mut pair.initiator } else { &mut pair.responder };
        let verdict = later(&offered(side), &endless, 30 * year);
        assert_eq!(verdict.as_ref().err(), Some(&Reason::CollateralExpired));
        side.connection.judged(verdict).unwrap();
        pair.run();
        pair.assert_nobody_established();
        let closed = [pair.initiator.closed(), pair.responder.closed()];
        assert!(closed.contains(&Some((ClosedBy::Local, Reason::CollateralExpired))), "{closed:?}");
        assert!(closed.contains(&Some((ClosedBy::Remote, Reason::CollateralExpired))), "{closed:?}");
    }
}

#[test]
fn a_newer_epoch_is_caught_up_with_and_judges_what_the_ticket_remembers() {
    for ahead in [Who::Embedder, Who::Ranker] {
        let mut pair = Pair::connected();
        let ticket = issued(&mut pair);
        pair.side(ahead).policy = policy(2);
        let mut pair = pair.resuming(ticket);
        pair.run();
        assert_established(&pair);
        assert_eq!((pair.initiator.policy.epoch(), pair.responder.policy.epoch()), (2, 2));
        assert_eq!((quotes(&pair.initiator), quotes(&pair.responder)), (0, 0));
        send_both_ways(&mut pair);
    }
    // One that drops the Peer at the other end.
    for (ahead, dropped) in [(Who::Embedder, Who::Ranker), (Who::Ranker, Who::Embedder)] {
        let mut pair = Pair::connected();
        let ticket = issued(&mut pair);
        let without = chain_with(2, &Floors::default(), 3600, |document| {
            document.peers.remove(&dropped.peer());
            document.sessions.clear();
        });
        pair.side(ahead).policy = verified(&without).unwrap();
        let mut pair = pair.resuming(ticket);
        pair.run();
        pair.assert_nobody_established();
        let closed = [pair.initiator.closed(), pair.responder.closed()];
        assert!(closed.contains(&Some((ClosedBy::Local, Reason::PeerNotInPolicy))), "{closed:?}");
    }
}

#[test]
fn acceptance_may_come_while_the_policy_in_front_of_it_is_verified() {
    let mut pair = Pair::connected();
    let ticket = issued(&mut pair);
    pair.responder.policy = policy(2);
    let mut pair = pair.resuming(ticket);
    pair.initiator.held = vec![Held::Policy];
    pair.run();
    pair.assert_nobody_established();
    let chain = serde_json::to_vec(policy(2).chain()).unwrap();
    pair.initiator.adopt(&chain);
    pair.run();
    assert_established(&pair);
}

#[test]
fn a_connection_that_was_resumed_is_attested_again_like_any_other() {
    let mut pair = resumed();
    let first = pair.initiator.connection.attested().unwrap();
    pair.now = pair.now.plus_micros(REATTEST_INTERVAL_MICROS_MIN);
    pair.initiator.connection.reattest(pair.now, &mut pair.random).unwrap();
    pair.run();
    assert_eq!((quotes(&pair.initiator), quotes(&pair.responder)), (1, 1));
    let again = pair.initiator.connection.attested().unwrap();
    assert_eq!(again.micros_since(first), REATTEST_INTERVAL_MICROS_MIN);
    send_both_ways(&mut pair);
    // And what it gives out then rests on the new evidence.
    let ticket = issued(&mut pair);
    assert_eq!(ticket.attested(), again);
    let mut pair = pair.resuming(ticket);
    pair.run();
    assert_established(&pair);
    assert_eq!(pair.responder.connection.attested(), Some(again));
}

#[test]
fn tickets_are_few_and_come_from_the_side_that_accepted() {
    let mut pair = Pair::connected();
    let deadline = pair.now.plus_micros(LASTS * 1_000_000);
    let from_initiator = pair.initiator.connection.issue_ticket(deadline, &mut Counter(1));
    assert_eq!(from_initiator.unwrap_err(), IssueError::NotNow);
    let at_once = pair.responder.connection.issue_ticket(pair.now, &mut Counter(1));
    assert_eq!(at_once.unwrap_err(), IssueError::TooShort);
    for _ in 0..TICKETS_OF_ATTESTATION_MAX {
        pair.give_ticket(LASTS);
    }
    let more = pair.responder.connection.issue_ticket(deadline, &mut Counter(1));
    assert_eq!(more.unwrap_err(), IssueError::NotNow);
    assert_eq!(pair.initiator.tickets.len(), TICKETS_OF_ATTESTATION_MAX as usize);

    let mut audit = Pair::connected_of(Recipe { kind: Kind::Audit, ..Recipe::default() });
    let of_audit = audit.responder.connection.issue_ticket(deadline, &mut Counter(1));
    assert_eq!(of_audit.unwrap_err(), IssueError::NotNow);
    assert_eq!(audit.responder.connection.answer_ticket(None), Err(ApiMisuse::NotAwaited));
}

#[test]
fn a_shell_that_finds_no_ticket_in_time_ends_it() {
    let mut pair = resuming(Recipe::default());
    pair.responder.held = vec![Held::Ticket];
    pair.run();
    pair.advance(sealane_protocol::limits::HANDSHAKE_DEADLINE_MICROS);
    pair.run();
    pair.assert_nobody_established();
    assert_eq!(pair.responder.closed(), Some((ClosedBy::Local, Reason::HandshakeTimeout)));
}

#[test]
fn a_refusal_names_what_is_to_be_done() {
    assert_eq!(HandshakeError::Ticket.reason(), Reason::TicketRefused);
}
