//! Nothing that a rogue says about pipes is believed.

use sealane_attestation::binding::Role;
use sealane_protocol::connection::Fail;
use sealane_protocol::frame::{Frame, Incarnation, Open, PipeId, Sequence, StreamId};
use sealane_protocol::limits::{PIPE_WINDOW_BYTES, PIPE_WINDOW_BYTES_MAX};
use sealane_support::rogue::{Opposed, RogueIs, frame};
use sealane_types::Reason;

use super::forwarding::Pipes;
use super::support::Pair;
use super::world::Who;

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
        assert_refused(std::slice::from_ref(&unknown), Reason::FrameMalformed);
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
