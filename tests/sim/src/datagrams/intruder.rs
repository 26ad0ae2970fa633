//! Somebody on the way who reads everything and can send under any address.

use std::net::SocketAddr;

use sealane_protocol::Moment;

/// A datagram as it leaves its sender.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: &'a [u8],
}

/// A datagram of the intruder's. Nothing happens to it on the way.
#[derive(Debug, Clone)]
pub struct Inserted {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub bytes: Vec<u8>,
    pub after_micros: u64,
}

pub trait Intruder {
    /// Sees a datagram, and adds to `inserted` what it has to say.
    fn see(&mut self, now: Moment, seen: Seen<'_>, inserted: &mut Vec<Inserted>);
}
