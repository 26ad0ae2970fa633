//! Further links of a connection: whoever is not its remote joins none, and nothing is accepted that was changed on the way.

use std::sync::Arc;

use sealane_protocol::Moment;
use sealane_protocol::connection::{
    BulkError, BulkOpened, BulkRecord, Fail, JoinRequest, Joiner, LINK_GREETING_BYTES, LinkReceiver,
    LinkSender, LinkTerms, SendError, Sink, joins,
};
use sealane_protocol::frame::{Frame, Sequence};
use sealane_protocol::handshake::Kind;
use sealane_protocol::limits::{LINKS_MAX, REATTEST_INTERVAL_MICROS_MIN};
use sealane_protocol::record::Rekey;
use sealane_types::Reason;

use super::records::split;
use super::support::{Pair, Recipe, STREAM};
use super::world::Counter;

const SEQUENCE: Sequence = Sequence(7);

fn linked() -> Recipe {
    Recipe {
        initiator: Box::new(|local| local.links = true),
        responder: Box::new(|local| local.links = true),
        ..Recipe::default()
    }
}

fn terms(pair: &Pair) -> [Arc<LinkTerms>; 2] {
    [&pair.initiator, &pair.responder].map(|side| side.connection.link_terms().unwrap())
}

/// A connection, and what its two sides know of further links.
fn connected() -> (Pair, [Arc<LinkTerms>; 2]) {
    let pair = Pair::connected_of(linked());
    let terms = terms(&pair);
    (pair, terms)
}

fn join(terms: &Arc<LinkTerms>) -> (Joiner, [u8; LINK_GREETING_BYTES]) {
    let joiner = terms.join(&mut Counter(5)).unwrap().unwrap();
    let greeting = joiner.greeting().unwrap().try_into().unwrap();
    (joiner, greeting)
}

fn admit(terms: &LinkTerms, greeting: &[u8; LINK_GREETING_BYTES]) -> Result<(LinkReceiver, Vec<u8>), Fail> {
    let request = JoinRequest::parse(greeting)?;
    terms.admit(&request, Rekey::default(), &mut Counter(6), NOW)
}

const NOW: Moment = Moment::from_micros(2_000_000);

/// Both ends of a link, whose sender replaces its keys as told.
fn link_of([own, remote]: &[Arc<LinkTerms>; 2], rekey: Rekey) -> (LinkSender, LinkReceiver) {
    let (joiner, greeting) = join(own);
    let (receiver, answer) = admit(remote, &greeting).unwrap();
    let (sender, used) = joiner.on_answer(&answer, rekey, NOW).unwrap().unwrap();
    assert_eq!(used, answer.len());
    (sender, receiver)
}

#[derive(Default)]
struct Memory(Vec<u8>);

impl Sink for Memory {
    fn on_frame(&mut self, _: Frame<'_>) -> Result<(), Reason> {
        Err(Reason::FrameMalformed)
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let range = record.range();
        assert_eq!((range.stream, range.sequence, range.offset), (STREAM, SEQUENCE, self.0.len() as u64));
        let (chunk, opened) = record.open()?;
        self.0.extend_from_slice(chunk.bytes);
        Ok(opened)
    }
}

/// What `content` is on its way.
fn sealed(sender: &mut LinkSender, content: &[u8]) -> Vec<u8> {
    let (mut offset, mut wire) = (0, Vec::new());
    while offset < content.len() {
        match sender.send_bytes(NOW, STREAM, SEQUENCE, offset as u64, &content[offset..]) {
            Ok(sent) => offset += sent,
            Err(SendError::NoRoom) => {}
            Err(misuse) => panic!("{misuse}"),
        }
        loop {
            let output = sender.poll_output();
            if output.is_empty() {
                break;
            }
            let written = output.len().min(10_000);
            wire.extend_from_slice(&output[..written]);
            sender.output_written(written);
        }
    }
    wire
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| ((at * 31) ^ (at >> 8)) as u8).collect()
}

