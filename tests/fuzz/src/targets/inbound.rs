//! The receiving end of a stream, whose sender holds genuine keys and no promise.

use std::collections::{BTreeMap, BTreeSet};

use sealane_protocol::frame::{ByteRange, Chunk, End, Incarnation, Open, Sequence, StreamId, TensorHeader};
use sealane_protocol::limits::WINDOW_TENSORS;
use sealane_protocol::transfer::{Announced, Inbound, Place, Reply, Stripe};

use crate::script::Script;

const STREAM: StreamId = StreamId(1);
const INCARNATION: Incarnation = Incarnation([5; 16]);
const STAGING: u64 = 1_000;
/// Steps from here on announce a tensor whose bytes come over further links, and bring such bytes.
const STRIPED: u8 = 0xf0;
const STRIPE: u8 = 0xf8;

/// What a careful receiver believes.
#[derive(Default)]
struct Model {
    /// Announced on this attachment, incomplete, and new.
    arriving: BTreeMap<Sequence, u64>,
    /// Of these and of repeats, those whose bytes come over further links and were asked for.
    placed: BTreeSet<Sequence>,
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
            _ if kind >= STRIPE => {
                model.stripe(&mut inbound, number, script.word().unwrap_or_default(), script.byte())
            }
            _ if kind >= STRIPED => {
                model.announce(&mut inbound, number, script.word().unwrap_or_default().into(), true)
            }
            0 | 1 => model.announce(&mut inbound, number, script.word().unwrap_or_default().into(), false),
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
    fn announce(&mut self, inbound: &mut Inbound, sequence: Sequence, length: u64, striped: bool) -> bool {
        // An empty one is not striped.
        let length = length.max(striped.into());
        let header = TensorHeader::of_bytes(STREAM, sequence, &length);
        let announced = if striped { inbound.on_striped(&header) } else { inbound.on_tensor(&header) };
        match announced {
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

    fn stripe(&mut self, inbound: &mut Inbound, sequence: Sequence, offset: u16, length: Option<u8>) -> bool {
        let length = 1 + usize::from(length.unwrap_or_default());
        let by = Stripe(u64::from(offset & 1));
        let range = ByteRange { stream: STREAM, sequence, offset: (offset >> 1).into(), length };
        match inbound.on_stripe(by, range) {
            Ok(place) => {
                assert!(self.placed.contains(&sequence), "bytes came that nobody asked for");
                if let Place::Write { complete } = place {
                    let whole = self.arriving[&sequence];
                    let end = range.offset + length as u64;
                    assert!(end <= whole, "bytes beyond the tensor");
                    assert_eq!(complete, end == whole);
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
                Reply::Placed(stream, sequence) => {
                    assert_eq!(stream, STREAM);
                    assert!(self.placed.insert(sequence), "{sequence:?} is asked for twice");
                }
                Reply::Ended(_) => assert!(inbound.is_ended() && self.held.is_empty()),
            }
        }
    }
}
