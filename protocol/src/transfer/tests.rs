//! Each rule of a stream, broken alone.

use sealane_types::Dtype;

use super::*;
use crate::frame::{
    ByteRange, Chunk, Credit, End, Incarnation, Open, Sequence, Sequences, Shape, StreamId, Taken,
    TensorHeader,
};
use crate::limits::{ANNOUNCE_AHEAD_TENSORS, WINDOW_TENSORS};

const STREAM: StreamId = StreamId(1);
const INCARNATION: Incarnation = Incarnation([1; 16]);

fn open(base: u64) -> Open {
    Open { stream: STREAM, incarnation: INCARNATION, base_sequence: Sequence(base) }
}

fn header(sequence: u64, length: u64) -> TensorHeader<'static> {
    // A stream looks at the length alone.
    let (sequence, shape) = (Sequence(sequence), Shape::new(&[]).unwrap());
    TensorHeader { stream: STREAM, sequence, dtype: Dtype::Uint8, shape, run: false, name: "", length }
}

fn chunk(sequence: u64, offset: u64, bytes: &[u8]) -> Chunk<'_> {
    Chunk { stream: STREAM, sequence: Sequence(sequence), offset, bytes }
}

fn end(tensors: u64, bytes: u64) -> End {
    End { stream: STREAM, tensors, bytes }
}

fn inbound() -> Inbound {
    let mut inbound = Inbound::new(INCARNATION, 100);
    assert_eq!(inbound.attach(&open(0)), Ok(vec![]));
    inbound
}

fn replies(inbound: &mut Inbound) -> Vec<Reply> {
    std::iter::from_fn(|| inbound.poll_reply()).collect()
}

fn credit(bytes_through: u64, tensors_through: u64) -> Credit {
    Credit { stream: STREAM, bytes_through, tensors_through }
}

#[test]
fn another_incarnation_is_another_stream() {
    let other = Open { incarnation: Incarnation([2; 16]), ..open(0) };
    assert_eq!(inbound().attach(&other), Err(InboundError::OtherIncarnation));
}

#[test]
fn nothing_comes_before_the_stream_is_open() {
    let mut closed = Inbound::new(INCARNATION, 100);
    assert_eq!(closed.on_tensor(&header(0, 1)), Err(InboundError::NotOpen));
    assert_eq!(closed.on_chunk(&chunk(0, 0, b"a")), Err(InboundError::NotOpen));
    assert_eq!(closed.on_end(&end(0, 0)), Err(InboundError::NotOpen));
    assert_eq!(closed.poll_reply(), None);
}

#[test]
fn sequence_numbers_grow_from_the_base() {
    let mut inbound = Inbound::new(INCARNATION, 100);
    inbound.attach(&open(5)).unwrap();
    assert_eq!(inbound.on_tensor(&header(4, 1)), Err(InboundError::SequenceReused));
    assert_eq!(inbound.on_tensor(&header(5, 1)), Ok(Announced::New));
    assert_eq!(inbound.on_tensor(&header(5, 1)), Err(InboundError::SequenceReused));
    assert_eq!(inbound.on_tensor(&header(9, 0)), Ok(Announced::Complete));
    assert_eq!(inbound.on_tensor(&header(8, 1)), Err(InboundError::SequenceReused));
}

#[test]
fn a_chunk_continues_the_oldest_incomplete_tensor() {
    let announced = || {
        let mut inbound = inbound();
        inbound.on_tensor(&header(0, 4)).unwrap();
        inbound.on_tensor(&header(1, 4)).unwrap();
        inbound
    };
    for wrong in [chunk(1, 0, b"a"), chunk(0, 1, b"a"), chunk(0, 0, b"abcde")] {
        assert_eq!(announced().on_chunk(&wrong), Err(InboundError::ChunkOutOfPlace));
    }
    let mut inbound = announced();
    assert_eq!(inbound.on_chunk(&chunk(0, 0, b"abc")), Ok(Place::Write { complete: false }));
    assert_eq!(inbound.on_chunk(&chunk(0, 3, b"d")), Ok(Place::Write { complete: true }));
    assert_eq!(inbound.on_chunk(&chunk(1, 0, b"abcd")), Ok(Place::Write { complete: true }));
    assert_eq!(inbound.on_chunk(&chunk(1, 4, b"e")), Err(InboundError::ChunkOutOfPlace));
}

