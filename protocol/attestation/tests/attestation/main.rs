//! Verification from bytes to verdict, on evidence that is honest but for the one thing a test spoils.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests fail the test, and say what was skipped and how long something took"
)]

mod cached;
mod chain;
mod collateral;
mod demands;
mod hostile;
mod initdata;
mod judged;
mod key;
mod mutated;
mod nitro;
mod node;
mod quick;
mod real;
mod report;
mod reviewed;
mod stored;
mod support;
mod tdx;
mod trusted;
mod vectors;
