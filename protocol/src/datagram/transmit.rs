//! What the carrier is given.

use std::net::SocketAddr;

/// Sealed datagrams for the carrier, of one size but the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    pub to: SocketAddr,
    /// All of them together, from the front of the space.
    pub bytes: usize,
    /// Bytes of each, the last one may have fewer.
    pub segment: usize,
}

impl Transmit {
    /// A single datagram.
    pub(super) const fn one(to: SocketAddr, bytes: usize) -> Self {
        Self { to, bytes, segment: bytes }
    }
}