#[test]
fn bytes_need_credit_and_credit_follows_places() {
    let mut inbound = inbound();
    assert_eq!(replies(&mut inbound), [Reply::Credit(credit(100, WINDOW_TENSORS))]);
    inbound.on_tensor(&header(0, 60)).unwrap();
    inbound.on_tensor(&header(1, 60)).unwrap();
    inbound.on_tensor(&header(2, 60)).unwrap();
    // A place further back gives nothing yet: bytes come in order.
    inbound.reserved(Sequence(1));
    assert_eq!(replies(&mut inbound), []);
    inbound.on_chunk(&chunk(0, 0, &[0; 60])).unwrap();
    inbound.on_chunk(&chunk(1, 0, &[0; 40])).unwrap();
    assert_eq!(inbound.on_chunk(&chunk(1, 40, &[0; 20])), Err(InboundError::CreditExceeded));

    let mut inbound = self::inbound();
    for sequence in 0..3 {
        inbound.on_tensor(&header(sequence, 60)).unwrap();
    }
    inbound.reserved(Sequence(1));
    inbound.reserved(Sequence(0));
    inbound.reserved(Sequence(0));
    assert_eq!(replies(&mut inbound), [Reply::Credit(credit(220, WINDOW_TENSORS))]);
}

#[test]
fn tensors_need_credit_that_taking_gives_back() {
    let mut inbound = inbound();
    for sequence in 0..WINDOW_TENSORS {
        inbound.on_tensor(&header(sequence, 0)).unwrap();
    }
    assert_eq!(inbound.on_tensor(&header(WINDOW_TENSORS, 0)), Err(InboundError::CreditExceeded));
    inbound.taken(Sequence(7));
    inbound.taken(Sequence(7));
    inbound.taken(Sequence(999_999));
    assert_eq!(
        replies(&mut inbound),
        [Reply::Taken(vec![Sequence(7)]), Reply::Credit(credit(100, WINDOW_TENSORS + 1))]
    );
    assert_eq!(inbound.on_tensor(&header(WINDOW_TENSORS, 0)), Ok(Announced::Complete));
}

#[test]
fn acknowledgements_are_split_to_fit_a_frame() {
    let mut inbound = inbound();
    for sequence in 0..2_000 {
        inbound.on_tensor(&header(sequence, 0)).unwrap();
        inbound.taken(Sequence(sequence));
    }
    let counts: Vec<_> = replies(&mut inbound)
        .iter()
        .filter_map(|reply| match reply {
            Reply::Taken(sequences) => Some(sequences.len()),
            _ => None,
        })
        .collect();
    assert_eq!(counts, [1024, 976]);
}

#[test]
fn an_end_is_complete_true_and_last() {
    let with_one = || {
        let mut inbound = inbound();
        inbound.on_tensor(&header(0, 4)).unwrap();
        inbound.on_chunk(&chunk(0, 0, b"abcd")).unwrap();
        inbound
    };
    for wrong in [end(0, 4), end(2, 4), end(1, 3), end(1, 5)] {
        assert_eq!(with_one().on_end(&wrong), Err(InboundError::TotalsDiffer));
    }
    let mut cut_off = inbound();
    cut_off.on_tensor(&header(0, 4)).unwrap();
    cut_off.on_chunk(&chunk(0, 0, b"ab")).unwrap();
    assert_eq!(cut_off.on_end(&end(1, 2)), Err(InboundError::TotalsDiffer));

    let mut inbound = with_one();
    assert_eq!(inbound.on_end(&end(1, 4)), Ok(()));
    assert_eq!(inbound.on_end(&end(1, 4)), Err(InboundError::AfterEnd));
    assert_eq!(inbound.on_tensor(&header(1, 0)), Err(InboundError::AfterEnd));
}

