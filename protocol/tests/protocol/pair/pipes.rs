//! Pipes through whole connections: two byte sequences each, whatever the ends do.

use proptest::prelude::*;
use sealane_protocol::connection::{ApiMisuse, ClosedBy, FillError, SendError};
use sealane_protocol::frame::{Frame, PipeId};
use sealane_protocol::handshake::Kind;
use sealane_protocol::limits::{PIPE_WINDOW_BYTES, PIPES_MAX};
use sealane_types::Reason;

use super::forwarding::Forwarding;
use super::support::{Pair, Recipe};
use super::world::{Counter, Who};

#[test]
fn a_request_ends_and_its_answer_goes_on() {
    let mut forwarding = Forwarding::new();
    let id = forwarding.open();
    let mut random = Counter(1);
    let (request, answer) = (random.bytes(300_000), random.bytes(3_000_000));
    let pipe = forwarding.client.pipe(id);
    pipe.outgoing.extend(&request);
    pipe.closing = true;
    forwarding.run();
    assert_eq!(forwarding.server.opened, [id]);
    let pipe = forwarding.server.pipe(id);
    assert_eq!(pipe.took, request);
    assert!(pipe.receiver.is_over() && !pipe.sender.is_ended());
    pipe.outgoing.extend(&answer);
    pipe.closing = true;
    forwarding.run();
    let pipe = forwarding.client.pipe(id);
    assert_eq!(pipe.took, answer);
    assert!(pipe.receiver.is_over() && pipe.sender.is_ended());
}

#[test]
fn a_direction_that_nobody_takes_from_holds_up_nothing_else() {
    let mut forwarding = Forwarding::new();
    let (slow, quick) = (forwarding.open(), forwarding.open());
    let bytes = Counter(2).bytes(2_000_000);
    for id in [slow, quick] {
        forwarding.client.pipe(id).outgoing.extend(&bytes);
    }
    forwarding.round();
    forwarding.server.pipe(slow).stalled = true;
    forwarding.server.pipe(slow).outgoing.extend(&bytes);
    forwarding.run();
    let window = PIPE_WINDOW_BYTES as usize;
    let pipe = forwarding.server.pipe(slow);
    assert!(pipe.incoming.len() <= window, "what is untaken is bounded by the window");
    let arrived = pipe.incoming.len() + pipe.took.len();
    assert_eq!(
        forwarding.client.pipe(slow).outgoing.len(),
        bytes.len() - arrived,
        "the rest waits at its sender"
    );
    assert_eq!(forwarding.client.pipe(slow).took, bytes, "the other direction of the same pipe");
    assert_eq!(forwarding.server.pipe(quick).took, bytes, "another pipe");
    forwarding.server.pipe(slow).stalled = false;
    forwarding.run();
    assert_eq!(forwarding.server.pipe(slow).took, bytes);
}

#[test]
fn a_wider_window_lets_more_travel_untaken() {
    let mut forwarding = Forwarding::new();
    let id = forwarding.open();
    forwarding.client.pipe(id).outgoing.extend(Counter(3).bytes(2_000_000));
    forwarding.carry(Who::Embedder);
    let pipe = forwarding.server.pipe(id);
    pipe.stalled = true;
    pipe.receiver.widen(1 << 20);
    forwarding.run();
    assert_eq!(forwarding.server.pipe(id).incoming.len(), 1 << 20);
}

#[test]
fn a_cut_is_no_end() {
    let mut forwarding = Forwarding::new();
    let id = forwarding.open();
    forwarding.client.pipe(id).outgoing.extend(b"all of it");
    forwarding.run();
    // The end is on its way when the link breaks.
    forwarding.client.pipe(id).closing = true;
    forwarding.client.pump(&mut forwarding.pair.initiator.connection);
    assert!(!forwarding.pair.flight(Who::Embedder).is_empty());
    forwarding.pair.responder.connection.handle_cut();
    assert!(forwarding.pair.flight(Who::Ranker).is_empty());
    let closed = forwarding.pair.responder.closed();
    assert_eq!(closed, Some((ClosedBy::Cut, Reason::LinkLost)));
    let broken: Vec<_> = forwarding.server.table.take_all().collect();
    let [(broken, pipe)] = &broken[..] else { panic!("{broken:?}") };
    assert_eq!((*broken, &pipe.took[..]), (id, &b"all of it"[..]));
    assert!(!pipe.receiver.is_ended(), "everything arrived, and still it may not be shown as the end");
}

#[test]
fn a_reset_ends_both_directions_and_what_is_on_its_way_means_nothing() {
    let mut forwarding = Forwarding::new();
    let (gone, other) = (forwarding.open(), forwarding.open());
    forwarding.run();
    for id in [gone, other] {
        forwarding.client.pipe(id).outgoing.extend([7; 1000]);
    }
    // Both cross on the wire: data there, the reset back.
    forwarding.client.pump(&mut forwarding.pair.initiator.connection);
    forwarding.server.table.remove(gone).unwrap();
    let reset = Frame::PipeReset { pipe: gone, reason: Reason::TargetUnreachable };
    forwarding.pair.responder.connection.send(&reset).unwrap();
    forwarding.run();
    assert_eq!(forwarding.client.resets, [(gone, Reason::TargetUnreachable)]);
    assert_eq!(forwarding.client.table.find(gone).map(|pipe| pipe.is_some()), Ok(false));
    assert_eq!(forwarding.server.pipe(other).took, [7; 1000]);
    assert_eq!(forwarding.open(), PipeId(2), "its number is not used again");
    forwarding.run();
    assert_eq!(forwarding.server.opened, [gone, other, PipeId(2)]);
}