#[test]
fn bytes_of_tensors_go_over_every_link() {
    let (_pair, terms) = connected();
    assert_eq!(terms[0].name(), terms[1].name());
    for link in 1..LINKS_MAX {
        // Every second record is under another key.
        let (mut sender, mut receiver) = link_of(&terms, Rekey::new(0, 2, 0));
        let (expected, mut memory) = (content(1_000_001), Memory::default());
        let mut wire = sealed(&mut sender, &expected);
        let mut arrived = Vec::new();
        for part in wire.chunks_mut(7_777) {
            arrived.extend_from_slice(part);
            let used = receiver.handle_input(NOW, &mut arrived, &mut memory).unwrap();
            arrived.drain(..used);
        }
        assert!(arrived.is_empty() && memory.0 == expected, "{link}");
        assert!(receiver.is_between());
    }
    assert!(terms[0].join(&mut Counter(5)).unwrap().is_none(), "a connection has so many links");
}

/// Nobody makes its sender use a link, and a key that sealed nothing is not replaced.
#[test]
fn a_link_may_rest_for_any_time() {
    const HOUR: u64 = 3_600_000_000;
    let (_pair, terms) = connected();
    let (mut sender, mut receiver) = link_of(&terms, Rekey::new(0, 0, HOUR));
    let mut now = NOW;
    for _ in 0..3 {
        now = now.plus_micros(100 * HOUR);
        let bytes = content(100_000);
        let mut memory = Memory::default();
        let sent = sender.send_bytes(now, STREAM, SEQUENCE, 0, &bytes[..]).unwrap();
        let mut wire = sender.poll_output().to_vec();
        sender.output_written(wire.len());
        assert_eq!(receiver.handle_input(now, &mut wire, &mut memory).unwrap(), wire.len());
        assert_eq!((sent, memory.0.len()), (bytes.len(), bytes.len()));
    }
}

#[test]
fn connections_have_further_links_only_if_both_sides_want_them() {
    for (own, remote, kind) in [
        (false, true, Kind::Full),
        (true, false, Kind::Full),
        (false, false, Kind::Full),
        (true, true, Kind::Audit),
    ] {
        let mut pair = Pair::of(Recipe {
            kind,
            initiator: Box::new(move |local| local.links = own),
            responder: Box::new(move |local| local.links = remote),
            ..Recipe::default()
        });
        pair.run();
        for side in [&pair.initiator, &pair.responder] {
            assert!(side.connection.is_established());
            assert!(side.connection.link_terms().is_none(), "{own} {remote} {kind:?}");
        }
    }
}

#[test]
fn nobody_knows_of_links_before_both_sides_are_verified() {
    let mut pair = Pair::of(linked());
    for _ in 0..3 {
        assert!(pair.initiator.connection.link_terms().is_none());
        assert!(pair.responder.connection.link_terms().is_none());
        let flight = pair.flight(super::world::Who::Embedder);
        pair.deliver(super::world::Who::Ranker, &flight);
        assert!(
            pair.responder.connection.is_established() || pair.responder.connection.link_terms().is_none()
        );
        let flight = pair.flight(super::world::Who::Ranker);
        pair.deliver(super::world::Who::Embedder, &flight);
    }
}

#[test]
fn a_resumed_connection_has_links_of_its_own() {
    let (mut pair, before) = connected();
    pair.give_ticket(600);
    let ticket = pair.take_ticket();
    let mut pair = pair.resuming(ticket);
    pair.run();
    let after = terms(&pair);
    assert_eq!(after[0].name(), after[1].name());
    assert_ne!(after[0].name(), before[0].name());
}

#[test]
fn a_renewal_begins_other_links() {
    let (mut pair, before) = connected();
    pair.now = pair.now.plus_micros(REATTEST_INTERVAL_MICROS_MIN);
    pair.initiator.connection.reattest(pair.now, &mut pair.random).unwrap();
    pair.run();
    let after = terms(&pair);
    assert_eq!(after[0].name(), after[1].name());
    assert_ne!(after[0].name(), before[0].name());
    // Whoever knows the earlier keys joins nothing by the new ones.
    let (_, greeting) = join(&before[0]);
    assert!(admit(&after[1], &greeting).is_err());
    link_of(&after, Rekey::default());
}