#[test]
fn the_end_is_seen_after_everything_was_taken() {
    let mut inbound = inbound();
    inbound.on_tensor(&header(0, 0)).unwrap();
    inbound.end_seen();
    inbound.on_end(&end(1, 0)).unwrap();
    inbound.end_seen();
    assert!(!replies(&mut inbound).contains(&Reply::Ended(STREAM)), "a tensor is still untaken");
    inbound.taken(Sequence(0));
    inbound.end_seen();
    assert!(replies(&mut inbound).contains(&Reply::Ended(STREAM)));
    // A sender that lost the connection before it heard so says the end again.
    inbound.attach(&open(1)).unwrap();
    inbound.on_end(&end(0, 0)).unwrap();
    assert!(replies(&mut inbound).contains(&Reply::Ended(STREAM)));
}

#[test]
fn repeats_are_dropped_and_acknowledged_once_more_if_taken() {
    let mut inbound = inbound();
    for sequence in 0..3 {
        inbound.on_tensor(&header(sequence, 2)).unwrap();
        inbound.reserved(Sequence(sequence));
    }
    inbound.on_chunk(&chunk(0, 0, b"ab")).unwrap();
    inbound.on_chunk(&chunk(1, 0, b"ab")).unwrap();
    inbound.on_chunk(&chunk(2, 0, b"a")).unwrap();
    inbound.taken(Sequence(0));
    // The link is lost: 0 is taken, 1 is held, 2 was cut off.
    assert_eq!(inbound.attach(&open(0)), Ok(vec![Sequence(2)]));
    replies(&mut inbound);
    assert_eq!(inbound.on_tensor(&header(0, 2)), Ok(Announced::Repeat));
    assert_eq!(inbound.on_tensor(&header(1, 2)), Ok(Announced::Repeat));
    assert_eq!(inbound.on_tensor(&header(2, 2)), Ok(Announced::New));
    assert_eq!(inbound.on_chunk(&chunk(0, 0, b"ab")), Ok(Place::Drop));
    assert_eq!(inbound.on_chunk(&chunk(1, 0, b"ab")), Ok(Place::Drop));
    let taken = |inbound: &mut Inbound| {
        replies(inbound).into_iter().filter(|reply| matches!(reply, Reply::Taken(_))).collect::<Vec<_>>()
    };
    assert_eq!(taken(&mut inbound), [Reply::Taken(vec![Sequence(0)])]);
    inbound.taken(Sequence(1));
    assert_eq!(taken(&mut inbound), [Reply::Taken(vec![Sequence(1)])]);
}

#[test]
fn opening_again_makes_no_room_for_more_than_a_window() {
    let mut inbound = inbound();
    for sequence in 0..WINDOW_TENSORS {
        inbound.on_tensor(&header(sequence, 0)).unwrap();
    }
    inbound.attach(&open(0)).unwrap();
    // Nothing was taken: only repeats may come.
    assert_eq!(inbound.on_tensor(&header(0, 0)), Ok(Announced::Repeat));
    assert_eq!(inbound.on_tensor(&header(WINDOW_TENSORS, 0)), Err(InboundError::CreditExceeded));
    inbound.taken(Sequence(0));
    assert_eq!(inbound.on_tensor(&header(WINDOW_TENSORS, 8)), Ok(Announced::New));
    assert_eq!(inbound.on_tensor(&header(WINDOW_TENSORS + 1, 8)), Err(InboundError::CreditExceeded));
}

#[test]
fn what_is_forgotten_gives_no_credit_back() {
    let mut inbound = inbound();
    for sequence in 0..WINDOW_TENSORS {
        inbound.on_tensor(&header(sequence, 0)).unwrap();
    }
    inbound.forget(Sequence(0));
    assert_eq!(inbound.on_tensor(&header(WINDOW_TENSORS, 0)), Err(InboundError::CreditExceeded));
}

