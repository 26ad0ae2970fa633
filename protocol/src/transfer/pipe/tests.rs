use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use sealane_attestation::binding::Role;
use sealane_types::Reason;

use super::*;
use crate::frame::PipeId;
use crate::limits::{PIPE_WINDOW_BYTES, PIPE_WINDOW_BYTES_MAX, PIPES_MAX};

const WINDOW: usize = PIPE_WINDOW_BYTES as usize;

#[test]
fn a_sender_sends_what_was_granted_and_nothing_after_its_end() {
    let mut sender = PipeSender::new();
    assert_eq!((sender.room(), sender.total()), (PIPE_WINDOW_BYTES, 0));
    sender.sent(PIPE_WINDOW_BYTES);
    assert_eq!(sender.room(), 0);
    sender.on_credit(PIPE_WINDOW_BYTES + 7).unwrap();
    assert_eq!((sender.room(), sender.total()), (7, PIPE_WINDOW_BYTES));
    assert!(!sender.is_ended());
    sender.end_sent();
    assert!(sender.is_ended());
    assert_eq!((sender.room(), sender.total()), (0, PIPE_WINDOW_BYTES));
    // The receiver granted it before it knew of the end.
    sender.on_credit(PIPE_WINDOW_BYTES + 9).unwrap();
    assert_eq!(sender.room(), 0);
}

#[test]
fn credit_never_shrinks_and_never_runs_far_ahead() {
    let mut sender = PipeSender::new();
    assert_eq!(sender.on_credit(PIPE_WINDOW_BYTES - 1), Err(PipeError::CreditShrunk));
    assert_eq!(sender.on_credit(PIPE_WINDOW_BYTES), Ok(()), "once more the same");
    assert_eq!(sender.on_credit(PIPE_WINDOW_BYTES_MAX), Ok(()));
    assert_eq!(sender.on_credit(PIPE_WINDOW_BYTES_MAX + 1), Err(PipeError::CreditTooLarge));
    sender.sent(10);
    assert_eq!(sender.on_credit(PIPE_WINDOW_BYTES_MAX + 10), Ok(()));
    assert_eq!(sender.on_credit(PIPE_WINDOW_BYTES_MAX + 11), Err(PipeError::CreditTooLarge));
    assert_eq!(sender.on_credit(u64::MAX), Err(PipeError::CreditTooLarge));
}

#[test]
fn a_receiver_takes_what_it_granted_and_no_more() {
    let mut receiver = PipeReceiver::new();
    receiver.on_data(&vec![0; WINDOW - 1]).unwrap();
    assert_eq!(receiver.on_data(&[0; 2]), Err(PipeError::CreditExceeded));
    receiver.on_data(&[0; 1]).unwrap();
    assert_eq!(receiver.held(), PIPE_WINDOW_BYTES);
    receiver.taken(PIPE_WINDOW_BYTES);
    assert_eq!(receiver.on_data(&[0; 1]), Err(PipeError::CreditExceeded), "taken, and not yet granted");
    let through = receiver.credit_due().unwrap();
    assert_eq!(through, 2 * PIPE_WINDOW_BYTES);
    assert_eq!(receiver.on_data(&[0; 1]), Err(PipeError::CreditExceeded), "due, and not yet sent");
    receiver.credit_sent(through);
    assert_eq!(receiver.credit_due(), None);
    receiver.on_data(&vec![0; WINDOW]).unwrap();
    assert_eq!(receiver.on_data(&[0; 1]), Err(PipeError::CreditExceeded));
}

#[test]
fn a_grant_goes_out_when_half_a_window_is_free() {
    let mut receiver = PipeReceiver::new();
    receiver.on_data(&vec![0; WINDOW]).unwrap();
    receiver.taken(PIPE_WINDOW_BYTES / 2 - 1);
    assert_eq!(receiver.credit_due(), None);
    receiver.taken(1);
    assert_eq!(receiver.credit_due(), Some(PIPE_WINDOW_BYTES * 3 / 2));
    receiver.on_end(PIPE_WINDOW_BYTES).unwrap();
    assert_eq!(receiver.credit_due(), None, "nothing more will come");
}

#[test]
fn a_window_widens_within_its_limit() {
    let mut receiver = PipeReceiver::new();
    receiver.widen(1);
    assert_eq!(receiver.credit_due(), None, "it does not shrink");
    receiver.widen(4 * PIPE_WINDOW_BYTES);
    assert_eq!(receiver.credit_due(), Some(4 * PIPE_WINDOW_BYTES));
    receiver.widen(u64::MAX);
    assert_eq!(receiver.credit_due(), Some(PIPE_WINDOW_BYTES_MAX));
    // An honest receiver's largest grant is one that every sender accepts.
    assert_eq!(PipeSender::new().on_credit(PIPE_WINDOW_BYTES_MAX), Ok(()));
    // A grant that went out is not forgotten when the shell repeats an older one.
    receiver.credit_sent(PIPE_WINDOW_BYTES_MAX);
    receiver.credit_sent(PIPE_WINDOW_BYTES);
    assert_eq!(receiver.on_data(&vec![0; WINDOW + 1]), Ok(()));
}

