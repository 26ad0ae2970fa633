//! Authenticated encryption (AEAD) of bytes that may lie in memory which another process writes at the same time.
//!
//! aws-lc-rs takes slices, and a slice promises that nobody else writes its bytes. A client's memory file keeps no such promise,
//! so this crate hands addresses to the library beneath it: only C and assembly read or write shared bytes, and no reference to
//! them ever exists. Keys, nonces, additional data, ciphertext that is to be opened and tags always lie in private memory. What
//! somebody writes meanwhile is their own plaintext; it reaches no key, no length and no address.
//!
//! Deliberately absent: nonces and their order (the record layer counts), and mappings (`sidecar/arena` owns them).

mod key;
mod volatile;

pub use key::{AeadError, Algorithm, Key, NONCE_BYTES, TAG_BYTES};
pub use volatile::{LengthDiffers, Plaintext, VolatileSlice};