#[test]
fn tensors_below_the_base_fill_the_window_until_they_are_taken() {
    let mut inbound = inbound();
    for sequence in 0..3 {
        inbound.on_tensor(&header(sequence, 0)).unwrap();
    }
    inbound.attach(&open(5)).unwrap();
    assert_eq!(replies(&mut inbound), [Reply::Credit(credit(100, WINDOW_TENSORS - 3))]);
    inbound.taken(Sequence(1));
    // The sender has settled it, and would not know what is acknowledged.
    assert_eq!(replies(&mut inbound), [Reply::Credit(credit(100, WINDOW_TENSORS - 2))]);
}

#[test]
fn what_was_dropped_before_anyone_had_it_comes_again() {
    let mut inbound = inbound();
    inbound.on_tensor(&header(0, 4)).unwrap();
    assert_eq!(inbound.on_tensor(&header(1, 0)), Ok(Announced::Complete));
    assert_eq!(inbound.detach(), [Sequence(0)]);
    inbound.forget(Sequence(1));
    inbound.attach(&open(0)).unwrap();
    assert_eq!(inbound.on_tensor(&header(0, 4)), Ok(Announced::New));
    assert_eq!(inbound.on_tensor(&header(1, 0)), Ok(Announced::Complete));
}

#[test]
fn what_is_accepted_without_a_place_follows_what_lies_there() {
    let mut inbound = inbound();
    inbound.set_staging(40);
    inbound.attach(&open(0)).unwrap();
    assert_eq!(replies(&mut inbound), [Reply::Credit(credit(40, WINDOW_TENSORS))]);
}

fn outbound() -> Outbound {
    let mut outbound = Outbound::new(STREAM, INCARNATION);
    assert_eq!(outbound.attach(), open(0));
    outbound
}

fn taken(sequences: &[Sequence]) -> Taken<'_> {
    Taken { stream: STREAM, sequences: Sequences::new(sequences) }
}

/// Sends everything that credit permits.
fn pump(outbound: &mut Outbound) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some(step) = outbound.next_step() {
        match step {
            Step::Announce { .. } => outbound.announced(),
            Step::Data { length_max, .. } => outbound.sent(length_max),
            Step::End(_) => outbound.end_sent(),
        }
        steps.push(step);
    }
    steps
}

#[test]
fn a_lane_s_numbers_grow_and_end() {
    let mut outbound = outbound();
    outbound.push(Sequence(3), 1, 1).unwrap();
    assert_eq!(outbound.push(Sequence(3), 1, 1), Err(OutboundError::SequenceReused));
    assert_eq!(outbound.push(Sequence(2), 1, 1), Err(OutboundError::SequenceReused));
    outbound.finish();
    assert_eq!(outbound.push(Sequence(4), 1, 1), Err(OutboundError::Finished));
}

#[test]
fn a_run_has_its_numbers_for_itself() {
    let mut outbound = outbound();
    outbound.push(Sequence(3), 4, 8).unwrap();
    assert_eq!(outbound.push(Sequence(6), 1, 1), Err(OutboundError::SequenceReused));
    assert_eq!(outbound.push(Sequence(7), 1, 1), Ok(()));

    let mut inbound = Inbound::new(INCARNATION, 100);
    inbound.attach(&open(0)).unwrap();
    let shape = Shape::new(&[4, 2]).unwrap();
    let run = TensorHeader { shape, run: true, ..header(3, 8) };
    assert_eq!(inbound.on_tensor(&run), Ok(Announced::New));
    assert_eq!(inbound.on_tensor(&header(6, 1)), Err(InboundError::SequenceReused));
    assert_eq!(inbound.on_tensor(&header(7, 1)), Ok(Announced::New));
}

