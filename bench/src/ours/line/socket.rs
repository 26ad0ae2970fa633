//! A UDP socket of the kernel.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use sealane_protocol::datagram::Transmit;
use sealane_sidecar::link::udp::{Moved, Put, Socket, Unsent};

use super::{Line, Room};

#[derive(Debug)]
pub(crate) struct Connected {
    socket: Socket,
    unsent: Option<Unsent>,
}

impl Connected {
    /// Takes over `socket`, within a runtime. `segmented`: the kernel cuts datagrams.
    pub(crate) fn new(socket: std::net::UdpSocket, segmented: bool) -> Result<Self> {
        let socket = Socket::new(socket)?;
        let socket = if segmented { socket } else { socket.without_segmentation() };
        Ok(Self { socket, unsent: None })
    }
}

impl Line for Connected {
    fn put(&mut self, fill: impl FnOnce(&mut [u8], usize) -> Option<Transmit>) -> Option<Room> {
        let put = match self.unsent.take() {
            Some(unsent) => self.socket.put_again(unsent),
            None => self.socket.put(fill)?,
        };
        let Put::Blocked(rest) = put else { return Some(Room::Left) };
        self.unsent = Some(rest);
        Some(Room::None)
    }

    fn answer(&mut self, to: SocketAddr, datagram: &[u8]) {
        self.socket.send(None, to, datagram);
    }

    fn take(&mut self, each: impl FnMut(SocketAddr, &mut [u8])) -> bool {
        self.socket.take(each) == Moved::Done
    }

    async fn ready(&mut self, room: Room, most: Duration) -> Result<bool> {
        match tokio::time::timeout(most, self.socket.ready(room == Room::None)).await {
            Ok(ready) => ready.map(|_| true).map_err(Into::into),
            Err(_) => Ok(false),
        }
    }
}
