//! What somebody who watches sidecars sees: metrics and traces.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../sidecars/client.rs"]
#[expect(dead_code, reason = "shared with the tests that this was written for")]
mod client;
mod metrics;
#[path = "../sidecars/support.rs"]
#[expect(dead_code, reason = "shared with the tests that this was written for")]
mod support;
mod traces;
