//! Pipes through whole connections: two byte sequences each, whatever the ends do, and nothing that a rogue says
//! about them is believed.

use std::collections::VecDeque;

use proptest::prelude::*;
use sealane_attestation::binding::Role;
use sealane_protocol::connection::{ApiMisuse, ChunkError, ClosedBy, Connection, Fail, SendError, Sink};
use sealane_protocol::frame::{Frame, Incarnation, Open, PipeId, Sequence, StreamId};
use sealane_protocol::handshake::Kind;
use sealane_protocol::limits::{PIPE_WINDOW_BYTES, PIPE_WINDOW_BYTES_MAX, PIPES_MAX};
use sealane_protocol::transfer::pipe::{PipeReceiver, PipeSender, PipeTable};
use sealane_support::rogue::{Opposed, RogueIs, frame};
use sealane_types::Reason;

use crate::support::{Pair, Recipe};
use crate::world::{Counter, Who};

/// What one side keeps for a pipe.
#[derive(Debug, Default)]
struct Pipe {
    sender: PipeSender,
    receiver: PipeReceiver,
    /// Handed in by the application and not sent.
    outgoing: VecDeque<u8>,
    closing: bool,
    /// Arrived and not taken.
    incoming: Vec<u8>,
    /// Taken by the application.
    took: Vec<u8>,
    /// The application takes nothing.
    stalled: bool,
}

/// The pipes of one side, as a sidecar drives them. Pipes that are over stay in the table, so that tests can look
/// at them.
#[derive(Debug)]
struct Pipes {
    table: PipeTable<Pipe>,
    /// Pipes that the other side opened, in that order.
    opened: Vec<PipeId>,
    /// Resets that arrived, and resets owed for pipes beyond the limit.
    resets: Vec<(PipeId, Reason)>,
    refused: Vec<PipeId>,
}

impl Pipes {
    fn new(role: Role) -> Self {
        Self { table: PipeTable::new(role), opened: Vec::new(), resets: Vec::new(), refused: Vec::new() }
    }

    fn on(
        &mut self,
        id: PipeId,
        act: impl FnOnce(&mut Pipe) -> Result<(), sealane_protocol::transfer::pipe::PipeError>,
    ) -> Result<(), Reason> {
        match self.table.find(id) {
            Ok(Some(pipe)) => act(pipe).map_err(|fault| fault.reason()),
            Ok(None) => Ok(()),
            Err(fault) => Err(fault.reason()),
        }
    }

    fn pipe(&mut self, id: PipeId) -> &mut Pipe {
        self.table.find(id).unwrap().unwrap()
    }

    /// Takes what arrived, and queues what credit and room permit.
    fn pump(&mut self, connection: &mut Connection) {
        for id in self.refused.drain(..) {
            connection.send(&Frame::PipeReset { pipe: id, reason: Reason::LimitExceeded }).unwrap();
        }
        for (id, pipe) in self.table.iter_mut() {
            if !pipe.stalled {
                pipe.receiver.taken(pipe.incoming.len() as u64);
                pipe.took.append(&mut pipe.incoming);
            }
            if let Some(bytes_through) = pipe.receiver.credit_due() {
                connection.send(&Frame::PipeCredit { pipe: id, bytes_through }).unwrap();
                pipe.receiver.credit_sent(bytes_through);
            }
        }
        for (id, pipe) in self.table.iter_mut() {
            pipe.pump(id, connection);
        }
    }
}

