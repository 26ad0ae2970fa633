//! Memory files that the sidecar shares with one client, which may write them at any time.
//!
//! Invariant: the shared bytes are reached by address alone, copied once each, to or from memory of this process. No reference
//! to them is ever made: a reference promises that nobody else writes, and another process keeps no promise. What is decided
//! is decided by the private copy.
//!
//! Deliberately absent: who owns which bytes, and what they mean.

mod mapping;
mod memory;

pub use memory::SharedMemory;
