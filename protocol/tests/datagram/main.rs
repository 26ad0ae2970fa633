//! Two real connections over datagrams, under virtual time, on a wire that loses, repeats, reorders and forges.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod acknowledging;
mod carrying;
mod keeping;
mod net;
mod opening;
mod rekeying;
mod speed;
