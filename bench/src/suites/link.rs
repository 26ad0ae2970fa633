//! Packets by themselves, nothing sealed: how many and how soon, through the kernel's UDP sockets and through AF_XDP.
//!
//! AF_XDP and UDP each have a veth of their own between two network namespaces, because a program on a veth slows down
//! whoever else uses it. Where AF_XDP cannot be had, its rows are missing, with the reason.

mod bursts;
mod kernel;
mod latency;
mod rate;

use anyhow::Result;
use sealane_xdp::Mode;

use crate::bench::{Bench, Ran};
use crate::cores::Cores;
use crate::link::Xdp;
use crate::programs::Route;
use crate::row::Missing;

const UDP: &str = "UDP sockets of the kernel, without segmentation";
/// The rows of this suite.
const IDS: [&str; 9] =
    ["P4-udp", "P5", "P6", "P6-native", "P12", "P12-asleep", "P13", "P13-asleep", "P13-native"];

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let Some(cores) = Cores::two()? else {
        for id in IDS {
            bench.missing(Missing::new(id, "both ends spin, each on a core of its own: there is one core"));
        }
        return Ok(());
    };
    rate::run(bench, cores)?;
    kernel::run(bench, cores)?;
    latency::run(bench, cores)
}

/// Both queues, and the network between them, which has to outlive them.
struct Opened {
    ends: [Xdp; 2],
    route: Route,
}

fn opened(mtu: u32, mode: Mode) -> Result<Opened> {
    let route = Route::namespaces(mtu)?;
    Ok(Opened { ends: Xdp::pair(&route, mode)?, route })
}

/// What could be opened; a row that is missing otherwise.
fn or_missing(bench: &mut Bench<'_>, id: &str, opened: Result<Opened>) -> Option<Opened> {
    opened.map_err(|error| bench.missing(Missing::new(id, format!("{error:#}")))).ok()
}
