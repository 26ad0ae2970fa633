use sealane_types::{ForwardPort, SessionName};

use super::*;
use crate::context::tests::context;
use crate::desired::{Direction, SessionKey};

fn pipes() -> Pipes {
    let context = context(None);
    let key = SessionKey { name: SessionName::new("inference").unwrap(), direction: Direction::Receiving };
    let tally = Tally::new(&key, &context);
    Pipes::new(Role::Responder, Arc::clone(&context.forward), tally, Arc::default())
}

/// A target that is never reached, since nothing runs while a test does not wait.
fn target() -> Result<Address, Reason> {
    Ok(Address::Port(ForwardPort::new(8_001).unwrap()))
}

fn data(pipe: u32, bytes: &[u8]) -> Frame<'_> {
    Frame::PipeData { pipe: PipeId(pipe), bytes }
}

#[tokio::test]
async fn what_is_refused_is_answered_with_a_reset() {
    let mut pipes = pipes();
    pipes.on_open(PipeId(3), Err(Reason::PortReserved)).unwrap();
    assert_eq!(pipes.resets, [(PipeId(3), Reason::PortReserved)]);
    assert!(pipes.is_empty());
    // What was on its way means nothing any more; what was never opened is a fault.
    pipes.on_frame(data(3, b"x")).unwrap();
    assert_eq!(pipes.on_frame(data(4, b"x")), Err(Reason::FrameMalformed));
    assert_eq!(pipes.on_open(PipeId(3), target()), Err(Reason::FrameMalformed), "a number names one pipe");
}

#[tokio::test]
async fn a_connection_and_the_process_carry_so_many() {
    let mut pipes = pipes();
    let permits = Arc::clone(&pipes.premises.pipes);
    let before = permits.available_permits();
    for id in 0..PIPES_MAX as u32 {
        pipes.on_open(PipeId(id), target()).unwrap();
    }
    assert_eq!((pipes.table.len(), pipes.resets.len()), (PIPES_MAX, 0));
    assert_eq!(permits.available_permits(), before - PIPES_MAX);
    pipes.on_open(PipeId(5000), target()).unwrap();
    assert_eq!(pipes.resets, [(PipeId(5000), Reason::LimitExceeded)]);
    pipes.on_frame(Frame::PipeReset { pipe: PipeId(7), reason: Reason::Finished }).unwrap();
    assert_eq!(permits.available_permits(), before - PIPES_MAX + 1);
    // Others of this process have taken the rest.
    let _others = permits.acquire_many(u32::try_from(before - PIPES_MAX + 1).unwrap()).await.unwrap();
    pipes.on_open(PipeId(5001), target()).unwrap();
    assert_eq!(pipes.resets.back(), Some(&(PipeId(5001), Reason::LimitExceeded)));
}

#[tokio::test]
async fn resets_that_nobody_takes_end_the_connection() {
    let mut pipes = pipes();
    let outcome = (0..10_000).find_map(|id| pipes.on_open(PipeId(id), Err(Reason::PortReserved)).err());
    assert_eq!(outcome, Some(Reason::LimitExceeded));
    assert_eq!(pipes.resets.len(), RESETS_WAITING_MAX);
}

#[tokio::test]
async fn pipes_that_are_over_do_not_fill_the_queues_of_a_remote_that_takes_nothing() {
    let mut pipes = pipes();
    for id in 0..4 * QUEUE_MAX as u32 {
        let (socket, _application) = tokio::net::UnixStream::pair().unwrap();
        pipes.on_open(PipeId(id), target()).unwrap();
        let open = pipes.table.find(PipeId(id)).unwrap().unwrap();
        open.pipe.reached(Socket::unix(socket)).unwrap();
        pipes.queue(PipeId(id));
        pipes.on_frame(data(id, b"x")).unwrap();
        pipes.on_frame(Frame::PipeReset { pipe: PipeId(id), reason: Reason::Finished }).unwrap();
    }
    assert!(pipes.is_empty());
    for queue in [&pipes.turns, &pipes.taken] {
        assert!((1..=QUEUE_MAX).contains(&queue.len()), "{}", queue.len());
    }
}

#[tokio::test]
async fn a_replica_hears_of_a_pipe_before_anything_of_it() {
    let mut pipes = pipes();
    pipes.table = PipeTable::new(Role::Initiator);
    for _ in 0..2 {
        let (socket, _application) = tokio::net::UnixStream::pair().unwrap();
        let permit = Arc::clone(&pipes.premises.pipes).try_acquire_owned().unwrap();
        assert_eq!(pipes.begin(Socket::unix(socket), permit, Box::new(())), Ok(true));
    }
    assert_eq!(pipes.begun, [PipeId(0), PipeId(1)]);
    assert!(pipes.turns.is_empty(), "their turns come when the other side can know of them");
}

#[tokio::test]
async fn a_pipe_brings_what_it_has_credit_for_and_ends_with_the_truth() {
    let window = vec![7; usize::try_from(sealane_protocol::limits::PIPE_WINDOW_BYTES).unwrap()];
    let mut pipes = pipes();
    pipes.on_open(PipeId(0), target()).unwrap();
    pipes.on_frame(data(0, &window)).unwrap();
    assert_eq!(pipes.on_frame(data(0, b"x")), Err(Reason::LimitExceeded));
    let mut pipes = self::pipes();
    pipes.on_open(PipeId(0), target()).unwrap();
    pipes.on_frame(data(0, b"xyz")).unwrap();
    assert_eq!(pipes.on_frame(Frame::PipeEnd { pipe: PipeId(0), bytes: 2 }), Err(Reason::FrameMalformed));
    pipes.on_frame(Frame::PipeEnd { pipe: PipeId(0), bytes: 3 }).unwrap();
    assert_eq!(pipes.on_frame(data(0, b"x")), Err(Reason::FrameMalformed), "nothing follows an end");
    assert_eq!(
        pipes.on_frame(Frame::Abort(sealane_protocol::frame::StreamId(0))),
        Err(Reason::FrameMalformed)
    );
}
