//! The program from outside, as one test program: its suites, its reports and signed results, and its other end.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod remote;
mod report;
mod result;
mod smoke;
