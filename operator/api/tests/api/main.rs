//! What the custom resources promise, as one test program.
#![expect(clippy::unwrap_used, reason = "a test may stop at once")]

mod definitions;
mod quantity;
mod reasons;