#[test]
fn nothing_is_sent_without_a_connection_or_credit() {
    let mut outbound = Outbound::new(STREAM, INCARNATION);
    outbound.push(Sequence(0), 1, 10).unwrap();
    outbound.on_credit(credit(100, 100));
    assert_eq!(outbound.next_step(), None);
    outbound.attach();
    assert_eq!(outbound.next_step(), None);
    outbound.on_credit(credit(0, 1));
    assert_eq!(pump(&mut outbound), [Step::Announce { sequence: Sequence(0) }]);
    outbound.on_credit(credit(4, 1));
    outbound.on_credit(credit(1, 0));
    let data = |offset, length_max| Step::Data { sequence: Sequence(0), offset, length_max };
    assert_eq!(pump(&mut outbound), [data(0, 4)]);
    outbound.on_credit(credit(100, 1));
    assert_eq!(pump(&mut outbound), [data(4, 6)]);
}

#[test]
fn headers_run_ahead_of_large_tensors() {
    let mut outbound = outbound();
    for sequence in 0..200 {
        outbound.push(Sequence(sequence), 1, 16 << 20).unwrap();
    }
    outbound.on_credit(credit(1 << 20, 4096));
    let announced = pump(&mut outbound).iter().filter(|step| matches!(step, Step::Announce { .. })).count();
    assert_eq!(announced, 4, "64 MiB, while one of staging was sent");
}

#[test]
fn a_receiver_cannot_acknowledge_what_was_not_sent() {
    let mut outbound = outbound();
    outbound.push(Sequence(5), 1, 10).unwrap();
    assert_eq!(outbound.on_taken(&taken(&[Sequence(5)])), Err(OutboundError::TakenUnsent));
    assert_eq!(outbound.on_taken(&taken(&[Sequence(6)])), Err(OutboundError::TakenUnsent));
    outbound.on_credit(credit(9, 1));
    pump(&mut outbound);
    assert_eq!(outbound.on_taken(&taken(&[Sequence(5)])), Err(OutboundError::TakenUnsent));
    outbound.on_credit(credit(10, 1));
    pump(&mut outbound);
    assert_eq!(outbound.on_taken(&taken(&[Sequence(5)])), Ok(()));
    assert_eq!(outbound.poll_settled(), Some(Sequence(5)));
    // Once more is harmless: a repeat may have crossed the first acknowledgement.
    assert_eq!(outbound.on_taken(&taken(&[Sequence(5)])), Ok(()));
    assert_eq!(outbound.poll_settled(), None);
}

#[test]
fn a_stream_ends_after_everything_and_both_sides_said_so() {
    let mut outbound = outbound();
    outbound.push(Sequence(0), 1, 0).unwrap();
    assert_eq!(outbound.on_ended(), Err(OutboundError::EndedEarly));
    outbound.on_credit(credit(0, 1));
    pump(&mut outbound);
    outbound.on_taken(&taken(&[Sequence(0)])).unwrap();
    assert_eq!(outbound.on_ended(), Err(OutboundError::EndedEarly), "no end was sent");
    outbound.finish();
    assert_eq!(pump(&mut outbound), [Step::End(end(1, 0))]);
    assert_eq!(outbound.on_ended(), Ok(()));
    assert!(outbound.is_ended());

    let mut untaken = self::outbound();
    untaken.push(Sequence(0), 1, 0).unwrap();
    untaken.finish();
    untaken.on_credit(credit(0, 1));
    pump(&mut untaken);
    assert_eq!(untaken.on_ended(), Err(OutboundError::EndedEarly), "a tensor is untaken");
}

#[test]
fn bytes_are_kept_while_a_repeat_needs_them() {
    let mut outbound = outbound();
    outbound.push(Sequence(0), 1, 10).unwrap();
    outbound.push(Sequence(1), 1, 10).unwrap();
    outbound.on_credit(credit(20, 2));
    pump(&mut outbound);
    assert_eq!(outbound.attach(), open(0));
    outbound.on_credit(credit(5, 1));
    pump(&mut outbound);
    // Both were taken after all: one is half repeated, one not announced again.
    outbound.on_taken(&taken(&[Sequence(0), Sequence(1)])).unwrap();
    assert_eq!(outbound.poll_settled(), Some(Sequence(1)));
    assert_eq!(outbound.poll_settled(), None);
    outbound.on_credit(credit(100, 100));
    let rest = Step::Data { sequence: Sequence(0), offset: 5, length_max: 5 };
    assert_eq!(pump(&mut outbound), [rest]);
    assert_eq!(outbound.poll_settled(), Some(Sequence(0)));
    assert_eq!(outbound.attach(), open(2));
}

