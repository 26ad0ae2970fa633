//! The door from a client's side, over its real socket and segments, with sessions that loop back.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail where they stand")]

mod client;
mod crossing;
mod limits;
#[path = "../../examples/door_loopback/loopback.rs"]
mod loopback;
