//! Packets: sealed units of a carrier that loses, repeats and reorders.
//!
//! ```text
//! packet = flags (1) ‖ connection id (8) ‖ packet number (4) ‖ ciphertext ‖ tag (16)     AAD = the header as it is sealed
//! flags  = 0b0100_000k                       k: the key phase
//! nonce  = mask XOR (0^32 ‖ packet number, 64 bits)
//! ```
//!
//! The low half of the flags and the packet number are hidden afterwards under a mask that the ciphertext gives
//! (RFC 9001 §5.4), so that whoever looks on cannot follow a connection by its numbers. What is on the wire are the low
//! 32 bits of a number; the receiver knows the rest (RFC 9000 §A.3).

mod header;
mod opener;
mod phase;
mod sealer;

pub use header::ConnectionId;
#[cfg(test)]
pub(crate) use header::Header;
pub(crate) use header::{HEADER_BYTES, PacketNumber, addressee};
pub(crate) use opener::{OpenError, OpenedPacket, PacketOpener, PacketProof};
pub(crate) use sealer::PacketSealer;

#[cfg(test)]
mod tests;
