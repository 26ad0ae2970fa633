//! Connections over a carrier that loses, repeats, reorders and cuts: UDP, or AF_XDP beside it.
//!
//! An [`Engine`] stands between a [`Connection`](crate::connection::Connection) and the carrier. It carries the
//! handshake in clear flights, and everything after it as one sequence of bytes in sealed packets, which it repeats,
//! paces and puts in order again. Frames, streams, credit and priorities are those of the connection, as over TCP.
//!
//! ```text
//! shell ── datagrams ──► Engine ── bytes in order ──► Connection ── frames ──► Sink
//!       ◄── datagrams ──        ◄── bytes ──────────            ◄── send ──── shell
//! ```
//!
//! The contract is the connection's: one mutation, then drain. [`Engine::poll_transmit`] takes the place of
//! `poll_output`, [`Engine::handle_datagram`] that of `handle_input`, and the earlier of both timeouts counts. Who
//! accepts has a [`Greeter`] for datagrams that belong to no connection; it keeps nothing.
//!
//! Deliberately absent: several sequences within one connection, so that a loss holds up what was said after it, as over
//! TCP, and another path than the one that the handshake took, unless an address changes on the way.

pub(crate) mod clear;
pub(crate) mod cookie;
mod engine;
mod figures;
mod greeter;
mod incoming;
mod kept;
mod opening;
mod outgoing;
pub(crate) mod part;
mod path;
mod pieces;
mod recoverer;
pub(crate) mod reset;
mod sequence;
mod token;
mod transmit;

pub use crate::record::ConnectionId;
pub use engine::Engine;
pub use figures::{PathCounts, PathFigures, RoundTrip};
pub use greeter::{Beginning, Greeter, Greeting, Route, route};
pub use recoverer::Tuning;
pub use reset::ResetKey;
pub use transmit::Transmit;
