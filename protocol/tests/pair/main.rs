//! Two connections under virtual time, joined by byte pipes that a test can look into, cut and bend.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod audit;
mod downgrade;
mod endpoint;
mod evidence;
mod handshake;
mod liveness;
mod policy;
mod records;
mod rekey;
mod speed;
mod streams;
mod support;
mod tamper;
mod world;