#[test]
fn a_lost_connection_settles_what_was_taken_in_the_middle_of_a_repeat() {
    let mut outbound = outbound();
    outbound.push(Sequence(0), 1, 10).unwrap();
    outbound.on_credit(credit(10, 1));
    pump(&mut outbound);
    outbound.attach();
    outbound.on_credit(credit(5, 1));
    pump(&mut outbound);
    outbound.on_taken(&taken(&[Sequence(0)])).unwrap();
    outbound.detach();
    assert_eq!(outbound.poll_settled(), Some(Sequence(0)));
    assert!(outbound.is_settled());
}

#[test]
fn a_stream_whose_end_was_seen_takes_nothing_new() {
    let mut inbound = inbound();
    inbound.on_tensor(&header(0, 0)).unwrap();
    inbound.on_end(&end(1, 0)).unwrap();
    inbound.taken(Sequence(0));
    inbound.end_seen();
    inbound.attach(&open(0)).unwrap();
    assert_eq!(inbound.on_tensor(&header(0, 0)), Ok(Announced::Repeat));
    assert_eq!(inbound.on_tensor(&header(1, 0)), Err(InboundError::AfterEnd));
}

#[test]
fn what_was_taken_and_the_end_are_acknowledged_once_they_were_told() {
    let mut inbound = inbound();
    inbound.on_tensor(&header(0, 0)).unwrap();
    replies(&mut inbound);
    assert!(inbound.is_acknowledged(), "the application has it");
    inbound.taken(Sequence(0));
    assert!(!inbound.is_acknowledged());
    assert!(replies(&mut inbound).contains(&Reply::Taken(vec![Sequence(0)])));
    assert!(inbound.is_acknowledged());
    inbound.on_end(&end(1, 0)).unwrap();
    assert!(inbound.is_acknowledged(), "the application has not seen the end");
    inbound.end_seen();
    assert!(!inbound.is_acknowledged());
    assert_eq!(replies(&mut inbound), [Reply::Ended(STREAM)]);
    assert!(inbound.is_acknowledged());
    inbound.end_seen();
    inbound.detach();
    assert!(inbound.is_acknowledged(), "nobody is there to tell");
}

fn range(sequence: u64, offset: u64, length: usize) -> ByteRange {
    ByteRange { stream: STREAM, sequence: Sequence(sequence), offset, length }
}

const LINK: Stripe = Stripe(1);

#[test]
fn a_striped_tensor_comes_once_it_has_a_place_whatever_lies_before_it() {
    let mut inbound = inbound();
    inbound.on_tensor(&header(0, 60)).unwrap();
    assert_eq!(inbound.on_striped(&header(1, 60)), Ok(Announced::New));
    inbound.on_tensor(&header(2, 60)).unwrap();
    assert_eq!(replies(&mut inbound), [Reply::Credit(credit(100, WINDOW_TENSORS))]);
    assert_eq!(inbound.on_stripe(LINK, range(1, 0, 60)), Err(InboundError::CreditExceeded));
    inbound.reserved(Sequence(1));
    inbound.reserved(Sequence(1));
    assert_eq!(replies(&mut inbound), [Reply::Placed(STREAM, Sequence(1))]);
    assert_eq!(inbound.on_stripe(LINK, range(1, 0, 20)), Ok(Place::Write { complete: false }));
    // The own link goes on as if it were not there, and its credit is its own.
    assert_eq!(inbound.on_chunk(&chunk(1, 20, &[0; 40])), Err(InboundError::ChunkOutOfPlace));
    assert_eq!(inbound.on_chunk(&chunk(0, 0, &[0; 60])), Ok(Place::Write { complete: true }));
    assert_eq!(inbound.on_chunk(&chunk(2, 0, &[0; 41])), Err(InboundError::CreditExceeded));
    assert_eq!(inbound.on_chunk(&chunk(2, 0, &[0; 40])), Ok(Place::Write { complete: false }));
    assert_eq!(inbound.on_stripe(LINK, range(1, 20, 40)), Ok(Place::Write { complete: true }));
    inbound.taken(Sequence(1));
    assert!(replies(&mut inbound).contains(&Reply::Taken(vec![Sequence(1)])));
}