#[test]
fn a_pipe_too_many_is_refused_and_the_others_go_on() {
    let mut forwarding = Forwarding::new();
    for _ in 0..PIPES_MAX {
        forwarding.open();
        forwarding.round();
    }
    // This side forgets a pipe without telling; the other side still has it.
    forwarding.client.table.remove(PipeId(0)).unwrap();
    let beyond = forwarding.open();
    forwarding.run();
    assert_eq!(forwarding.client.resets, [(beyond, Reason::LimitExceeded)]);
    forwarding.client.pipe(PipeId(9)).outgoing.extend(b"still here");
    forwarding.run();
    assert_eq!(forwarding.server.pipe(PipeId(9)).took, b"still here");
}

#[test]
fn answers_have_room_when_data_has_none() {
    let mut pair = Pair::connected();
    let connection = &mut pair.initiator.connection;
    let id = PipeId(0);
    connection.send(&Frame::PipeOpen(id)).unwrap();
    let full = loop {
        if let Err(error) = connection.send_pipe_data(id, 1 << 20, |space| Ok::<_, ()>(space.len())) {
            break error;
        }
    };
    assert!(matches!(full, FillError::Send(SendError::NoRoom)));
    assert!(!connection.has_room());
    connection.send(&Frame::PipeCredit { pipe: id, bytes_through: PIPE_WINDOW_BYTES }).unwrap();
    connection.send(&Frame::PipeReset { pipe: id, reason: Reason::Unspecified }).unwrap();
}

#[test]
fn a_source_that_has_less_than_there_is_room_for_sends_what_it_has() {
    let mut forwarding = Forwarding::new();
    let id = forwarding.open();
    let connection = &mut forwarding.pair.initiator.connection;
    for part in [&b"one "[..], b"and ", b"another"] {
        let queued = connection.send_pipe_data(id, 1 << 20, |space| {
            space[..part.len()].copy_from_slice(part);
            Ok::<_, ()>(part.len())
        });
        assert_eq!(queued.unwrap(), part.len());
    }
    connection.send(&Frame::PipeEnd { pipe: id, bytes: 15 }).unwrap();
    forwarding.run();
    let pipe = forwarding.server.pipe(id);
    assert_eq!(pipe.took, b"one and another");
    assert!(pipe.receiver.is_over());
}

#[test]
fn misuse_is_told_and_queues_nothing() {
    let mut pair = Pair::connected();
    let id = PipeId(0);
    let wrong = SendError::Misuse(ApiMisuse::InvalidFrame);
    assert_eq!(pair.responder.connection.send(&Frame::PipeOpen(id)), Err(wrong), "only the initiator opens");
    let connection = &mut pair.initiator.connection;
    assert_eq!(connection.send(&Frame::PipeData { pipe: id, bytes: b"" }), Err(wrong));
    let nothing = connection.send_pipe_data(id, 0, |space| Ok::<_, ()>(space.len()));
    assert!(matches!(nothing, Err(FillError::Send(SendError::Misuse(ApiMisuse::InvalidFrame)))));
    assert!(matches!(connection.send_pipe_data(id, 5, |_| Err(3)), Err(FillError::Source(3))));
    for impossible in [0, 6] {
        let filled = connection.send_pipe_data(id, 5, |_| Ok::<_, ()>(impossible));
        assert!(matches!(filled, Err(FillError::Send(SendError::Misuse(ApiMisuse::InvalidFrame)))));
    }
    assert!(pair.flight(Who::Embedder).is_empty() && pair.flight(Who::Ranker).is_empty());
}

#[test]
fn no_pipe_is_carried_before_both_sides_are_verified_or_for_an_auditor() {
    let unproved = Pair::of(Recipe::default());
    let mut audit = Pair::of(Recipe { kind: Kind::Audit, ..Recipe::default() });
    audit.run();
    assert!(audit.initiator.connection.is_established());
    for mut pair in [unproved, audit] {
        let connection = &mut pair.initiator.connection;
        let early = SendError::Misuse(ApiMisuse::NotEstablished);
        assert_eq!(connection.send(&Frame::PipeOpen(PipeId(0))), Err(early));
        let data = connection.send_pipe_data(PipeId(0), 5, |space| Ok::<_, ()>(space.len()));
        assert!(matches!(data, Err(FillError::Send(SendError::Misuse(ApiMisuse::NotEstablished)))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Model: what goes in at either end comes out at the other, whatever the sizes, the order and the pace.
    #[test]
    fn in_is_out(
        pipes in prop::collection::vec((0..600_000_usize, 0..600_000_usize, 0..6_usize, any::<bool>()), 1..6),
        seed: u64,
    ) {
        let mut forwarding = Forwarding::new();
        let mut random = Counter(seed);
        let mut expected = Vec::new();
        for (there, back, pause, stalled) in pipes {
            let id = forwarding.open();
            let (there, back) = (random.bytes(there), random.bytes(back));
            let client = forwarding.client.pipe(id);
            client.outgoing.extend(&there);
            client.closing = true;
            client.stalled = stalled;
            for _ in 0..pause {
                forwarding.round();
            }
            if forwarding.server.opened.len() <= expected.len() {
                forwarding.round();
            }
            let server = forwarding.server.pipe(id);
            server.outgoing.extend(&back);
            server.closing = true;
            expected.push((id, there, back));
        }
        forwarding.run();
        for (id, _, _) in &expected {
            forwarding.client.pipe(*id).stalled = false;
        }
        forwarding.run();
        for (id, there, back) in expected {
            let (server, client) = (forwarding.server.pipe(id), forwarding.client.pipe(id));
            prop_assert!(server.took == there && client.took == back);
            prop_assert!(server.receiver.is_over() && client.receiver.is_over());
        }
    }
}
