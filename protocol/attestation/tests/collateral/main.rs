//! Collateral piece by piece: who may vouch for it, which of two is kept, how it travels, and what it changes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests fail the test, and say what was skipped"
)]

mod bounds;
mod bundle;
mod forms;
mod grace;
mod rejudged;
mod stock;
mod support;
mod uncovered;
