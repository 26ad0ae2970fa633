//! Operations on connections against a reference model, under virtual time, with a network that does what it likes.
//!
//! Two real processes (`process`) speak over a network (`network`) that delays, joins, splits, changes, repeats, deletes
//! and reflects bytes, or cuts the link. Random transitions (`transition`) push tensors, take them, end and abort
//! streams, kill the receiver, let time pass, replace policies and keys, and dial again (`world`). The model
//! (`reference`) knows what was pushed and what may be lost, and `assertions` holds after every transition that nothing
//! came twice, changed, unasked or too early, and at the end that nothing is missing.
//!
//! `tests/connection.rs` runs it with proptest, which makes a failure small and keeps it. `PROPTEST_CASES` says how often.
//!
//! `datagrams` is another network, for what speaks datagrams.
//!
//! Deliberately absent: what the sidecar's shell adds on top, such as the choice of replicas and the answers to an
//! application that dies with tensors in its hands.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    reason = "a model fails by panicking"
)]

mod assertions;
pub mod datagrams;
mod network;
mod process;
mod reference;
mod rogue;
mod transition;
mod world;

pub use rogue::{Hostile, Rogue, hostile};
pub use transition::{Setting, Transition, setting, transitions};
pub use world::World;
