//! Two connections under virtual time: over byte pipes, and over datagrams.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod datagram;
mod pair;
