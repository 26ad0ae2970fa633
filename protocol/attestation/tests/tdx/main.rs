//! TDX: real quotes, and simulated ones that are honest but for the one thing a test spoils.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests fail the test, and say what was skipped and how long something took"
)]

mod chain;
mod collateral;
mod judged;
mod levels;
mod mutated;
#[path = "../attestation/quick.rs"]
mod quick;
mod quote;
mod report;
mod stored;
mod support;
