//! What may happen to a connection over datagrams. Every happening is possible at any time, so that a failure shrinks by
//! leaving some out.

use proptest::prelude::*;

use super::path::Path;
use super::steps::Steps;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Initiator,
    Responder,
}

#[derive(Debug, Clone)]
pub enum Happening {
    /// The sending application has tensors of these lengths.
    Push(Vec<u32>),
    /// The receiving application takes so many.
    Take(u8),
    Pass {
        millis: u32,
    },
    /// Both directions are like this from here on.
    Weather(Weather),
    /// Nothing passes.
    Silence {
        millis: u32,
    },
    /// The side that dialled is seen under another address.
    Move,
    /// One side proves itself anew.
    Reattest(End),
    Close(End),
    /// The process of one side forgets the connection without a word.
    Forget(End),
    /// Dials again, if the last connection is over.
    Dial,
}

/// What a path does to what is on it.
#[derive(Debug, Clone)]
pub struct Weather {
    lost_permille: u64,
    burst_permille: u64,
    duplicated_permille: u64,
    corrupted_permille: u64,
    reordered_permille: u64,
    jitter_micros: u64,
    delay_micros: u64,
    datagram_bytes_max: usize,
}

impl Weather {
    /// It does no harm.
    pub(super) const FAIR: Self = Self {
        lost_permille: 0,
        burst_permille: 0,
        duplicated_permille: 0,
        corrupted_permille: 0,
        reordered_permille: 0,
        jitter_micros: 0,
        delay_micros: 1_000,
        datagram_bytes_max: 1_472,
    };

    pub(super) fn come_over(&self, path: &mut Path) {
        path.lost_permille = self.lost_permille;
        (path.burst_permille, path.burst_datagrams_max) = (self.burst_permille, 20);
        path.duplicated_permille = self.duplicated_permille;
        path.corrupted_permille = self.corrupted_permille;
        (path.reordered_permille, path.reordered_micros_max) = (self.reordered_permille, 20_000);
        (path.delay_micros, path.jitter_micros) = (self.delay_micros, self.jitter_micros);
        path.datagram_bytes_max = Steps::always(self.datagram_bytes_max);
    }
}

/// So many of them.
pub fn happenings(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Happening>> {
    prop::collection::vec(happening(), count)
}

fn happening() -> impl Strategy<Value = Happening> {
    let length = prop_oneof![4 => 1..3_000_u32, 2 => 3_000..90_000_u32, 1 => 90_000..1_000_000_u32];
    let end = || prop_oneof![Just(End::Initiator), Just(End::Responder)];
    prop_oneof![
        6 => prop::collection::vec(length, 1..5).prop_map(Happening::Push),
        4 => (1..10_u8).prop_map(Happening::Take),
        6 => (1..300_u32).prop_map(|millis| Happening::Pass { millis }),
        2 => (300..8_000_u32).prop_map(|millis| Happening::Pass { millis }),
        5 => weather().prop_map(Happening::Weather),
        2 => (1..30_000_u32).prop_map(|millis| Happening::Silence { millis }),
        3 => Just(Happening::Move),
        1 => end().prop_map(Happening::Reattest),
        1 => end().prop_map(Happening::Close),
        1 => end().prop_map(Happening::Forget),
        4 => Just(Happening::Dial),
    ]
}

/// Mostly one or two things are wrong with it at a time.
fn weather() -> impl Strategy<Value = Weather> {
    let seldom = |most: u64| prop_oneof![3 => Just(0), 1 => 1..most];
    let sizes = prop::sample::select(vec![1_200_usize, 1_252, 1_372, 1_472]);
    let harms = (seldom(300), seldom(20), seldom(300), seldom(50), seldom(500));
    (harms, seldom(50_000), 50..50_000_u64, sizes).prop_map(
        |(harms, jitter_micros, delay_micros, datagram_bytes_max)| {
            let (lost_permille, burst_permille, duplicated_permille, corrupted_permille, reordered_permille) =
                harms;
            Weather {
                lost_permille,
                burst_permille,
                duplicated_permille,
                corrupted_permille,
                reordered_permille,
                jitter_micros,
                delay_micros,
                datagram_bytes_max,
            }
        },
    )
}
