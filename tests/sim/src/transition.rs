//! What may happen. Numbers are taken modulo what there is, so every transition is possible at any time and a failure
//! shrinks by leaving transitions out.

use proptest::prelude::*;

/// Which direction of the link: the way of tensors, or back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    There,
    Back,
}

impl Way {
    pub(crate) const BOTH: [Self; 2] = [Self::There, Self::Back];
}

/// What the network does to bytes that are on the way.
#[derive(Debug, Clone)]
pub enum Fault {
    Change {
        at: u16,
        with: u8,
    },
    Delete {
        at: u16,
        length: u16,
    },
    Repeat {
        at: u16,
        length: u16,
    },
    /// Bytes that the receiver of this direction sent itself come back to it.
    Reflect,
    Insert(Vec<u8>),
}

#[derive(Debug, Clone)]
pub enum Transition {
    Push {
        stream: u8,
        lengths: Vec<u32>,
    },
    /// The receiving application takes tensors: each number picks one of those that are ready.
    Take {
        stream: u8,
        picks: Vec<u8>,
    },
    Finish {
        stream: u8,
    },
    /// The sending application dies; the next push begins another stream in its place.
    Abort {
        stream: u8,
    },
    /// Bytes arrive: so many.
    Deliver {
        way: Way,
        bytes: u32,
    },
    /// Everything arrives, answers too, until nothing moves.
    Settle,
    Fault {
        way: Way,
        fault: Fault,
    },
    /// Nothing arrives any more, or again.
    Stall(bool),
    /// The carrier breaks. The other side may hear of it later, by silence.
    Cut {
        both: bool,
    },
    /// The receiving process dies and another takes its place.
    Crash,
    Advance {
        millis: u32,
    },
    /// One side closes, for a reason.
    Close {
        way: Way,
    },
    /// One side holds the next epoch, and tells the other if it can.
    Epoch {
        way: Way,
    },
    /// Stored claims are judged again, and hold.
    Rejudge {
        way: Way,
    },
    /// Dials again if the connection is over.
    Dial,
}

/// What stays the same for one run.
#[derive(Debug, Clone)]
pub struct Setting {
    pub seed: u64,
    /// Bytes of memory that each lane of the receiver has, and how many may come before they have a place.
    pub arena: u32,
    pub staging: u16,
    /// Key updates after so many bytes, records, milliseconds; zero: rarely.
    pub rekey: (u32, u16, u16),
}

/// A run's constants.
pub fn setting() -> impl Strategy<Value = Setting> {
    let rekey = prop_oneof![
        2 => Just((0, 0, 0)),
        1 => (1_000..200_000_u32).prop_map(|bytes| (bytes, 0, 0)),
        1 => (1..6_u16).prop_map(|records| (0, records, 0)),
        1 => (1..4_000_u16).prop_map(|millis| (0, 0, millis)),
    ];
    (any::<u64>(), 100_000..2_000_000_u32, 1_000..64_000_u16, rekey)
        .prop_map(|(seed, arena, staging, rekey)| Setting { seed, arena, staging, rekey })
}

/// What happens in a run.
pub fn transitions(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Transition>> {
    prop::collection::vec(transition(), count)
}

fn transition() -> impl Strategy<Value = Transition> {
    let stream = || 0..3_u8;
    let length = prop_oneof![1 => Just(0_u32), 4 => 1..3_000_u32, 2 => 3_000..90_000_u32];
    prop_oneof![
        6 => (stream(), prop::collection::vec(length, 1..5))
            .prop_map(|(stream, lengths)| Transition::Push { stream, lengths }),
        6 => (stream(), prop::collection::vec(0..4_u8, 1..6))
            .prop_map(|(stream, picks)| Transition::Take { stream, picks }),
        2 => stream().prop_map(|stream| Transition::Finish { stream }),
        1 => stream().prop_map(|stream| Transition::Abort { stream }),
        5 => (way(), 1..70_000_u32).prop_map(|(way, bytes)| Transition::Deliver { way, bytes }),
        8 => Just(Transition::Settle),
        2 => (way(), fault()).prop_map(|(way, fault)| Transition::Fault { way, fault }),
        1 => any::<bool>().prop_map(Transition::Stall),
        2 => any::<bool>().prop_map(|both| Transition::Cut { both }),
        1 => Just(Transition::Crash),
        3 => (1..30_000_u32).prop_map(|millis| Transition::Advance { millis }),
        1 => way().prop_map(|way| Transition::Close { way }),
        1 => way().prop_map(|way| Transition::Epoch { way }),
        1 => way().prop_map(|way| Transition::Rejudge { way }),
        6 => Just(Transition::Dial),
    ]
}

fn way() -> impl Strategy<Value = Way> {
    any::<bool>().prop_map(|back| if back { Way::Back } else { Way::There })
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (any::<u16>(), 1..=u8::MAX).prop_map(|(at, with)| Fault::Change { at, with }),
        (any::<u16>(), 1..2_000_u16).prop_map(|(at, length)| Fault::Delete { at, length }),
        (any::<u16>(), 1..2_000_u16).prop_map(|(at, length)| Fault::Repeat { at, length }),
        Just(Fault::Reflect),
        prop::collection::vec(any::<u8>(), 1..40).prop_map(Fault::Insert),
    ]
}