#[test]
fn an_end_comes_once_and_tells_the_truth() {
    for (said, outcome) in [(4, Err(PipeError::TotalDiffers)), (5, Ok(())), (6, Err(PipeError::TotalDiffers))]
    {
        let mut receiver = PipeReceiver::new();
        receiver.on_data(b"bytes").unwrap();
        assert_eq!(receiver.on_end(said), outcome);
        assert_eq!(receiver.is_ended(), outcome.is_ok());
        assert!(!receiver.is_over(), "the application has not taken them");
        if outcome.is_ok() {
            assert_eq!(receiver.on_end(5), Err(PipeError::AfterEnd));
            assert_eq!(receiver.on_data(b"more"), Err(PipeError::AfterEnd));
            receiver.taken(4);
            assert!(!receiver.is_over());
            receiver.taken(1);
            assert!(receiver.is_over());
        }
    }
    let mut empty = PipeReceiver::new();
    assert!(!empty.is_over(), "nothing held is no end");
    empty.on_end(0).unwrap();
    assert!(empty.is_over());
}

#[test]
fn only_the_initiator_opens_pipes() {
    let mut initiator = PipeTable::new(Role::Initiator);
    assert_eq!(initiator.on_open(PipeId(0), || ()), Err(PipeError::OpenedByResponder));
    assert_eq!(initiator.find(PipeId(0)), Err(PipeError::NeverOpened));
    assert_eq!(initiator.open(()), Ok(PipeId(0)));
    assert_eq!(initiator.open(()), Ok(PipeId(1)));
    assert_eq!(PipeTable::new(Role::Responder).open(()), Err(OpenError::Responder));
}

#[test]
fn numbers_grow_and_name_one_pipe_each() {
    let mut table = PipeTable::new(Role::Responder);
    assert_eq!(table.find(PipeId(0)), Err(PipeError::NeverOpened));
    assert_eq!(table.on_open(PipeId(4), || 'a'), Ok(Some(&mut 'a')));
    assert_eq!(table.on_open(PipeId(4), || 'b'), Err(PipeError::NumberReused));
    assert_eq!(table.on_open(PipeId(3), || 'b'), Err(PipeError::NumberReused));
    assert_eq!(table.find(PipeId(5)), Err(PipeError::NeverOpened));
    assert_eq!(table.find(PipeId(4)), Ok(Some(&mut 'a')));
    assert_eq!(table.remove(PipeId(4)), Some('a'));
    assert_eq!(table.find(PipeId(4)), Ok(None), "frames of it may still be on the way");
    assert_eq!(table.on_open(PipeId(4), || 'b'), Err(PipeError::NumberReused), "nor is it used again");
    assert_eq!(table.on_open(PipeId(u32::MAX), || 'c'), Ok(Some(&mut 'c')));
    assert_eq!(table.on_open(PipeId(u32::MAX), || 'd'), Err(PipeError::NumberReused));
}

#[test]
fn a_connection_carries_so_many_pipes_and_no_more() {
    let mut initiator = PipeTable::new(Role::Initiator);
    let mut responder = PipeTable::new(Role::Responder);
    for number in 0..PIPES_MAX {
        assert_eq!(initiator.open(number), Ok(PipeId(number as u32)));
        assert!(responder.on_open(PipeId(number as u32), || number).unwrap().is_some());
    }
    assert_eq!(initiator.open(0), Err(OpenError::Full));
    let beyond = PipeId(PIPES_MAX as u32);
    assert_eq!(responder.on_open(beyond, || 0), Ok(None), "refused, and no reason to end the connection");
    assert_eq!(responder.find(beyond), Ok(None));
    assert_eq!((initiator.len(), responder.len()), (PIPES_MAX, PIPES_MAX));
    assert_eq!(initiator.remove(PipeId(7)), Some(7));
    assert_eq!(initiator.open(0), Ok(beyond));
    assert_eq!(initiator.take_all().count(), PIPES_MAX);
    assert!(initiator.is_empty());
}

#[test]
fn faults_have_the_words_that_the_peer_sees() {
    for fault in [PipeError::CreditExceeded, PipeError::CreditTooLarge] {
        assert_eq!(fault.reason(), Reason::LimitExceeded);
    }
    for fault in [
        PipeError::NeverOpened,
        PipeError::OpenedByResponder,
        PipeError::NumberReused,
        PipeError::CreditShrunk,
        PipeError::AfterEnd,
        PipeError::TotalDiffers,
    ] {
        assert_eq!(fault.reason(), Reason::FrameMalformed);
    }
}

