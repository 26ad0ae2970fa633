//! Secrets, where they come from, and everything that is derived from them.

mod kem;
mod label;
mod public;
mod random;
mod schedule;
mod secret;
mod statics;
mod ticket;

pub use kem::{Decapsulate, Kem, KemFailed, MlKem768};
pub use random::{Random, RandomFailed};
pub use secret::Secret;
pub use statics::{InvalidStatic, StaticKey};
pub use ticket::TicketId;

pub(crate) use label::Label;
pub(crate) use public::public_id;
pub(crate) use schedule::{Joining, LinkSecret, Resumption, Root, Split};
pub(crate) use ticket::EvidenceDigests;
