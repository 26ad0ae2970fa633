//! What takes our datagrams to the other end: the socket that a sidecar has, or a queue of AF_XDP.

mod queued;
mod socket;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use sealane_protocol::datagram::Transmit;

pub(crate) use queued::Queued;
pub(crate) use socket::Connected;

/// See the module's documentation.
pub(crate) trait Line {
    /// Lets `fill` put datagrams into a space, given how many of them leave at once, and sends them. None: there was
    /// nothing to send.
    fn put(&mut self, fill: impl FnOnce(&mut [u8], usize) -> Option<Transmit>) -> Option<Room>;

    /// Sends one datagram, or loses it.
    fn answer(&mut self, to: SocketAddr, datagram: &[u8]);

    /// Hands on what is there, at most a batch. Whether anything was.
    fn take(&mut self, each: impl FnMut(SocketAddr, &mut [u8])) -> bool;

    /// Waits until something may be there, or room if there was none. Whether that was before `most` had passed.
    async fn ready(&mut self, room: Room, most: Duration) -> Result<bool>;
}

/// Whether more can leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Left,
    None,
}
