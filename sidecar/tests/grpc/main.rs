//! The gRPC door from its clients' side: over its real socket, with sessions that loop back or with two real sidecars.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod about;
mod client;
mod flow;
mod hostile;
mod limits;
mod resume;
mod served;
mod speed;

#[path = "../../examples/door_loopback/loopback.rs"]
mod loopback;
#[path = "../sidecars/support.rs"]
#[expect(dead_code, reason = "shared with the tests of sidecars, which use all of it")]
mod support;