/// A frame on its way.
#[derive(Debug)]
enum Sent {
    Open,
    Data(Vec<u8>),
    Credit(u64),
    End(u64),
    Reset,
}

/// What one side keeps for a pipe.
#[derive(Debug, Default)]
struct Pipe {
    sender: PipeSender,
    receiver: PipeReceiver,
    /// Handed in by the application and not sent.
    outgoing: VecDeque<u8>,
    closing: bool,
    /// Arrived and not taken.
    incoming: VecDeque<u8>,
}

/// The model: what applications handed in and took, as plain byte sequences.
#[derive(Debug, Default)]
struct Told {
    put: Vec<u8>,
    took: Vec<u8>,
    ended: bool,
}

struct Side {
    table: PipeTable<Pipe>,
    wire: VecDeque<(PipeId, Sent)>,
}

struct World {
    sides: [Side; 2],
    /// By pipe and putting side.
    told: BTreeMap<(PipeId, usize), Told>,
    reset: Vec<PipeId>,
    opened: Vec<PipeId>,
    counter: u8,
}

#[derive(Debug, Clone)]
enum Act {
    Open,
    Put { side: usize, pipe: usize, bytes: usize },
    Close { side: usize, pipe: usize },
    Send { side: usize, pipe: usize, bytes: u64 },
    Deliver { side: usize, frames: usize },
    Take { side: usize, pipe: usize, bytes: usize },
    Widen { side: usize, pipe: usize, bytes: u64 },
    Reset { side: usize, pipe: usize },
}

fn act() -> impl Strategy<Value = Act> {
    let place = || (0..2_usize, 0..4_usize);
    prop_oneof![
        2 => Just(Act::Open),
        6 => (place(), 0..2 * WINDOW).prop_map(|((side, pipe), bytes)| Act::Put { side, pipe, bytes }),
        1 => place().prop_map(|(side, pipe)| Act::Close { side, pipe }),
        8 => (place(), 1..2 * PIPE_WINDOW_BYTES).prop_map(|((side, pipe), bytes)| Act::Send { side, pipe, bytes }),
        8 => (0..2_usize, 1..5_usize).prop_map(|(side, frames)| Act::Deliver { side, frames }),
        6 => (place(), 0..WINDOW).prop_map(|((side, pipe), bytes)| Act::Take { side, pipe, bytes }),
        1 => (place(), 0..4 * PIPE_WINDOW_BYTES).prop_map(|((side, pipe), bytes)| Act::Widen { side, pipe, bytes }),
        1 => place().prop_map(|(side, pipe)| Act::Reset { side, pipe }),
    ]
}

impl World {
    fn new() -> Self {
        let side = |role| Side { table: PipeTable::new(role), wire: VecDeque::new() };
        let sides = [side(Role::Initiator), side(Role::Responder)];
        Self { sides, told: BTreeMap::new(), reset: Vec::new(), opened: Vec::new(), counter: 0 }
    }

    fn named(&self, pipe: usize) -> Option<PipeId> {
        self.opened.get(pipe % self.opened.len().max(1)).copied()
    }

