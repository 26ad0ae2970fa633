//! Genuine handshakes whose flights are changed on the way, in both directions.

use sealane_protocol::Moment;
use sealane_protocol::connection::Sink;
use sealane_protocol::frame::{Frame, Sequence, StreamId};
use sealane_support::ends::End;
use sealane_support::rehearsal::rehearsed_local;
use sealane_support::world::{Counter, Who};
use sealane_types::Reason;

use crate::edit::{Edit, edits};
use crate::script::Script;

const NOW: Moment = Moment::from_micros(1_000_000);
const CHUNKS: u8 = 3;

/// Bytes of chunks, one after the other.
#[derive(Default)]
struct Heard(Vec<u8>);

impl Sink for Heard {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::Chunk(chunk) => self.0.extend_from_slice(chunk.bytes),
            other => panic!("{other:?} was never sent"),
        }
        Ok(())
    }
}

/// One direction: what its sender gave to the network, and what came out of it.
struct Way {
    sent: Vec<u8>,
    given: Vec<u8>,
    flights: u8,
}

pub(super) fn run(data: &[u8]) {
    let edits = edits(&mut Script::new(data));
    let mut random = Counter(2);
    let mut ends = [
        End::dial(rehearsed_local(Who::Embedder), &mut random, NOW),
        End::accept(rehearsed_local(Who::Ranker), &mut random, NOW),
    ];
    let mut heard = [Heard::default(), Heard::default()];
    let mut ways = [(); 2].map(|()| Way { sent: Vec::new(), given: Vec::new(), flights: 0 });
    let mut said = [0, 0];
    loop {
        let mut moved = false;
        for from in [0, 1] {
            speak(&mut ends[from], &mut said[from]);
            let flight = ends[from].drain(NOW);
            if flight.is_empty() {
                continue;
            }
            moved = true;
            let given = ways[from].carry(from, &flight, &edits);
            ends[1 - from].feed(NOW, &given, &mut heard[1 - from]);
            trusts_only_what_was_sent(&ends, &ways);
        }
        if !moved {
            break;
        }
    }
    for (to, heard) in heard.iter().enumerate() {
        let from = 1 - to;
        let all: Vec<u8> = (0..said[from]).flat_map(|chunk| [chunk; 40]).collect();
        assert!(all.starts_with(&heard.0), "{heard:?} is no prefix of what was sent", heard = heard.0);
    }
    let unchanged = ways.iter().all(|way| way.sent == way.given);
    if unchanged {
        assert!(ends.iter().all(|end| end.connection.is_established()));
        assert!(heard.iter().all(|heard| heard.0.len() == 40 * usize::from(CHUNKS)));
    }
}

/// Once it may, a side sends some chunks.
fn speak(end: &mut End, said: &mut u8) {
    while *said < CHUNKS && end.connection.is_established() {
        let sent = end.connection.send_bytes(StreamId(1), Sequence(0), 0, &[*said; 40][..]).unwrap();
        assert_eq!(sent, 40);
        *said += 1;
    }
}

impl Way {
    fn carry(&mut self, from: usize, flight: &[u8], edits: &[Edit]) -> Vec<u8> {
        let mut given = flight.to_vec();
        // The place of a change: its direction, and the number of the flight in it.
        let number = self.flights % 8;
        for edit in edits {
            if usize::from(edit.place & 1) == from && (edit.place >> 1) % 8 == number {
                edit.apply(&mut given);
            }
        }
        self.flights = self.flights.saturating_add(1);
        self.sent.extend_from_slice(flight);
        self.given.extend_from_slice(&given);
        given
    }
}

/// Whoever has a verdict has consumed nothing that the other side did not send, and neither has the other side.
fn trusts_only_what_was_sent(ends: &[End; 2], ways: &[Way; 2]) {
    if !ends.iter().any(End::was_established) {
        return;
    }
    for (to, end) in ends.iter().enumerate() {
        let way = &ways[1 - to];
        assert!(way.sent.starts_with(&way.given[..end.consumed]), "{:?} accepted changed bytes", end.who);
    }
}