impl Pipe {
    fn pump(&mut self, id: PipeId, connection: &mut Connection) {
        loop {
            let wanted = self.sender.room().min(self.outgoing.len() as u64);
            if wanted == 0 {
                break;
            }
            let outgoing = self.outgoing.make_contiguous();
            let fill = |space: &mut [u8]| {
                space.copy_from_slice(&outgoing[..space.len()]);
                Ok::<_, ()>(space.len())
            };
            match connection.send_pipe_data(id, wanted, fill) {
                Ok(queued) => {
                    self.sender.sent(queued as u64);
                    self.outgoing.drain(..queued);
                }
                Err(ChunkError::Send(SendError::NoRoom)) => return,
                Err(other) => panic!("{other:?}"),
            }
        }
        if self.closing && self.outgoing.is_empty() && !self.sender.is_ended() {
            match connection.send(&Frame::PipeEnd { pipe: id, bytes: self.sender.total() }) {
                Ok(()) => self.sender.end_sent(),
                Err(SendError::NoRoom) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

impl Sink for Pipes {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::PipeOpen(id) => {
                match self.table.on_open(id, Pipe::default).map_err(|fault| fault.reason())? {
                    Some(_) => self.opened.push(id),
                    None => self.refused.push(id),
                }
                Ok(())
            }
            Frame::PipeData { pipe, bytes } => self.on(pipe, |pipe| {
                pipe.receiver.on_data(bytes)?;
                pipe.incoming.extend_from_slice(bytes);
                Ok(())
            }),
            Frame::PipeCredit { pipe, bytes_through } => {
                self.on(pipe, |pipe| pipe.sender.on_credit(bytes_through))
            }
            Frame::PipeEnd { pipe, bytes } => self.on(pipe, |pipe| pipe.receiver.on_end(bytes)),
            Frame::PipeReset { pipe, reason } => {
                self.on(pipe, |_| Ok(()))?;
                self.table.remove(pipe);
                self.resets.push((pipe, reason));
                Ok(())
            }
            // A session that forwards carries no stream.
            _ => Err(Reason::FrameMalformed),
        }
    }
}

/// Two connected sides that carry pipes.
struct Forwarding {
    pair: Pair,
    client: Pipes,
    server: Pipes,
}

impl Forwarding {
    fn new() -> Self {
        Self {
            pair: Pair::connected(),
            client: Pipes::new(Role::Initiator),
            server: Pipes::new(Role::Responder),
        }
    }

    fn open(&mut self) -> PipeId {
        let id = self.client.table.open(Pipe::default()).unwrap();
        self.pair.initiator.connection.send(&Frame::PipeOpen(id)).unwrap();
        id
    }

    /// What `who` has queued reaches the other side. Returns whether it was anything.
    fn carry(&mut self, who: Who) -> bool {
        let mut bytes = self.pair.flight(who);
        let now = self.pair.now;
        let (side, pipes) = match who {
            Who::Embedder => (&mut self.pair.responder, &mut self.server),
            Who::Ranker => (&mut self.pair.initiator, &mut self.client),
        };
        if let Err(fail) = side.connection.handle_input(now, &mut bytes, pipes) {
            side.fail = Some(fail);
        }
        !bytes.is_empty()
    }

    fn round(&mut self) -> bool {
        self.client.pump(&mut self.pair.initiator.connection);
        let there = self.carry(Who::Embedder);
        self.server.pump(&mut self.pair.responder.connection);
        let back = self.carry(Who::Ranker);
        assert_eq!((self.pair.initiator.fail, self.pair.responder.fail), (None, None));
        there || back
    }

    fn run(&mut self) {
        while self.round() {}
    }
}

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
    assert!(matches!(full, ChunkError::Send(SendError::NoRoom)));
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
    assert!(matches!(nothing, Err(ChunkError::Send(SendError::Misuse(ApiMisuse::InvalidFrame)))));
    assert!(matches!(connection.send_pipe_data(id, 5, |_| Err(3)), Err(ChunkError::Source(3))));
    for impossible in [0, 6] {
        let filled = connection.send_pipe_data(id, 5, |_| Ok::<_, ()>(impossible));
        assert!(matches!(filled, Err(ChunkError::Send(SendError::Misuse(ApiMisuse::InvalidFrame)))));
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
        assert!(matches!(data, Err(ChunkError::Send(SendError::Misuse(ApiMisuse::NotEstablished)))));
    }
}

/// Bytes of a frame as PROTOCOL.md writes them.
fn wire(kind: u8, pipe: u32, rest: &[u8]) -> Vec<u8> {
    frame(kind, &[&pipe.to_be_bytes()[..], rest].concat())
}

fn open(pipe: u32) -> Vec<u8> {
    wire(0x20, pipe, b"")
}

fn data(pipe: u32, bytes: &[u8]) -> Vec<u8> {
    wire(0x21, pipe, bytes)
}

fn credit(pipe: u32, through: u64) -> Vec<u8> {
    wire(0x22, pipe, &through.to_be_bytes())
}

fn end(pipe: u32, total: u64) -> Vec<u8> {
    wire(0x23, pipe, &total.to_be_bytes())
}

fn reset(pipe: u32) -> Vec<u8> {
    wire(0x24, pipe, &[0, 0])
}

#[test]
fn pipes_before_the_verdict_are_refused() {
    for rogue_is in [RogueIs::Initiator, RogueIs::Responder] {
        for early in [open(0), data(0, b"early"), credit(0, 1 << 20), end(0, 0), reset(0)] {
            let mut opposed = Opposed::keyed(rogue_is);
            let mut pipes = Pipes::new(Role::Responder);
            assert!(matches!(opposed.say(&early, &mut pipes), Err(Fail::Order(_))));
            assert!(opposed.honest.is_closed() && pipes.opened.is_empty());
        }
    }
}

/// What an honest responder answers when a verified rogue says these frames, one record each.
fn said(frames: &[Vec<u8>]) -> Result<Pipes, Fail> {
    let mut opposed = Opposed::established(RogueIs::Initiator);
    let mut pipes = Pipes::new(Role::Responder);
    frames.iter().try_for_each(|frame| opposed.say(frame, &mut pipes))?;
    Ok(pipes)
}

#[track_caller]
fn assert_refused(frames: &[Vec<u8>], reason: Reason) {
    assert_eq!(said(frames).unwrap_err(), Fail::Sink(reason));
}

#[test]
fn a_responder_that_opens_a_pipe_is_refused() {
    let mut opposed = Opposed::established(RogueIs::Responder);
    // Even by a shell that would take it.
    let mut careless = Pipes::new(Role::Responder);
    let refused = opposed.say(&open(0), &mut careless);
    assert!(matches!(refused, Err(Fail::Order(_))), "{refused:?}");
    assert!(careless.opened.is_empty() && opposed.honest.is_closed());
}

#[test]
fn data_beyond_credit_is_refused() {
    let window = PIPE_WINDOW_BYTES as usize;
    let piece = vec![1; 32_768];
    let full = |more: &[u8]| {
        let mut frames = vec![open(0)];
        frames.extend((0..window / piece.len()).map(|_| data(0, &piece)));
        frames.extend((!more.is_empty()).then(|| data(0, more)));
        frames
    };
    assert_eq!(said(&full(b"")).unwrap().pipe(PipeId(0)).incoming.len(), window);
    assert_refused(&full(b"!"), Reason::LimitExceeded);
}

#[test]
fn an_end_that_is_not_the_truth_is_refused() {
    assert!(said(&[open(0), data(0, b"bytes"), end(0, 5)]).unwrap().pipe(PipeId(0)).receiver.is_ended());
    for total in [0, 4, 6, u64::MAX] {
        assert_refused(&[open(0), data(0, b"bytes"), end(0, total)], Reason::FrameMalformed);
    }
    assert_refused(&[open(0), end(0, 0), end(0, 0)], Reason::FrameMalformed);
    assert_refused(&[open(0), end(0, 0), data(0, b"more")], Reason::FrameMalformed);
}

#[test]
fn credit_that_shrinks_or_runs_far_ahead_is_refused() {
    assert!(said(&[open(0), credit(0, PIPE_WINDOW_BYTES_MAX)]).is_ok());
    assert_refused(&[open(0), credit(0, PIPE_WINDOW_BYTES_MAX + 1)], Reason::LimitExceeded);
    assert_refused(&[open(0), credit(0, PIPE_WINDOW_BYTES - 1)], Reason::FrameMalformed);
    let back = [open(0), credit(0, PIPE_WINDOW_BYTES + 9), credit(0, PIPE_WINDOW_BYTES + 8)];
    assert_refused(&back, Reason::FrameMalformed);
}

#[test]
fn pipes_that_were_never_opened_are_refused() {
    for unknown in [data(1, b"?"), credit(1, 1 << 20), end(1, 0), reset(1)] {
        assert_refused(&[unknown.clone()], Reason::FrameMalformed);
        assert_refused(&[open(0), unknown], Reason::FrameMalformed);
    }
    assert_refused(&[open(1), open(1)], Reason::FrameMalformed);
    assert_refused(&[open(1), open(0)], Reason::FrameMalformed);
    assert_refused(&[open(1), reset(1), open(1)], Reason::FrameMalformed);
    assert!(said(&[open(1), reset(1), data(1, b"late"), end(1, 4), reset(1)]).is_ok(), "it was on its way");
}

#[test]
fn a_stream_on_a_connection_of_pipes_is_refused() {
    let mut pair = Pair::connected();
    let mut pipes = Pipes::new(Role::Responder);
    let open = Open { stream: StreamId(0), incarnation: Incarnation([1; 16]), base_sequence: Sequence(0) };
    pair.initiator.connection.send(&Frame::Open(open)).unwrap();
    let mut bytes = pair.flight(Who::Embedder);
    let refused = pair.responder.connection.handle_input(pair.now, &mut bytes, &mut pipes);
    assert_eq!(refused, Err(Fail::Sink(Reason::FrameMalformed)));
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
            (0..pause).for_each(|_| drop(forwarding.round()));
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