#[test]
fn bytes_of_a_striped_tensor_come_over_one_link_in_order_and_no_more_of_them() {
    let placed = || {
        let mut inbound = inbound();
        inbound.on_tensor(&header(0, 60)).unwrap();
        inbound.on_striped(&header(1, 60)).unwrap();
        inbound.reserved(Sequence(0));
        inbound.reserved(Sequence(1));
        inbound.on_stripe(LINK, range(1, 0, 20)).unwrap();
        inbound
    };
    for (by, wrong) in [
        (Stripe(2), range(1, 20, 20)),
        (LINK, range(1, 0, 20)),
        (LINK, range(1, 40, 20)),
        (LINK, range(1, 20, 41)),
        (LINK, range(0, 0, 20)),
        (LINK, range(2, 0, 20)),
    ] {
        assert_eq!(placed().stripe_place_of(by, wrong), Err(InboundError::ChunkOutOfPlace), "{wrong:?}");
        assert_eq!(placed().on_stripe(by, wrong), Err(InboundError::ChunkOutOfPlace), "{wrong:?}");
    }
    assert_eq!(placed().stripe_place_of(LINK, range(1, 20, 40)), Ok(Place::Write { complete: true }));
}

#[test]
fn a_striped_tensor_that_is_cut_off_comes_again_and_a_repeat_is_dropped() {
    let mut inbound = inbound();
    for sequence in 0..2 {
        inbound.on_striped(&header(sequence, 60)).unwrap();
        inbound.reserved(Sequence(sequence));
    }
    inbound.on_stripe(LINK, range(1, 0, 60)).unwrap();
    inbound.on_stripe(LINK, range(0, 0, 59)).unwrap();
    assert_eq!(inbound.detach(), [Sequence(0)]);
    inbound.attach(&open(0)).unwrap();
    assert_eq!(inbound.on_striped(&header(0, 60)), Ok(Announced::New));
    assert_eq!(inbound.on_striped(&header(1, 60)), Ok(Announced::Repeat));
    // Bytes that are dropped need no place.
    assert!(replies(&mut inbound).contains(&Reply::Placed(STREAM, Sequence(1))));
    inbound.reserved(Sequence(0));
    inbound.on_stripe(LINK, range(0, 0, 60)).unwrap();
    // The end does not wait for bytes that are dropped.
    assert_eq!(inbound.on_end(&end(2, 120)), Ok(()));
    assert_eq!(inbound.on_stripe(Stripe(2), range(1, 0, 60)), Ok(Place::Drop));
}

#[test]
fn an_end_counts_striped_bytes_and_comes_behind_them() {
    let ended = |arrived: usize, total: u64| {
        let mut inbound = inbound();
        inbound.on_tensor(&header(0, 10)).unwrap();
        inbound.on_striped(&header(1, 60)).unwrap();
        inbound.reserved(Sequence(1));
        inbound.on_chunk(&chunk(0, 0, &[0; 10])).unwrap();
        inbound.on_stripe(LINK, range(1, 0, arrived)).unwrap();
        inbound.on_end(&end(2, total))
    };
    assert_eq!(ended(60, 70), Ok(()));
    assert_eq!(ended(60, 10), Err(InboundError::TotalsDiffer));
    assert_eq!(ended(59, 70), Err(InboundError::TotalsDiffer));
}

