//! The data port: bytes of a stranger, whole and in pieces, to a connection of either role.

use sealane_protocol::Moment;
use sealane_protocol::connection::{Event, Sink};
use sealane_protocol::frame::Frame;
use sealane_support::ends::End;
use sealane_support::rehearsal::rehearsed_local;
use sealane_support::world::{Counter, Who};
use sealane_types::Reason;

const NOW: Moment = Moment::from_micros(1_000_000);

struct Nobody;

impl Sink for Nobody {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        panic!("{frame:?} of a stranger");
    }
}

/// A stranger dials: hello, message 1, and whatever it makes of them.
pub(super) fn accepts(data: &[u8]) {
    same_in_pieces(|| End::accept(rehearsed_local(Who::Ranker), &mut Counter(2), NOW), data);
}

/// A stranger answers: message 2 or a refusal, and whatever follows.
pub(super) fn dials(data: &[u8]) {
    let begin = || {
        let mut end = End::dial(rehearsed_local(Who::Embedder), &mut Counter(2), NOW);
        end.drain(NOW);
        end
    };
    same_in_pieces(begin, data);
}

/// However bytes arrive, they mean the same; and without keys they never mean anything but an end, or a ticket to look for.
fn same_in_pieces(begin: impl Fn() -> End, data: &[u8]) {
    let (mut whole, mut pieces) = (begin(), begin());
    whole.feed(NOW, data, &mut Nobody);
    let width = data.first().map_or(1, |byte| 1 + usize::from(byte % 61));
    for piece in data.chunks(width) {
        pieces.feed(NOW, piece, &mut Nobody);
    }
    assert_eq!(whole.fail, pieces.fail);
    assert_eq!(whole.closed(), pieces.closed());
    assert_eq!(whole.events, pieces.events);
    if whole.fail.is_none() {
        assert_eq!((whole.consumed, &whole.inbox), (pieces.consumed, &pieces.inbox));
    }
    assert_eq!(whole.drain(NOW), pieces.drain(NOW));
    let of_strangers = |event: &Event| matches!(event, Event::Closed { .. } | Event::TicketPresented(_));
    assert!(whole.events.iter().all(of_strangers), "{:?}", whole.events);
    assert_eq!(whole.connection.poll_timeout().is_none(), whole.connection.is_closed());
}
