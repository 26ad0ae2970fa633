//! Tensors through whole connections: everything pushed arrives once, whatever happens between.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sealane_protocol::frame::{Frame, Sequence, StreamId};
use sealane_protocol::limits::STAGING_BYTES;
use sealane_types::Reason;

use super::endpoint::{Endpoint, Receiver, Sender};
use super::support::{Pair, Recipe};
use super::world::{Counter, Who};

const STREAM: StreamId = StreamId(8);
const ARENA: usize = 64 << 20;

/// A stream between two connected sides.
fn streaming(arena: usize, staging: u64) -> Pair {
    let mut pair = Pair::connected();
    pair.initiator.seen.1 = Some(Endpoint::Sender(Sender::new(STREAM)));
    pair.responder.seen.1 = Some(Endpoint::Receiver(Receiver::new(arena, staging)));
    attach(&mut pair);
    pair
}

fn attach(pair: &mut Pair) {
    let open = sender(pair).outbound.attach();
    pair.initiator.connection.send(&Frame::Open(open)).unwrap();
}

fn sender(pair: &mut Pair) -> &mut Sender {
    pair.initiator.seen.1.as_mut().unwrap().sender()
}

fn receiver(pair: &mut Pair) -> &mut Receiver {
    pair.responder.seen.1.as_mut().unwrap().receiver()
}

/// One round: queue, carry there, take, reply, carry back. Returns whether anything moved.
fn round(pair: &mut Pair, mut take: impl FnMut(&mut Receiver) -> bool) -> bool {
    let side = &mut pair.initiator;
    side.seen.1.as_mut().unwrap().sender().pump(&mut side.connection);
    let there = pair.flight(Who::Embedder);
    pair.deliver(Who::Ranker, &there);
    let took = take(receiver(pair));
    let side = &mut pair.responder;
    side.seen.1.as_mut().unwrap().receiver().pump(&mut side.connection, STREAM);
    let back = pair.flight(Who::Ranker);
    pair.deliver(Who::Embedder, &back);
    assert_eq!((pair.initiator.fail, pair.responder.fail), (None, None));
    took || !there.is_empty() || !back.is_empty()
}

fn take_all(receiver: &mut Receiver) -> bool {
    let mut any = false;
    while receiver.take(0) {
        any = true;
    }
    any
}

fn run(pair: &mut Pair) {
    while round(pair, take_all) {}
}

/// Closes the stream and holds what arrived against what was pushed.
fn finish(pair: &mut Pair, pushed: &BTreeMap<Sequence, Vec<u8>>) {
    sender(pair).outbound.finish();
    run(pair);
    assert!(receiver(pair).inbound.is_ended());
    receiver(pair).inbound.end_seen();
    run(pair);
    assert!(sender(pair).outbound.is_ended());
    let delivered = std::mem::take(&mut receiver(pair).delivered);
    assert_eq!(delivered.len(), pushed.len(), "nothing twice");
    assert_eq!(&delivered.into_iter().collect::<BTreeMap<_, _>>(), pushed, "nothing lost or changed");
    assert!(sender(pair).tensors.is_empty());
    assert_eq!(sender(pair).settled.len(), pushed.len());
}

#[test]
fn a_tensor_of_100_megabytes() {
    let mut pair = streaming(ARENA * 2, STAGING_BYTES);
    let bytes = Counter(3).bytes(100_000_000);
    sender(&mut pair).push(Sequence(0), bytes.clone());
    run(&mut pair);
    assert!(receiver(&mut pair).staged_max <= STAGING_BYTES as usize);
    finish(&mut pair, &BTreeMap::from([(Sequence(0), bytes)]));
}

#[test]
fn many_small_tensors() {
    let mut pair = streaming(ARENA, STAGING_BYTES);
    let mut random = Counter(4);
    let mut pushed = BTreeMap::new();
    for sequence in 0..20_000 {
        let length = random.below(2_000);
        let bytes = random.bytes(length);
        sender(&mut pair).push(Sequence(sequence * 2), bytes.clone());
        pushed.insert(Sequence(sequence * 2), bytes);
    }
    finish(&mut pair, &pushed);
    assert_eq!(receiver(&mut pair).repeats, 0);
}

