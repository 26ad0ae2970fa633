//! What the steering program looks for.

use std::net::IpAddr;

/// Packets that are the link's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) port: u16,
    /// Bytes of the longest IP packet of the interface. What is longer was joined by a kernel, which knows where one
    /// datagram ends and the next one begins, and tells its own sockets alone.
    pub(crate) packet_bytes_max: u32,
}
