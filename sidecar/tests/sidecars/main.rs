//! Sidecars on loopback in one process, with simulated evidence and the tests in place of the door.
//!
//! Waits are bounded by [`support::LIMIT`] and end as soon as what they wait for is there.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod admin;
mod ciphers;
mod client;
mod collateral;
mod control;
mod datagrams;
mod deltas;
mod device;
mod ends;
mod faults;
mod file;
mod flow;
mod forward;
mod forward_faults;
mod forward_flow;
mod forward_policy;
mod forward_programs;
mod key;
mod links;
mod mixed;
mod observed;
mod path;
mod preferred;
mod production;
mod receivers;
mod receiving;
mod roots;
mod runs;
mod sending;
mod speed;
mod staying;
mod strangers;
mod support;
mod tickets;
mod trust;
