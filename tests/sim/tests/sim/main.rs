//! Connections on simulated networks, under virtual time: over streams, over datagrams, and with a second implementation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "figures are read in the output of a test")]

mod connection;
mod datagrams;
mod rogue;
