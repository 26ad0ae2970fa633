//! UDP payloads between network interfaces and the memory of this process, through AF_XDP: past the kernel's stack.
//!
//! Invariants:
//! - Unsafe code stands in `sys`, `memory`, `ring` and `umem`; each says what it relies on.
//!   In everything above it is forbidden.
//! - A frame is in one place, and no packet, descriptor or index of the kernel, however hostile, makes it be in two, or
//!   this process read or write beyond what it mapped.
//! - What lies in UMEM is what is on the wire: ciphertext. The kernel, and whoever shares the interface, may read it. What
//!   was received cannot be opened in place, and callers seal before they write.
//!
//! Deliberately absent: Sealane's protocol, a runtime, retransmission, pacing and back-pressure. So are VLAN tags, IP
//! options, fragments and extension headers, and UDP checksums of what is received: those who send over a veth leave them
//! unfilled, and what is sealed needs none. The kernel's UDP socket on the same port is the caller's; it receives what
//! no queue takes.
//!
//! How it is used: `examples/one_datagram.rs`.

// The floors with unsafe code.
mod memory;
mod ring;
mod sys;
mod umem;

// What stands on them, in which there is none.
#[forbid(unsafe_code)]
mod capabilities;
#[forbid(unsafe_code)]
mod interface;
#[forbid(unsafe_code)]
pub mod limits;
#[forbid(unsafe_code)]
mod link;
#[forbid(unsafe_code)]
mod mode;
#[forbid(unsafe_code)]
mod neighbour;
#[forbid(unsafe_code)]
mod netlink;
#[forbid(unsafe_code)]
mod next_hop;
#[forbid(unsafe_code)]
mod open;
#[forbid(unsafe_code)]
mod options;
#[forbid(unsafe_code)]
mod packet;
#[forbid(unsafe_code)]
mod program;
#[forbid(unsafe_code)]
mod queue;
#[forbid(unsafe_code)]
mod resolver;
#[forbid(unsafe_code)]
mod route;
#[forbid(unsafe_code)]
mod socket;

pub use capabilities::{Capabilities, DropError, drop_capabilities, held_by_any_thread};
pub use interface::{Interface, InterfaceError, InterfaceIndex};
pub use link::{Arrival, Counters, FlushError, Link, SendError};
pub use mode::Mode;
pub use next_hop::{NextHop, NextHopError};
pub use open::{OpenError, Opened, Reason, Refused, open};
pub use options::{Options, OptionsError};
pub use packet::MacAddress;
pub use program::{ProgramError, VerifierLog};
pub use queue::QueueId;
pub use resolver::{Resolution, ResolveError, Resolver};
pub use route::{Route, RouteError};
pub use socket::SocketError;
