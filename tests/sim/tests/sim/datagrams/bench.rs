//! The path that most scenarios are played on: 100 Mbit/s and 20 ms.

use sealane_protocol::datagram::Tuning;
use sealane_sim::datagrams::{Crossing, Link, Path, Steps};
use sealane_types::CongestionChoice;

pub(crate) const SECOND: u64 = 1_000_000;
/// 100 Mbit/s.
pub(crate) const RATE: u64 = 12_500_000;
/// 20 ms there and back.
pub(crate) const DELAY_MICROS: u64 = 10_000;
/// What fills the path, and what the queue of the link holds besides.
pub(crate) const PIPE_BYTES: u64 = 250_000;

pub(crate) const fn tuning(congestion: CongestionChoice) -> Tuning {
    Tuning { congestion, datagram_bytes_max: 1_472 }
}

pub(crate) const fn link() -> Link {
    Link::new(Steps::always(RATE), PIPE_BYTES)
}

/// Permille of the link that tensors had in so many seconds, after so many others.
pub(crate) fn goodput(
    congestion: CongestionChoice,
    warm: u64,
    seconds: u64,
    change: impl Fn(&mut Path),
) -> u64 {
    let mut crossing = Crossing::new(7, link(), link());
    let flow = crossing.establish(tuning(congestion), |path| path.delay_micros = DELAY_MICROS);
    crossing.change(flow, change);
    crossing.flood(flow);
    crossing.network.run(warm * SECOND);
    let [rate] = crossing.rates([flow], seconds * SECOND);
    assert_eq!(crossing.closed(flow), [None, None], "{:?}", crossing.fails(flow));
    rate * 1_000 / RATE
}
