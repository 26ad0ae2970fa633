//! Messages of `DOOR.md`: from bytes to requests, from replies to bytes. Pure.

mod cursor;
mod reply;
mod request;

pub(super) use reply::{Entry, Failure, Reply, assigned_bytes};
pub use request::{PutEntry, Request};

/// The only version so far.
pub(super) const VERSION: u16 = 1;
const MAGIC: [u8; 8] = *b"SEALANE\n";
/// Kind, flags, count and lane.
pub(super) const HEADER_BYTES: usize = 8;
/// A `DELIVER` entry without dimensions and name.
pub(super) const DELIVER_ENTRY_BYTES: usize = 44;

#[cfg(test)]
mod tests;