#[test]
fn a_receiver_that_takes_nothing_stops_the_sender() {
    let arena = 3_000_000;
    let mut pair = streaming(arena, 100_000);
    for sequence in 0..50 {
        sender(&mut pair).push(Sequence(sequence), vec![sequence as u8; 1_000_000]);
    }
    while round(&mut pair, |_| false) {}
    let held = receiver(&mut pair);
    assert_eq!(held.ready.len(), 3, "exactly what has a place");
    assert!(held.staged_max <= 100_000);
    assert!(held.free < 1_000_000);
    // One place more, one tensor more.
    assert!(receiver(&mut pair).take(0));
    while round(&mut pair, |_| false) {}
    assert_eq!(receiver(&mut pair).ready.len(), 3);
    let pushed = (0..50).map(|sequence| (Sequence(sequence), vec![sequence as u8; 1_000_000])).collect();
    finish(&mut pair, &pushed);
}

#[test]
fn small_tensors_fill_the_staging_and_no_more() {
    let mut pair = streaming(0, 10_000);
    for sequence in 0..100 {
        sender(&mut pair).push(Sequence(sequence), vec![1; 1_000]);
    }
    while round(&mut pair, |_| false) {}
    assert_eq!(receiver(&mut pair).staged_max, 10_000);
    assert_eq!(receiver(&mut pair).ready.len(), 10);
}

#[test]
fn empty_tensors_and_gaps_are_normal() {
    let mut pair = streaming(ARENA, STAGING_BYTES);
    let mut pushed = BTreeMap::new();
    for sequence in [0, 5, 6, 900, u64::MAX - 1] {
        sender(&mut pair).push(Sequence(sequence), vec![]);
        pushed.insert(Sequence(sequence), vec![]);
    }
    finish(&mut pair, &pushed);
}

#[test]
fn a_window_of_untaken_tensors_is_all_a_sender_may_announce() {
    let mut pair = streaming(ARENA, STAGING_BYTES);
    for sequence in 0..6_000 {
        sender(&mut pair).push(Sequence(sequence), vec![7; 10]);
    }
    while round(&mut pair, |_| false) {}
    assert_eq!(receiver(&mut pair).ready.len() as u64, sealane_protocol::limits::WINDOW_TENSORS);
    let pushed = (0..6_000).map(|sequence| (Sequence(sequence), vec![7; 10])).collect();
    finish(&mut pair, &pushed);
}

/// Cuts the link and goes on over a new connection of the same two processes.
fn reconnect(pair: &mut Pair, seed: u64) {
    let sender = pair.initiator.seen.1.take();
    let mut receiver = pair.responder.seen.1.take();
    receiver.as_mut().unwrap().receiver().cut();
    let (first, second) = (pair.initiator.local.static_key.clone(), pair.responder.local.static_key.clone());
    *pair = Pair::connected_of(Recipe {
        seed,
        initiator: Box::new(move |local| local.static_key = first.clone()),
        responder: Box::new(move |local| local.static_key = second.clone()),
        ..Recipe::default()
    });
    pair.initiator.seen.1 = sender;
    pair.responder.seen.1 = receiver;
    attach(pair);
}

