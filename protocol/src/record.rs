//! Sealed units on the wire. The only module that uses an AEAD.
//!
//! ```text
//! record = header (type 1 ‖ length 3) ‖ ciphertext ‖ tag (16)      AAD = header
//! nonce  = mask XOR (0^32 ‖ sequence, 64 bits)                     the sequence is not on the wire
//! ```
//!
//! Both ends count records, so one that is deleted, repeated, reordered, changed or sent back where it came
//! from fails to open, and the first that fails ends the link. Where the carrier keeps no order, packets are sealed in
//! place of records ([`packet`]).

#[cfg(test)]
mod cost;
mod header;
mod input;
mod key;
mod level;
mod opener;
mod output;
mod packet;
mod rekey;
mod sealer;

pub use input::InputBuffer;
pub use rekey::Rekey;
pub use sealane_aead::{LengthDiffers, Plaintext, VolatileSlice};

pub(crate) use header::{Header, RecordKind};
pub(crate) use level::{Level, LevelOpener, LevelSealer, Unread};
pub(crate) use opener::Opener;
pub(crate) use output::{Lane, Output, OutputError};
pub use packet::ConnectionId;
#[cfg(test)]
pub(crate) use packet::Header as PacketHeader;
pub(crate) use packet::{
    HEADER_BYTES as PACKET_HEADER_BYTES, OpenError, OpenedPacket, PacketNumber, PacketOpener, PacketProof,
    PacketSealer, addressee,
};
pub(crate) use sealer::Sealer;

/// Bytes that are not the next record of this link. The first one ends the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("its type is unknown or out of place")]
    Kind,
    #[error("its length is out of range")]
    Length,
    #[error("it does not verify: changed, deleted, repeated, reordered or reflected on the way")]
    Tag,
    #[error("its key should have been replaced long ago")]
    KeyOverdue,
    #[error("its key was replaced without having been used")]
    KeyUnused,
    #[error("its sequence number is spent")]
    Exhausted,
}
