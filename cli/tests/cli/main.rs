//! The plugin from outside, as one test program.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod collateral;
mod evidence;
mod folder;
mod policy;
mod render;
mod verify;
