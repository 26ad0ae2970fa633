//! IPv6 (RFC 8200): forty bytes, no extension headers.

use std::net::{IpAddr, Ipv6Addr};

use super::checksum::Sum;
use super::malformed::Malformed;
use super::udp;

pub(crate) const HEADER_BYTES: usize = 40;

const VERSION: u8 = 6;
const HOP_LIMIT: u8 = 64;

/// Source, destination, bytes of the header, and the datagram.
pub(crate) type Content<'a> = (IpAddr, IpAddr, usize, &'a [u8]);

pub(crate) fn parse(bytes: &[u8]) -> Result<Content<'_>, Malformed> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed::Short)?;
    if header[0] >> 4 != VERSION {
        return Err(Malformed::Shape);
    }
    if header[6] != udp::PROTOCOL {
        return Err(Malformed::Protocol);
    }
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let datagram = rest.get(..length).ok_or(Malformed::Short)?;
    let mut octets = [[0; 16]; 2];
    octets[0].copy_from_slice(&header[8..24]);
    octets[1].copy_from_slice(&header[24..40]);
    let [source, destination] = octets;
    Ok((Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into(), HEADER_BYTES, datagram))
}

/// A header without length.
pub(crate) fn header(source: Ipv6Addr, destination: Ipv6Addr) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = VERSION << 4;
    header[6] = udp::PROTOCOL;
    header[7] = HOP_LIMIT;
    header[8..24].copy_from_slice(&source.octets());
    header[24..].copy_from_slice(&destination.octets());
    header
}

/// Completes a header for a datagram of `bytes`.
pub(crate) fn complete(header: &mut [u8; HEADER_BYTES], bytes: u16) {
    header[4..6].copy_from_slice(&bytes.to_be_bytes());
}

/// The sum over what a datagram's checksum covers beside the datagram (section 8.1).
pub(crate) fn pseudo_header(header: &[u8; HEADER_BYTES]) -> Sum {
    let [length_high, length_low] = [header[4], header[5]];
    Sum::default().add(&header[8..]).add(&[0, 0, length_high, length_low, 0, 0, 0, udp::PROTOCOL])
}
