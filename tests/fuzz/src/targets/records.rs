//! A sealed stream whose records are changed, moved, repeated or left out, and hostile bytes between them.

use sealane_protocol::connection::Sink;
use sealane_protocol::frame::Frame;
use sealane_support::rogue::{BULK, DATA, Opposed, RogueIs, bulk, frame};
use sealane_types::Reason;

use crate::edit::edits;
use crate::script::Script;

const RECORDS: u8 = 6;

#[derive(Default)]
struct Heard(Vec<Vec<u8>>);

impl Sink for Heard {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::Chunk(chunk) => self.0.push(chunk.bytes.to_vec()),
            other => panic!("{other:?} was never sent"),
        }
        Ok(())
    }
}

/// The order of the records, six bytes, then changes to them. A byte of the order above the last record is what
/// follows: 16 bytes that nobody sealed.
pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let order = script.bytes(RECORDS.into()).to_vec();
    let strange = script.bytes(if order.iter().any(|index| *index >= RECORDS) { 16 } else { 0 }).to_vec();
    let changes = edits(&mut script);
    let mut opposed = Opposed::established(RogueIs::Initiator);
    let mut records: Vec<Vec<u8>> = Vec::new();
    for number in 0..RECORDS {
        // A key update in the middle: what was sealed before it does not open behind it.
        let mut record = if number == 3 { opposed.rogue.seal.update() } else { Vec::new() };
        let seal = &mut opposed.rogue.seal;
        record.extend(match number {
            4 => seal.seal(DATA, &bulk(1, 5, 0, 50)),
            5 => seal.seal(BULK, &[5; 50]),
            _ => seal.seal(DATA, &chunk(number)),
        });
        records.push(record);
    }
    let genuine = records.clone();
    for change in changes {
        change.apply(&mut records[usize::from(change.place % RECORDS)]);
    }
    let given: Vec<&Vec<u8>> =
        order.iter().map(|index| records.get(usize::from(*index)).unwrap_or(&strange)).collect();
    let mut heard = Heard::default();
    for bytes in &given {
        if opposed.honest.is_closed() || opposed.deliver(bytes, &mut heard).is_err() {
            break;
        }
    }
    let all: Vec<u8> = given.into_iter().flatten().copied().collect();
    let intact = genuine.concat().iter().zip(&all).take_while(|(sent, given)| sent == given).count();
    let mut end = 0;
    let whole = genuine.iter().take_while(|record| {
        end += record.len();
        end <= intact
    });
    let whole = whole.count();
    assert!(heard.0.len() <= whole, "{} chunks of {whole} intact records", heard.0.len());
    // The record before the last one says what the last one is.
    for (number, bytes) in [0, 1, 2, 3, 5].into_iter().zip(&heard.0) {
        assert_eq!(bytes[..], [number; 50], "other bytes than were sent");
    }
    assert!(heard.0.len() <= 5);
}

fn chunk(number: u8) -> Vec<u8> {
    let head = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 0];
    frame(0x12, &[&head[..], &[number; 50]].concat())
}
