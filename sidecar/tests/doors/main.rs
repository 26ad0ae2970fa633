//! Both doors from their clients' side: over their real sockets, with sessions that loop back or with two real sidecars.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod door;
mod grpc;
#[path = "../../examples/door_loopback/loopback.rs"]
mod loopback;
#[path = "../sidecars/support.rs"]
#[expect(dead_code, reason = "shared with the tests of sidecars, which use all of it")]
mod support;
