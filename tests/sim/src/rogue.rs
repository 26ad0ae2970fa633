//! A sender with genuine keys and no manners, against a receiver with an arena.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sealane_protocol::frame::{Sequence, StreamId};
use sealane_support::rogue::{BULK, DATA, Opposed, RogueIs, bulk, frame};

use crate::process::Receiving;
use crate::transition::Setting;

/// One thing to say, or what the receiving application does meanwhile.
#[derive(Debug, Clone)]
pub enum Hostile {
    Open {
        stream: u8,
        base: u8,
    },
    Tensor {
        stream: u8,
        sequence: u8,
        length: u16,
    },
    Chunk {
        stream: u8,
        sequence: u8,
        offset: u16,
        length: u16,
    },
    /// The same in a record of its own.
    Bulk {
        stream: u8,
        sequence: u8,
        offset: u16,
        length: u16,
    },
    End {
        stream: u8,
        tensors: u8,
        bytes: u16,
    },
    Abort {
        stream: u8,
    },
    Credit {
        stream: u8,
    },
    Bytes(Vec<u8>),
    Update,
    Take {
        stream: u8,
        pick: u8,
    },
    EndSeen {
        stream: u8,
    },
}

/// What the rogue says, mostly almost right.
pub fn hostile(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Hostile>> {
    let stream = || 0..2_u8;
    let one = prop_oneof![
        3 => (stream(), 0..3_u8).prop_map(|(stream, base)| Hostile::Open { stream, base }),
        8 => (stream(), 0..8_u8, prop_oneof![Just(0), 1..3_000_u16])
            .prop_map(|(stream, sequence, length)| Hostile::Tensor { stream, sequence, length }),
        5 => (stream(), 0..8_u8, prop_oneof![Just(0), 0..3_000_u16], 1..3_000_u16).prop_map(
            |(stream, sequence, offset, length)| Hostile::Chunk { stream, sequence, offset, length }
        ),
        5 => (stream(), 0..8_u8, prop_oneof![Just(0), 0..3_000_u16], 1..3_000_u16).prop_map(
            |(stream, sequence, offset, length)| Hostile::Bulk { stream, sequence, offset, length }
        ),
        1 => (stream(), 0..4_u8, 0..3_000_u16)
            .prop_map(|(stream, tensors, bytes)| Hostile::End { stream, tensors, bytes }),
        1 => stream().prop_map(|stream| Hostile::Abort { stream }),
        1 => stream().prop_map(|stream| Hostile::Credit { stream }),
        1 => prop::collection::vec(any::<u8>(), 1..60).prop_map(Hostile::Bytes),
        1 => Just(Hostile::Update),
        4 => (stream(), 0..3_u8).prop_map(|(stream, pick)| Hostile::Take { stream, pick }),
        1 => stream().prop_map(|stream| Hostile::EndSeen { stream }),
    ];
    prop::collection::vec(one, count)
}

pub struct Rogue {
    opposed: Opposed,
    receiving: Receiving,
    delivered: BTreeSet<(StreamId, Sequence)>,
    /// Below these the sender promised to repeat nothing, so what it says again is new.
    settled: BTreeSet<(StreamId, Sequence)>,
}

impl Rogue {
    #[must_use]
    pub fn new(setting: &Setting) -> Self {
        let arena = setting.arena as usize / 100;
        Self {
            opposed: Opposed::established(RogueIs::Initiator),
            receiving: Receiving::new(arena, u64::from(setting.staging) / 10),
            delivered: BTreeSet::new(),
            settled: BTreeSet::new(),
        }
    }

    /// Says it, and holds what must hold. Returns whether the connection goes on.
    ///
    /// # Panics
    /// When it does not hold.
    pub fn say(&mut self, hostile: &Hostile) -> bool {
        let said = match hostile {
            Hostile::Take { stream, pick } => {
                if let Some(receiver) = self.receiving.streams.get_mut(&StreamId((*stream).into())) {
                    receiver.take((*pick).into());
                }
                Ok(())
            }
            Hostile::EndSeen { stream } => {
                if let Some(receiver) = self.receiving.streams.get_mut(&StreamId((*stream).into())) {
                    receiver.inbound.end_seen();
                }
                Ok(())
            }
            Hostile::Update => {
                let update = self.opposed.rogue.seal.update();
                self.opposed.deliver(&update, &mut self.receiving)
            }
            Hostile::Bulk { stream, sequence, offset, length } => {
                let frame = bulk((*stream).into(), (*sequence).into(), (*offset).into(), (*length).into());
                let seal = &mut self.opposed.rogue.seal;
                let records = [seal.seal(DATA, &frame), seal.seal(BULK, &vec![7; usize::from(*length)])];
                self.opposed.deliver(&records.concat(), &mut self.receiving)
            }
            other => self.opposed.say(&bytes(other), &mut self.receiving),
        };
        if let (Hostile::Open { stream, base }, Ok(())) = (hostile, &said) {
            let stream = StreamId((*stream).into());
            let below =
                |(id, sequence): &(StreamId, Sequence)| *id == stream && sequence.0 < u64::from(*base);
            self.settled.extend(self.delivered.iter().copied().filter(below));
        }
        for (id, sequence, _) in self.receiving.delivered() {
            let first = self.delivered.insert((id, sequence));
            assert!(first || self.settled.contains(&(id, sequence)), "{id:?} {sequence:?} came twice");
        }
        for receiver in self.receiving.streams.values() {
            assert!(receiver.staged_max as u64 <= self.receiving.staging());
            assert!(receiver.free <= self.receiving.arena());
        }
        let open = !self.opposed.honest.is_closed();
        assert!(open || said.is_err() || matches!(hostile, Hostile::Bytes(_)), "it closed without a reason");
        if open {
            self.receiving.pump(&mut self.opposed.honest);
            self.opposed.hear();
        }
        open && said.is_ok()
    }
}

fn bytes(hostile: &Hostile) -> Vec<u8> {
    let stream = |stream: u8| [0, 0, 0, stream];
    let number = |number: u64| number.to_be_bytes();
    match hostile {
        Hostile::Open { stream: id, base } => {
            frame(0x10, &[&stream(*id)[..], &[5; 16], &number((*base).into())].concat())
        }
        Hostile::Tensor { stream: id, sequence, length } => {
            let (sequence, length) = (number((*sequence).into()), number((*length).into()));
            // One dimension of bytes, without a name.
            let uint8 = sealane_types::Dtype::Uint8.code();
            frame(0x11, &[&stream(*id)[..], &sequence, &length, &[uint8, 1], &length, &[0, 0]].concat())
        }
        Hostile::Chunk { stream: id, sequence, offset, length } => {
            let (sequence, offset) = (number((*sequence).into()), number((*offset).into()));
            frame(0x12, &[&stream(*id)[..], &sequence, &offset, &vec![7; usize::from(*length)]].concat())
        }
        Hostile::End { stream: id, tensors, bytes } => {
            frame(0x15, &[&stream(*id)[..], &number((*tensors).into()), &number((*bytes).into())].concat())
        }
        Hostile::Abort { stream: id } => frame(0x17, &stream(*id)),
        Hostile::Credit { stream: id } => {
            frame(0x13, &[&stream(*id)[..], &number(1 << 40), &number(1 << 40)].concat())
        }
        Hostile::Bytes(bytes) => bytes.clone(),
        Hostile::Bulk { .. } | Hostile::Update | Hostile::Take { .. } | Hostile::EndSeen { .. } => Vec::new(),
    }
}
