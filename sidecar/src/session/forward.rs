//! Forwarded TCP ports.
//!
//! [`listening`] is the `from` side: it listens on loopback while an attested replica is connected, and gives every TCP
//! connection to the one that carries the fewest. [`serving`] is the `to` side: it reaches the one port that the signed
//! policy permits. Between them a [`pipe`] joins one local socket at each end; [`pipes`] are those of one connection.
//!
//! A pipe ends cleanly only by the authenticated ends of both directions. Whatever else happens is a reset at both ends:
//! applications never take a cut for the end of their data.

mod address;
mod budget;
pub(crate) mod listening;
mod outbound;
mod pipe;
mod pipes;
mod port;
mod ports;
pub(crate) mod premises;
mod ready;
mod replica;
pub(crate) mod serving;
mod socket;
mod socket_path;
mod tally;
