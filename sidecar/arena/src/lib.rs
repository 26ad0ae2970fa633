//! Memory files that the sidecar shares with one client, which may write them at any time.
//!
//! Invariant: the shared bytes are reached by address alone ([`sealane_aead::VolatileSlice`]): copied, sealed from or opened into
//! once each. No reference to them is ever made: a reference promises that nobody else writes, and another process keeps no
//! promise. What is decided is decided by private memory.
//!
//! Deliberately absent: who owns which bytes, and what they mean.

mod mapping;
mod memory;

pub use memory::SharedMemory;
pub use sealane_aead::{Plaintext, VolatileSlice};