#[test]
fn a_greeting_that_was_changed_joins_nothing() {
    let (_pair, [own, remote]) = connected();
    let (_, greeting) = join(&own);
    for at in 0..greeting.len() {
        for bit in [1, 0x80] {
            let mut changed = greeting;
            changed[at] ^= bit;
            assert!(admit(&remote, &changed).is_err(), "byte {at}");
        }
    }
    assert!(admit(&remote, &greeting).is_ok(), "what was refused took no link");
}

#[test]
fn a_greeting_that_was_repeated_joins_nothing() {
    let (_pair, [own, remote]) = connected();
    let (_, greeting) = join(&own);
    admit(&remote, &greeting).unwrap();
    assert_eq!(admit(&remote, &greeting).unwrap_err().reason(), Reason::FrameMalformed);
}

#[test]
fn another_connection_joins_nothing() {
    let (_pair, [_, remote]) = connected();
    let other = Pair::connected_of(Recipe { seed: 2, ..linked() });
    let (_, greeting) = join(&terms(&other)[0]);
    assert!(admit(&remote, &greeting).is_err());
}

#[test]
fn an_answer_that_was_changed_is_refused() {
    let (_pair, [own, remote]) = connected();
    let (joiner, greeting) = join(&own);
    let (_, answer) = admit(&remote, &greeting).unwrap();
    for length in 0..answer.len() {
        assert!(matches!(joiner.on_answer(&answer[..length], Rekey::default(), NOW), Ok(None)), "{length}");
    }
    for at in 0..answer.len() {
        let mut changed = answer.clone();
        changed[at] ^= 1;
        assert!(!matches!(joiner.on_answer(&changed, Rekey::default(), NOW), Ok(Some(_))), "byte {at}");
    }
    // Its own proof, sent back, proves nothing.
    let reflected = [&answer[..4], &greeting[greeting.len() - 64..]].concat();
    assert!(joiner.on_answer(&reflected, Rekey::default(), NOW).is_err());
    assert!(matches!(joiner.on_answer(&answer, Rekey::default(), NOW), Ok(Some(_))));
}

#[test]
fn records_of_a_link_are_accepted_as_they_were_sealed_and_in_no_other_way() {
    type Bend = fn(&mut Vec<Vec<u8>>);
    let hear = |bend: Bend| {
        let (_pair, terms) = connected();
        let (mut sender, mut receiver) = link_of(&terms, Rekey::default());
        let mut records = split(&sealed(&mut sender, &content(200_000)));
        assert!(records.len() >= 5, "a frame and four records at least");
        bend(&mut records);
        let heard = receiver.handle_input(NOW, &mut records.concat(), &mut Memory::default());
        (heard.map(drop), receiver.is_proved())
    };
    assert_eq!(hear(|_| {}), (Ok(()), true));
    let bends: [(&str, Bend); 6] = [
        ("deleted", |records| drop(records.remove(2))),
        ("repeated", |records| records.insert(2, records[1].clone())),
        ("swapped", |records| records.swap(1, 2)),
        ("changed", |records| records[3][100] ^= 1),
        ("of another kind", |records| records[1][0] = 3),
        ("of another length", |records| records[1].truncate(1_000)),
    ];
    for (what, bend) in bends {
        let (heard, _) = hear(bend);
        assert_eq!(heard.unwrap_err().reason(), Reason::RecordRejected, "{what}");
    }
    let (heard, is_proved) = hear(|records| records[0][10] ^= 1);
    assert_eq!((heard.unwrap_err().reason(), is_proved), (Reason::RecordRejected, false), "nobody's fault");
}

#[test]
fn a_greeting_is_told_from_a_hello_by_its_first_bytes() {
    let (_pair, [own, _]) = connected();
    let (_, greeting) = join(&own);
    assert_eq!(joins(&greeting), Some(true));
    assert_eq!(joins(&greeting[..10]), None);
    let hello = Pair::new().flight(super::world::Who::Embedder);
    assert_eq!(joins(&hello), Some(false));
    assert_eq!(joins(b"GET / HTTP/1.1"), Some(false));
}