#[test]
fn a_lost_link_loses_and_repeats_nothing() {
    let mut pair = streaming(8_000_000, STAGING_BYTES);
    let mut random = Counter(11);
    let mut pushed = BTreeMap::new();
    let mut next = 0;
    for cut in 0..12 {
        for _ in 0..20 {
            let length = random.below(300_000);
            let bytes = random.bytes(length);
            sender(&mut pair).push(Sequence(next), bytes.clone());
            pushed.insert(Sequence(next), bytes);
            next += 1 + random.below(3) as u64;
        }
        for _ in 0..random.below(6) {
            let mut some = random.clone();
            round(&mut pair, |receiver| {
                let index = some.below(3);
                receiver.take(index)
            });
            random.draw();
        }
        // What is on the way now is lost: there, or the acknowledgements back.
        let side = &mut pair.initiator;
        side.seen.1.as_mut().unwrap().sender().pump(&mut side.connection);
        let there = pair.flight(Who::Embedder);
        if cut % 2 == 0 {
            pair.deliver(Who::Ranker, &there);
            take_all(receiver(&mut pair));
        }
        reconnect(&mut pair, 1_000 + cut);
    }
    finish(&mut pair, &pushed);
    assert!(receiver(&mut pair).repeats > 0, "the test did repeat tensors");
}

#[test]
fn an_end_that_is_not_the_truth_is_refused() {
    for (tensors, bytes) in [(2, 10), (1, 9), (0, 0)] {
        let mut pair = streaming(ARENA, STAGING_BYTES);
        sender(&mut pair).push(Sequence(0), vec![1; 10]);
        run(&mut pair);
        let end = sealane_protocol::frame::End { stream: STREAM, tensors, bytes };
        pair.initiator.connection.send(&Frame::End(end)).unwrap();
        pair.run();
        assert_eq!(pair.responder.closed().map(|(_, reason)| reason), Some(Reason::FrameMalformed));
    }
}

#[test]
fn a_sender_without_credit_is_refused() {
    let mut pair = streaming(0, 100);
    let side = &mut pair.initiator;
    let sender = side.seen.1.as_mut().unwrap().sender();
    sender.push(Sequence(0), vec![1; 1_000]);
    sender.outbound.on_credit(sealane_protocol::frame::Credit {
        stream: STREAM,
        bytes_through: 1 << 40,
        tensors_through: 1 << 40,
    });
    sender.pump(&mut side.connection);
    pair.run();
    assert_eq!(pair.responder.closed().map(|(_, reason)| reason), Some(Reason::FrameMalformed));
}

/// What may happen to a stream.
#[derive(Debug, Clone)]
enum Act {
    Push(Vec<usize>),
    Round {
        take: Vec<usize>,
    },
    /// The link is lost: with what is on the way there, and what the receiver owes.
    Cut {
        delivered: bool,
    },
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => prop::collection::vec(0..200_000_usize, 1..8).prop_map(Act::Push),
        6 => prop::collection::vec(0..4_usize, 0..6).prop_map(|take| Act::Round { take }),
        1 => any::<bool>().prop_map(|delivered| Act::Cut { delivered }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Model: what is pushed is what arrives, once, whatever the order of events.
    #[test]
    fn in_is_out(acts in prop::collection::vec(act(), 1..24), arena in 200_000..2_000_000_usize, seed: u64) {
        let mut pair = streaming(arena, 64_000);
        pair.fragmented = true;
        let mut random = Counter(seed);
        let mut pushed = BTreeMap::new();
        let mut next = 0;
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Push(lengths) => for length in lengths {
                    let bytes = random.bytes(length);
                    sender(&mut pair).push(Sequence(next), bytes.clone());
                    pushed.insert(Sequence(next), bytes);
                    next += 1 + random.below(2) as u64;
                },
                Act::Round { take } => {
                    round(&mut pair, |receiver| {
                        let taken = take.iter().filter(|index| receiver.take(**index));
                        taken.count() > 0
                    });
                }
                Act::Cut { delivered } => {
                    let side = &mut pair.initiator;
                    side.seen.1.as_mut().unwrap().sender().pump(&mut side.connection);
                    let there = pair.flight(Who::Embedder);
                    if delivered {
                        pair.deliver(Who::Ranker, &there);
                        take_all(receiver(&mut pair));
                    }
                    reconnect(&mut pair, seed ^ number as u64);
                    pair.fragmented = true;
                }
            }
            let staged = receiver(&mut pair).staged_max;
            prop_assert!(staged <= 64_000);
        }
        finish(&mut pair, &pushed);
    }
}
