//! Configurations as changes of configurations. A policy goes to ten thousand sidecars at one moment, and so does a replica
//! that comes or goes: what all of them are told alike is encoded once, and only what changed is sent.
//!
//! A configuration is a sequence of encoded items ([`split`], [`assemble`]), a change copies runs of the base and brings new
//! items ([`diff`], [`apply`]), and a [`Follower`] is the receiving end of one stream. Invariant: what a follower returns has
//! the digest that was announced; of a change whose base is another it takes nothing. Pure: no sockets, clock or tasks.

mod change;
mod error;
mod follower;
mod item;
mod limits;
mod part;
mod sequence;

pub use change::{apply, diff};
pub use error::DeltaError;
pub use follower::Follower;
pub use item::{assemble, split};
pub use limits::{CONFIGURATION_BYTES_MAX, ITEMS_MAX, PART_BYTES_MAX, SESSIONS_MAX};
pub use part::{Part, parts};
pub use prost::bytes::Bytes;
pub use sequence::Sequence;

/// The word in `features` of Register and Configuration.
pub const FEATURE: &str = "delta";

#[cfg(test)]
mod tests;
