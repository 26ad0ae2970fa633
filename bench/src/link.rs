//! Packets by themselves, nothing sealed: from one end to another, each in a thread of its own on a core of its own, through
//! UDP sockets of the kernel or through AF_XDP.
//!
//! Invariant: a packet counts when its bytes are in the receiving end's memory and have been compared. What was sent and did
//! not come is loss, and is told.

mod burst;
mod done;
mod echo;
mod flow;
mod udp;
mod xdp;

use anyhow::Result;

pub(crate) use burst::{Burst, burst};
pub(crate) use echo::{Waiting, echo};
pub(crate) use flow::{BATCH, Flow};
pub(crate) use udp::Udp;
pub(crate) use xdp::Xdp;

/// Bytes between packets in an end's memory: more than a jumbo frame carries.
const STRIDE_BYTES: usize = 9_216;

/// One end of a link.
pub(crate) trait End: Send {
    /// Sends packets of `bytes` each, which lie one behind the other. How many have left: there may be no room for more.
    fn send(&mut self, packets: &[u8], bytes: usize) -> Result<usize>;

    /// Takes at most `most` packets into memory of this end, and shows them to `take`. How many there were; it never waits.
    fn receive(&mut self, most: usize, take: impl FnMut(&[u8])) -> Result<usize>;

    /// Waits in the kernel until there is a packet, or for a while.
    fn wait(&mut self) -> Result<()>;
}
