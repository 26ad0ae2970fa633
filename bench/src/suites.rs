//! The rows that there are, and the ones that there are not yet.

mod evidence;
mod flood;
mod handshake;
mod lane;
mod roundtrip;
mod stream;

use crate::bench::{Bench, Ran};
use crate::plan::{Selection, Suite};
use crate::row::Missing;

pub(crate) fn run(suite: Suite, bench: &mut Bench<'_>) -> Ran {
    match suite {
        Suite::Handshake => handshake::run(bench),
        Suite::Evidence => evidence::run(bench),
        Suite::Roundtrip => roundtrip::run(bench),
        Suite::Stream => stream::run(bench),
        Suite::Lane => lane::run(bench),
        Suite::Flood => flood::run(bench),
    }
}

/// Rows of the published tables and of our own limits that no suite measures yet; those of no suite only where all run.
pub(crate) fn not_measured(selection: &Selection) -> Vec<Missing> {
    const NO_SUITE: &str = "no suite measures it yet";
    const NOT_BUILT: &str = "the product does not have it yet";
    let of_suites = [
        (Suite::Stream, "C3-tcp@rustls", NO_SUITE),
        (Suite::Stream, "W7/1456", NO_SUITE),
        (Suite::Lane, "lane/1536@put_many", NO_SUITE),
        (Suite::Lane, "pair/1048576@relay", NO_SUITE),
    ];
    let of_none = [
        ("C4", "needs real inference beside the lane"),
        ("W1-W6", NO_SUITE),
        ("W8-W17", NOT_BUILT),
        ("W18-W30", "in part inside C1 and C3; no suite of their own yet"),
        ("W31-W36", NOT_BUILT),
        ("W37-W38", NO_SUITE),
        ("W39-W55", NOT_BUILT),
        ("P1-P3", NO_SUITE),
        ("P4-P10", NOT_BUILT),
        ("P11", NO_SUITE),
        ("P12-P17", NOT_BUILT),
        ("A1-A20", NOT_BUILT),
        ("H1-H9", NOT_BUILT),
    ];
    let wanted = of_suites.into_iter().filter(|(suite, ..)| selection.includes(*suite));
    let mut missing: Vec<_> = wanted.map(|(_, id, why)| Missing::new(id, why)).collect();
    if selection.suites.is_empty() {
        missing.extend(of_none.map(|(id, why)| Missing::new(id, why)));
    }
    missing
}
