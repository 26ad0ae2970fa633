//! IPv4 (RFC 791): twenty bytes, no options, no fragments.

use std::net::{IpAddr, Ipv4Addr};

use super::checksum::Sum;
use super::malformed::Malformed;
use super::udp;

pub(crate) const HEADER_BYTES: usize = 20;

/// Version 4, five words of header.
const VERSION_AND_LENGTH: u8 = 0x45;
/// "Don't fragment": what is too long for the path shall be lost, because fragments would pass the steering program by.
const DO_NOT_FRAGMENT: u16 = 0x4000;
/// "More fragments" and the offset.
const FRAGMENT_MASK: u16 = 0x3fff;
const TIME_TO_LIVE: u8 = 64;

/// Source, destination, bytes of the header, and the datagram.
pub(crate) type Content<'a> = (IpAddr, IpAddr, usize, &'a [u8]);

pub(crate) fn parse(bytes: &[u8]) -> Result<Content<'_>, Malformed> {
    let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(Malformed::Short)?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    if header[0] != VERSION_AND_LENGTH || word(6) & FRAGMENT_MASK != 0 {
        return Err(Malformed::Shape);
    }
    if header[9] != udp::PROTOCOL {
        return Err(Malformed::Protocol);
    }
    if Sum::default().add(header).finish() != 0 {
        return Err(Malformed::Checksum);
    }
    let end = usize::from(word(2));
    if end < HEADER_BYTES {
        return Err(Malformed::Length);
    }
    let datagram = bytes.get(HEADER_BYTES..end).ok_or(Malformed::Short)?;
    let [.., a, b, c, d, e, f, g, h] = *header;
    Ok((Ipv4Addr::new(a, b, c, d).into(), Ipv4Addr::new(e, f, g, h).into(), HEADER_BYTES, datagram))
}

/// A header without length and checksum.
pub(crate) fn header(source: Ipv4Addr, destination: Ipv4Addr) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = VERSION_AND_LENGTH;
    header[6..8].copy_from_slice(&DO_NOT_FRAGMENT.to_be_bytes());
    header[8] = TIME_TO_LIVE;
    header[9] = udp::PROTOCOL;
    header[12..16].copy_from_slice(&source.octets());
    header[16..].copy_from_slice(&destination.octets());
    header
}

/// Completes a header for a packet of `bytes`, itself included.
pub(crate) fn complete(header: &mut [u8; HEADER_BYTES], bytes: u16) {
    header[2..4].copy_from_slice(&bytes.to_be_bytes());
    header[10..12].fill(0);
    let checksum = Sum::default().add(header).finish();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}
