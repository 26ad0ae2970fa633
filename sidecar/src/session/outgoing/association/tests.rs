use std::time::Duration;

use sealane_arena::Plaintext;
use sealane_protocol::handshake::{KeyExchange, Suite};
use sealane_types::{Carrier, Cipher, Delivery, Dtype};

use super::super::Entry;
use super::super::ledger::Ledger;
use super::super::schedule::{Choice, Schedule};
use super::*;
use crate::handoff::{Sequence, TensorHeader, TensorSource};
use crate::session::carried::Carried;

/// More than an association lets wait, if something waits already.
const LARGE: u64 = 8 << 20;

fn process(number: u8) -> ReplicaId {
    let mut id = [number; 16];
    id[15] = 0;
    ReplicaId(id)
}

fn established() -> Phase {
    Phase::Established {
        carried: Carried::by(Carrier::Tcp),
        suite: Suite::new(KeyExchange::Hybrid, Cipher::Aes256Gcm),
        handshake: Duration::ZERO,
        degraded: Vec::new(),
    }
}

/// The memory of tensors that nobody reads.
#[derive(Debug)]
struct Nowhere;

impl TensorSource for Nowhere {
    fn bytes(&self, _: u64, _: usize) -> std::io::Result<Plaintext<'_>> {
        Err(std::io::ErrorKind::UnexpectedEof.into())
    }
}

fn parcel(sequence: u64) -> Parcel {
    Parcel {
        sequence: Sequence(sequence),
        header: TensorHeader { dtype: Dtype::Uint8, shape: vec![LARGE], run: false, name: String::new() },
        source: Arc::new(Nowhere),
        offset: 0,
        length: LARGE,
        assigned: Vec::new(),
    }
}

/// A lane that is open here, and its news.
fn lane(association: &Association, number: u32) -> (StreamKey, LaneLink, mpsc::UnboundedReceiver<LaneNews>) {
    let (news, inbox) = mpsc::unbounded_channel();
    let link = LaneLink { incarnation: LaneIncarnation([9; 16]), news };
    let key = StreamKey { lane: StreamId(number), generation: 0 };
    association.open(key.lane, &link);
    (key, link, inbox)
}

/// Gives it tensors until there is no room.
fn fill(association: &Association, key: StreamKey, link: &LaneLink) {
    for sequence in 0.. {
        let Some(to) = association.promise(LARGE) else { return };
        association.push(to, key, link, parcel(sequence), false).unwrap();
    }
}

/// Lets enough time pass for a receiver that is full to be dropped.
fn stall(association: &Association) -> bool {
    let later = association.clock.moment().plus_micros(STALL_MICROS_MAX);
    association.lock().drop_if_stalled(association.serial, later)
}

/// An association, and what tells lanes to look at it.
fn association() -> (Arc<Association>, watch::Receiver<u64>) {
    let session = watch::Sender::new(0);
    let news = session.subscribe();
    let association =
        Association::new("ranker".parse().unwrap(), "ranker-0".to_owned(), session, Arc::default());
    (association, news)
}

fn connected() -> (Arc<Association>, watch::Receiver<u64>) {
    let (association, mut news) = association();
    association.attach(process(1), established());
    news.mark_unchanged();
    (association, news)
}

#[test]
fn lanes_hear_of_room_each_time_there_is_some_again() {
    let (association, mut news) = connected();
    for round in 0..3 {
        while association.has_room() {
            association.promise(LARGE).unwrap();
        }
        news.mark_unchanged();
        association.forgo(LARGE);
        assert!(association.has_room());
        assert!(news.has_changed().unwrap(), "round {round}");
    }
}

#[test]
fn lanes_that_end_do_not_wait_for_a_receiver_that_was_dropped() {
    let (association, _news) = connected();
    let (ending, ending_link, mut ending_inbox) = lane(&association, 1);
    let (full, full_link, mut full_inbox) = lane(&association, 2);
    assert_eq!(association.finish(ending.lane, &ending_link), 1);
    fill(&association, full, &full_link);
    assert!(stall(&association));

    let Ok(LaneNews::Stalled { dropped, .. }) = ending_inbox.try_recv() else { panic!("nothing told") };
    assert_eq!((dropped.sequences.len(), dropped.ends), (0, 1), "the end will not be confirmed");
    let Ok(LaneNews::Stalled { dropped, .. }) = full_inbox.try_recv() else { panic!("nothing told") };
    assert_eq!((dropped.sequences.len(), dropped.ends), (2, 0), "no end was asked for yet");
    assert_eq!(association.finish(full.lane, &full_link), 0, "it learned that the stream was dropped");
}

