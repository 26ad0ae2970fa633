//! The receiving end of a stream, whose sender holds genuine keys and no promise.

use std::collections::{BTreeMap, BTreeSet};

use sealane_protocol::frame::{Chunk, End, Incarnation, Open, Sequence, StreamId, TensorHeader};
use sealane_protocol::limits::WINDOW_TENSORS;
use sealane_protocol::transfer::{Announced, Inbound, Place, Reply};

use crate::script::Script;

const STREAM: StreamId = StreamId(1);
const INCARNATION: Incarnation = Incarnation([5; 16]);
const STAGING: u64 = 1_000;

/// What a careful receiver believes.
#[derive(Default)]
struct Model {
    /// Announced on this attachment, incomplete, and new.
    arriving: BTreeMap<Sequence, u64>,
    /// Whole and untaken.
    held: BTreeSet<Sequence>,
    taken: BTreeSet<Sequence>,
    bytes: u64,
    granted: (u64, u64),
}

pub(super) fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let mut inbound = Inbound::new(INCARNATION, STAGING);
    let mut model = Model::default();
    while let Some(kind) = script.byte() {
        let number = Sequence(u64::from(script.byte().unwrap_or_default()));
        let broken = match kind % 8 {
            0 | 1 => model.announce(&mut inbound, number, script.word().unwrap_or_default().into()),
            2 => model.chunk(&mut inbound, number, script.word().unwrap_or_default(), script.byte()),
            3 => {
                inbound.taken(number);
                if model.held.remove(&number) {
                    model.taken.insert(number);
                }
                false
            }
            4 => {
                inbound.reserved(number);
                false
            }
            5 => {
                model.attach(&mut inbound, number);
                false
            }
            6 => {
                inbound.end_seen();
                false
            }
            _ => {
                let (tensors, bytes) = (script.byte().unwrap_or_default(), script.word().unwrap_or_default());
                let end = End { stream: STREAM, tensors: tensors.into(), bytes: bytes.into() };
                inbound.on_end(&end).is_err()
            }
        };
        if broken {
            // The connection ends; the next one attaches.
            model.detach(&mut inbound);
        }
        model.replies(&mut inbound);
    }
}

impl Model {
    fn announce(&mut self, inbound: &mut Inbound, sequence: Sequence, length: u64) -> bool {
        let header = TensorHeader::of_bytes(STREAM, sequence, &length);
        match inbound.on_tensor(&header) {
            Ok(Announced::New) => {
                let known = self.held.contains(&sequence) || self.taken.contains(&sequence);
                assert!(!known, "{sequence:?} comes twice");
                self.arriving.insert(sequence, length);
            }
            Ok(Announced::Complete) => {
                assert_eq!(length, 0);
                assert!(self.held.insert(sequence), "{sequence:?} comes twice");
            }
            Ok(Announced::Repeat) => assert!(
                self.held.contains(&sequence) || self.taken.contains(&sequence),
                "a repeat of what never came"
            ),
            Err(_) => return true,
        }
        assert!(self.held.len() + self.arriving.len() <= WINDOW_TENSORS as usize);
        false
    }

    fn chunk(&mut self, inbound: &mut Inbound, sequence: Sequence, offset: u16, length: Option<u8>) -> bool {
        let bytes = vec![0; 1 + usize::from(length.unwrap_or_default())];
        let chunk = Chunk { stream: STREAM, sequence, offset: offset.into(), bytes: &bytes };
        match inbound.on_chunk(&chunk) {
            Ok(place) => {
                self.bytes += bytes.len() as u64;
                assert!(self.bytes <= self.granted.0.max(STAGING), "more bytes than were granted");
                if let Place::Write { complete } = place {
                    let length = self.arriving[&sequence];
                    let end = u64::from(offset) + bytes.len() as u64;
                    assert!(end <= length, "bytes beyond the tensor");
                    assert_eq!(complete, end == length);
                    if complete {
                        self.arriving.remove(&sequence);
                        assert!(self.held.insert(sequence), "{sequence:?} comes twice");
                    }
                }
                false
            }
            Err(_) => true,
        }
    }

    fn attach(&mut self, inbound: &mut Inbound, base_sequence: Sequence) {
        let open = Open { stream: STREAM, incarnation: INCARNATION, base_sequence };
        let cut_off = inbound.attach(&open).unwrap();
        self.cut_off(&cut_off);
        // The sender says that it has seen these acknowledged: should it repeat them, they are new.
        self.taken.retain(|sequence| *sequence >= base_sequence);
        let other = Open { incarnation: Incarnation([6; 16]), ..open };
        assert!(inbound.attach(&other).is_err(), "another incarnation is another stream");
    }

    fn detach(&mut self, inbound: &mut Inbound) {
        let cut_off = inbound.detach();
        self.cut_off(&cut_off);
    }

    fn cut_off(&mut self, cut_off: &[Sequence]) {
        let expected: Vec<_> = self.arriving.keys().copied().collect();
        assert_eq!(cut_off, expected, "what was cut off comes again");
        *self = Self {
            held: std::mem::take(&mut self.held),
            taken: std::mem::take(&mut self.taken),
            ..Self::default()
        };
    }

    fn replies(&mut self, inbound: &mut Inbound) {
        while let Some(reply) = inbound.poll_reply() {
            match reply {
                Reply::Credit(credit) => {
                    let granted = (credit.bytes_through, credit.tensors_through);
                    assert!(granted.0 >= self.granted.0 && granted.1 >= self.granted.1, "credit shrank");
                    self.granted = granted;
                }
                Reply::Taken(sequences) => {
                    for sequence in sequences {
                        assert!(self.taken.contains(&sequence), "{sequence:?} was not taken");
                    }
                }
                Reply::Ended(_) => assert!(inbound.is_ended() && self.held.is_empty()),
            }
        }
    }
}
