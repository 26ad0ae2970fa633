//! What the steering program looks for.

use std::net::IpAddr;

/// Packets that are the link's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) port: u16,
}