#[test]
fn a_receiver_that_comes_back_has_not_stalled_meanwhile() {
    let (association, _news) = connected();
    let (key, link, _inbox) = lane(&association, 1);
    fill(&association, key, &link);
    association.detach((Reason::LinkLost, String::new()));
    association.attach(process(1), established());
    assert!(!stall(&association), "it has been back for a moment");
}

#[test]
fn a_lane_ends_without_a_receiver_that_is_away_and_never_saw_it() {
    let (association, _news) = connected();
    let (seen, seen_link, _seen_inbox) = lane(&association, 1);
    association.detach((Reason::LinkLost, String::new()));
    let (unseen, unseen_link, _unseen_inbox) = lane(&association, 2);
    assert_eq!(association.finish(unseen.lane, &unseen_link), 0);
    assert_eq!(association.finish(seen.lane, &seen_link), 1, "it may come back and has to learn of the end");
    association.attach(process(1), established());
    assert!(!association.lock().backlog.has_streams(unseen.lane), "a lane that ends is not opened any more");
}

#[test]
fn an_end_that_a_process_did_not_confirm_is_told_to_the_next_one() {
    let (association, _room) = connected();
    let (key, link, mut inbox) = lane(&association, 1);
    assert_eq!(association.finish(key.lane, &link), 1);
    association.detach((Reason::LinkLost, "it was killed".to_owned()));
    association.attach(process(2), established());
    let LaneNews::Gone { remains, .. } = inbox.try_recv().unwrap() else { panic!("no news") };
    assert_eq!(remains.ends, 0, "the lane waits for the next process instead");
    assert!(association.lock().backlog.has_streams(key.lane), "which hears of the lane, and of its end");
    // One that never comes back is not waited for.
    association.end();
    let LaneNews::Gone { remains, .. } = inbox.try_recv().unwrap() else { panic!("no news") };
    assert_eq!(remains.ends, 1);
}

#[test]
fn what_was_promised_to_a_receiver_that_is_dropped_is_dropped_as_well() {
    let (association, _news) = connected();
    let (key, link, _inbox) = lane(&association, 1);
    association.promise(LARGE).unwrap();
    fill(&association, key, &link);
    assert!(stall(&association));
    let refused = association.push(process(1), key, &link, parcel(9), false);
    assert!(matches!(refused, Err(Refusal::Dropped)), "{refused:?}");
    let (association, _news) = connected();
    let refused = association.push(process(2), key, &link, parcel(9), false);
    assert!(matches!(refused, Err(Refusal::Gone)), "{refused:?}");
}

#[test]
fn a_replica_that_never_answers_is_no_hope_for_ever() {
    let (association, _news) = association();
    let earlier = process(1);
    let now = association.clock.moment();
    assert!(association.may_hold(earlier), "it has not answered yet");
    let later = now.plus_micros(2 * ANSWER_MICROS_MAX);
    assert!(!association.lock().may_hold(earlier, later));
    association.attach(earlier, established());
    association.detach((Reason::LinkLost, String::new()));
    assert!(association.lock().may_hold(earlier, later), "one that is known may come back");
    assert!(!association.may_hold(process(2)));
}

#[test]
fn a_replica_that_is_over_is_no_hope() {
    let (association, _news) = association();
    association.end();
    let entries = [Entry { peer: "ranker".parse().unwrap(), associations: vec![Arc::clone(&association)] }];
    let assigned = Parcel { assigned: vec![process(1)], ..parcel(0) };
    let choice = Schedule::default().choose(Delivery::RoundRobin, &entries, &assigned, 0, &Ledger::default());
    assert!(matches!(choice, Choice::Uncertain), "{choice:?}");
}