#[test]
fn a_sender_stripes_what_has_a_place_and_ends_when_it_was_taken() {
    let mut outbound = outbound();
    for sequence in 0..3 {
        outbound.push(Sequence(sequence), 1, 60).unwrap();
    }
    outbound.finish();
    outbound.attach();
    outbound.on_credit(credit(60, 4_096));
    assert_eq!(outbound.on_placed(Sequence(0)), Err(OutboundError::PlacedOutOfTurn));
    for sequence in 0..3 {
        assert_eq!(outbound.next_step(), Some(Step::Announce { sequence: Sequence(sequence) }));
        if sequence == 1 { outbound.announced() } else { outbound.striped() }
    }
    // The own link has its own tensors alone.
    let data = Step::Data { sequence: Sequence(1), offset: 0, length_max: 60 };
    assert_eq!(outbound.next_step(), Some(data));
    outbound.sent(60);
    assert_eq!((outbound.next_step(), outbound.next_stripe()), (None, None));
    outbound.on_placed(Sequence(2)).unwrap();
    assert_eq!(outbound.on_placed(Sequence(2)), Err(OutboundError::PlacedOutOfTurn));
    assert_eq!(outbound.on_placed(Sequence(1)), Err(OutboundError::PlacedOutOfTurn));
    assert_eq!(outbound.on_taken(&taken(&[Sequence(2)])), Err(OutboundError::TakenUnsent));
    assert_eq!(outbound.next_stripe(), Some(Sequence(2)));
    outbound.stripe_sent(Sequence(2));
    outbound.stripe_given();
    assert_eq!(outbound.next_stripe(), None);
    assert_eq!(outbound.on_taken(&taken(&[Sequence(2)])), Err(OutboundError::TakenUnsent), "a link reads it");
    assert_eq!(outbound.on_placed(Sequence(2)), Err(OutboundError::PlacedOutOfTurn));
    outbound.stripe_sent(Sequence(2));
    outbound.on_placed(Sequence(0)).unwrap();
    outbound.stripe_given();
    outbound.stripe_sent(Sequence(0));
    assert_eq!(outbound.next_stripe(), None);
    outbound.on_taken(&taken(&[Sequence(0), Sequence(1)])).unwrap();
    assert_eq!(outbound.next_step(), None, "the end waits for what may still be on another link");
    outbound.on_taken(&taken(&[Sequence(2)])).unwrap();
    assert_eq!(outbound.next_step(), Some(Step::End(end(3, 180))));
}

#[test]
fn a_repeat_that_is_striped_goes_out_once_more_and_settles() {
    let mut outbound = outbound();
    outbound.push(Sequence(0), 1, 60).unwrap();
    outbound.finish();
    for connection in 0..2 {
        outbound.attach();
        outbound.on_credit(credit(0, 4_096));
        outbound.striped();
        if connection == 1 {
            // The word for the first copy comes late.
            outbound.on_taken(&taken(&[Sequence(0)])).unwrap();
            assert_eq!((outbound.poll_settled(), outbound.next_step()), (None, None));
        }
        outbound.on_placed(Sequence(0)).unwrap();
        outbound.stripe_given();
        assert_eq!(outbound.poll_settled(), None, "a link still reads it");
        outbound.stripe_sent(Sequence(0));
    }
    assert_eq!(outbound.poll_settled(), Some(Sequence(0)));
    assert_eq!(outbound.next_step(), Some(Step::End(end(1, 60))));
}

#[test]
fn striped_tensors_are_announced_as_far_ahead_as_others() {
    let mut outbound = outbound();
    for sequence in 0..100 {
        outbound.push(Sequence(sequence), 1, 1).unwrap();
    }
    outbound.attach();
    outbound.on_credit(credit(0, 4_096));
    let announced = std::iter::from_fn(|| {
        matches!(outbound.next_step(), Some(Step::Announce { .. })).then(|| outbound.striped())
    });
    assert_eq!(announced.count(), ANNOUNCE_AHEAD_TENSORS);
}