    /// The pipe at `side`, unless it has not arrived there or is over.
    fn pipe(&mut self, side: usize, pipe: usize) -> Option<(PipeId, &mut Pipe)> {
        let id = self.named(pipe)?;
        Some((id, self.sides[side].table.find(id).ok()??))
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Open => {
                let side = &mut self.sides[0];
                let id = side.table.open(Pipe::default()).unwrap();
                side.wire.push_back((id, Sent::Open));
                self.opened.push(id);
            }
            Act::Put { side, pipe, bytes } => {
                self.counter = self.counter.wrapping_add(17);
                let byte = self.counter;
                let Some((id, pipe)) = self.pipe(side, pipe).filter(|(_, pipe)| !pipe.closing) else {
                    return;
                };
                let bytes: Vec<u8> = (0..bytes).map(|index| byte.wrapping_add(index as u8)).collect();
                pipe.outgoing.extend(&bytes);
                self.told.entry((id, side)).or_default().put.extend(bytes);
            }
            Act::Close { side, pipe } => {
                if let Some((_, pipe)) = self.pipe(side, pipe) {
                    pipe.closing = true;
                }
            }
            Act::Send { side, pipe, bytes } => self.send(side, pipe, bytes),
            Act::Deliver { side, frames } => (0..frames).for_each(|_| self.deliver(side)),
            Act::Take { side, pipe, bytes } => self.take(side, pipe, bytes),
            Act::Widen { side, pipe, bytes } => {
                if let Some((_, pipe)) = self.pipe(side, pipe) {
                    pipe.receiver.widen(bytes);
                }
            }
            Act::Reset { side, pipe } => {
                let Some(id) = self.pipe(side, pipe).map(|(id, _)| id) else { return };
                self.sides[side].table.remove(id);
                self.sides[side].wire.push_back((id, Sent::Reset));
                self.reset.push(id);
            }
        }
    }

    /// Sends data as far as there is room, then the end if nothing is left, and whatever credit is due.
    fn send(&mut self, side: usize, pipe: usize, bytes: u64) {
        let Some((id, pipe)) = self.pipe(side, pipe) else { return };
        let mut frames = Vec::new();
        let length = pipe.sender.room().min(bytes).min(pipe.outgoing.len() as u64);
        if length > 0 {
            frames.push(Sent::Data(pipe.outgoing.drain(..length as usize).collect()));
            pipe.sender.sent(length);
        }
        if pipe.closing && pipe.outgoing.is_empty() && !pipe.sender.is_ended() {
            frames.push(Sent::End(pipe.sender.total()));
            pipe.sender.end_sent();
        }
        if let Some(through) = pipe.receiver.credit_due() {
            frames.push(Sent::Credit(through));
            pipe.receiver.credit_sent(through);
        }
        self.sides[side].wire.extend(frames.into_iter().map(|frame| (id, frame)));
        self.finish(side, id);
    }

    /// The oldest frame that `side` sent reaches the other.
    fn deliver(&mut self, side: usize) {
        let Some((id, frame)) = self.sides[side].wire.pop_front() else { return };
        let other = 1 - side;
        let table = &mut self.sides[other].table;
        if matches!(frame, Sent::Open) {
            assert!(table.on_open(id, Pipe::default).unwrap().is_some());
            return;
        }
        let Some(pipe) = table.find(id).unwrap() else { return };
        match frame {
            Sent::Open => unreachable!(),
            Sent::Data(bytes) => {
                pipe.receiver.on_data(&bytes).unwrap();
                pipe.incoming.extend(bytes);
                assert_eq!(pipe.receiver.held(), pipe.incoming.len() as u64);
                assert!(pipe.receiver.held() <= 4 * PIPE_WINDOW_BYTES, "the widest window of this test");
            }
            Sent::Credit(through) => pipe.sender.on_credit(through).unwrap(),
            Sent::End(total) => pipe.receiver.on_end(total).unwrap(),
            Sent::Reset => drop(table.remove(id)),
        }
    }

    fn take(&mut self, side: usize, pipe: usize, bytes: usize) {
        let Some((id, pipe)) = self.pipe(side, pipe) else { return };
        let length = bytes.min(pipe.incoming.len());
        let bytes: Vec<u8> = pipe.incoming.drain(..length).collect();
        pipe.receiver.taken(length as u64);
        let told = self.told.entry((id, 1 - side)).or_default();
        told.took.extend(bytes);
        assert!(told.put.starts_with(&told.took), "in order, unchanged");
        self.finish(side, id);
    }

    /// The application sees the end once it is there; a pipe that is through in both directions leaves the table.
    fn finish(&mut self, side: usize, id: PipeId) {
        let table = &mut self.sides[side].table;
        let Some(pipe) = table.find(id).unwrap().filter(|pipe| pipe.receiver.is_over()) else { return };
        let told = self.told.entry((id, 1 - side)).or_default();
        told.ended = true;
        assert_eq!(told.took, told.put, "an end that is shown is the end");
        if pipe.sender.is_ended() {
            table.remove(id);
        }
    }

    /// Lets everything come to its end.
    fn settle(&mut self) {
        for pipe in 0..self.opened.len() {
            while self.sides.iter().any(|side| !side.wire.is_empty()) {
                (0..2).for_each(|side| self.deliver(side));
            }
            for _ in 0..10_000 {
                for side in 0..2 {
                    self.act(Act::Close { side, pipe });
                    self.send(side, pipe, u64::MAX);
                    while !self.sides[side].wire.is_empty() {
                        self.deliver(side);
                    }
                    self.take(1 - side, pipe, usize::MAX);
                }
                if (0..2).all(|side| self.pipe(side, pipe).is_none()) {
                    break;
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Model: each direction of each pipe is a byte sequence of its own. What is taken is a prefix of what was
    /// put, in any order of events; without a reset it is all of it, and only then is an end shown.
    #[test]
    fn two_byte_sequences(acts in prop::collection::vec(act(), 1..120)) {
        let mut world = World::new();
        acts.into_iter().for_each(|act| world.act(act));
        world.settle();
        prop_assert!(world.sides.iter().all(|side| side.table.is_empty()), "every pipe came to its end");
        for ((id, side), told) in &world.told {
            if !world.reset.contains(id) {
                prop_assert!(told.ended, "{id:?} from {side}");
                prop_assert_eq!(told.put.len(), told.took.len());
            }
        }
    }
}
