//! What holds whatever happens, and what holds when everything has healed.

use std::collections::BTreeSet;

use sealane_protocol::connection::{ApiMisuse, Fail};
use sealane_protocol::frame::{Frame, StreamId};
use sealane_protocol::handshake::HandshakeError;
use sealane_protocol::limits::{OUTPUT_BATCH_BYTES, OUTPUT_RESERVE_BYTES, RECORD_WIRE_BYTES_MAX};

use crate::World;

/// However much is queued, a connection holds a batch of sealed bytes, the reserve, and one record.
pub(crate) fn output(bytes: usize) {
    let most = OUTPUT_BATCH_BYTES + OUTPUT_RESERVE_BYTES + 2 * RECORD_WIRE_BYTES_MAX;
    assert!(bytes <= most, "{bytes} bytes wait for the carrier");
}

/// After every transition.
pub(crate) fn hold(world: &mut World) {
    let World { ends, links, reference, sending, receiving, .. } = world;
    let honest = links.iter().all(|link| link.is_intact());
    for (side, end) in ends.iter_mut().flatten().enumerate() {
        let link = &links[1 - side];
        if end.was_established() {
            assert!(end.consumed <= link.intact(), "{:?} believed bytes that nobody sent", end.who);
            assert!(end.connection.peer().is_some(), "established without a verdict");
        }
        if let Some(fail) = end.fail {
            // A side that gives up before keys are shared says so, and is believed.
            let refused = matches!(fail, Fail::Handshake(HandshakeError::Refused(_)));
            assert!(!honest || refused, "{:?} refused honest bytes: {fail}", end.who);
            assert!(end.connection.is_closed(), "{:?} goes on after {fail}", end.who);
        }
        if end.connection.is_closed() {
            assert_eq!(end.connection.poll_timeout(), None, "nothing is due when all is over");
            assert_eq!(end.connection.key_updates(), (0, 0), "keys outlive their connection");
            let refused = end.connection.send(&Frame::Ended(StreamId(0)));
            assert_eq!(refused, Err(ApiMisuse::NotEstablished.into()));
        } else {
            assert!(end.connection.poll_timeout().is_some(), "a connection that waits for ever");
        }
    }
    for (id, receiver) in &receiving.streams {
        assert!(receiver.staged_max as u64 <= receiving.staging(), "more is staged than was granted");
        let distinct: BTreeSet<_> = receiver.ready.iter().collect();
        assert_eq!(distinct.len(), receiver.ready.len(), "{id:?}: ready twice");
        // One without bytes is complete when it is announced, before those in front of it.
        let pushed = &reference.lanes[id].pushed;
        let ready = receiver.ready.iter().filter(|sequence| !pushed[*sequence].is_empty());
        assert!(ready.is_sorted(), "{id:?}: out of order");
    }
    for (id, sender) in &sending.streams {
        let lane = &reference.lanes[id];
        let settled = sender.settled.iter().all(|sequence| lane.taken.contains(sequence));
        assert!(settled, "{id:?}: settled before anybody took it");
    }
}

/// When the receiver dies: whatever its application took had left the sender, so the sender's answer is never that it
/// certainly did not arrive.
pub(crate) fn taken_only_what_left(world: &World) {
    for (id, sender) in &world.sending.streams {
        let lane = &world.reference.lanes[id];
        for sequence in sender.outbound.unacknowledged() {
            let left = sender.sent.contains(&sequence);
            assert!(left || !lane.taken.contains(&sequence), "{id:?} {sequence:?} was taken and not sent");
        }
    }
}

/// When nothing disturbs any more and applications have taken all they could.
pub(crate) fn healed(world: &World) {
    for (id, lane) in &world.reference.lanes {
        if lane.aborted {
            continue;
        }
        let missing: Vec<_> = lane.owed().collect();
        assert!(missing.is_empty(), "{id:?}: {missing:?} never arrived");
        let sender = &world.sending.streams[id];
        assert!(sender.outbound.is_ended(), "{id:?} does not end");
        assert!(sender.tensors.is_empty(), "{id:?}: the sender still holds tensors");
    }
    for (id, receiver) in &world.receiving.streams {
        assert!(receiver.ready.is_empty(), "{id:?}: a tensor that nobody took");
        assert_eq!(receiver.free, world.receiving.arena(), "{id:?}: memory that nobody gave back");
    }
}
