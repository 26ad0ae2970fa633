//! Refusals and proofs, through the public API only.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod chain;
mod documents;
mod flows;
mod lint;
mod manual;
mod messages;
mod nitro;
mod snp;
mod support;
mod tdx;
mod vectors;
