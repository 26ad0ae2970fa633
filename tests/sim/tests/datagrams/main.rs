//! Connections over datagrams on simulated networks, under virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "figures are read in the output of a test")]

mod bench;
mod changes;
mod figures;
mod goodput;
mod hostile;
mod model;
mod queues;
mod sharing;
