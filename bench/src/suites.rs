//! The rows that there are, and the ones that there are not yet.

mod crypto;
mod datagram;
mod evidence;
mod flood;
mod floor;
mod frame;
mod growth;
mod handshake;
mod lane;
mod link;
mod memory;
mod pair;
mod portable;
mod roundtrip;
mod stream;
mod transfer;
mod transport;

use crate::bench::{Bench, Ran};
use crate::plan::{Selection, Suite};
use crate::row::Missing;

pub(crate) fn run(suite: Suite, bench: &mut Bench<'_>) -> Ran {
    match suite {
        Suite::Crypto => crypto::run(bench),
        Suite::Frame => frame::run(bench),
        Suite::Handshake => handshake::run(bench),
        Suite::Evidence => evidence::run(bench),
        Suite::Roundtrip => roundtrip::run(bench),
        Suite::Stream => stream::run(bench),
        Suite::Portable => portable::run(bench),
        Suite::Transport => transport::run(bench),
        Suite::Datagram => datagram::run(bench),
        Suite::Link => link::run(bench),
        Suite::Lane => lane::run(bench),
        Suite::Pair => pair::run(bench),
        Suite::Transfer => transfer::run(bench),
        Suite::Memory => memory::run(bench),
        Suite::Growth => growth::run(bench),
        Suite::Flood => flood::run(bench),
    }
}

/// Rows of the published tables that no suite measures yet, where all run.
pub(crate) fn not_measured(selection: &Selection) -> Vec<Missing> {
    const NOT_BUILT: &str = "the product does not have it yet";
    let of_none = [
        ("W8-W17", NOT_BUILT),
        ("W31-W36", NOT_BUILT),
        ("W39-W55", NOT_BUILT),
        ("P8-P10", NOT_BUILT),
        ("P14-P17", NOT_BUILT),
        ("A1-A20", NOT_BUILT),
        ("H7-H8", NOT_BUILT),
    ];
    if selection.suites.is_empty() {
        of_none.map(|(id, why)| Missing::new(id, why)).into()
    } else {
        Vec::new()
    }
}
