//! What tests of the protocol have in common: names, policies and a simulated platform (`world`), two real connections
//! under virtual time with byte pipes between them (`pair`), the two ends of a stream as a sidecar drives them
//! (`endpoint`), connections whose evidence was rehearsed (`ends`, `rehearsal`), and a rogue that holds genuine keys and says whatever a test wants (`rogue`).
//!
//! Invariant: everything that matters is real. Connections, policies, signatures and verdicts are those of the product;
//! only hardware is simulated, and only time and randomness are made up.
//!
//! Deliberately absent: assertions about a subject. They stand in the tests.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    reason = "helpers of tests fail the test, and nobody prints them"
)]

pub mod datagrams;
pub mod endpoint;
pub mod ends;
pub mod pair;
pub mod rehearsal;
pub mod rogue;
pub mod world;
