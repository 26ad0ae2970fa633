//! Fuzz targets: everything that parses or obeys bytes from outside, one function each.
//!
//! Invariant: a target asserts what must hold, not only that nothing panics: what is accepted encodes to the same bytes
//! again, what was changed on its way never yields other data, what nobody signed never reaches a parser, and memory
//! follows the size of the input. Targets are deterministic, so a file of the corpus means the same in every run.
//!
//! `tests/corpus.rs` replays the corpus and a fixed number of mutations; `cargo xtask fuzz` searches further, led by
//! coverage (`engine/`). `README.md` says how to add a target and what to do with a find.
//!
//! Deliberately absent: resumption tickets, which do not exist yet, and the platforms without a verifier.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    reason = "a target fails by panicking"
)]

pub mod corpus;
mod edit;
pub mod mutate;
mod script;
pub mod seeds;
pub mod targets;

pub use targets::{TARGETS, Target, find};
