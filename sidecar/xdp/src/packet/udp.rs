//! UDP (RFC 768).

use super::checksum::Sum;
use super::malformed::Malformed;

pub(crate) const HEADER_BYTES: usize = 8;

/// `IPPROTO_UDP`
pub(crate) const PROTOCOL: u8 = 17;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) source: u16,
    pub(crate) destination: u16,
}

/// Reads the header of a datagram that fills its IP packet; returns ports and the bytes of its payload.
pub(crate) fn parse(datagram: &[u8]) -> Result<(Ports, usize), Malformed> {
    let (header, payload) = datagram.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed::Length)?;
    let [a, b, c, d, e, f, _, _] = *header;
    if usize::from(u16::from_be_bytes([e, f])) != datagram.len() {
        return Err(Malformed::Length);
    }
    Ok((Ports { source: u16::from_be_bytes([a, b]), destination: u16::from_be_bytes([c, d]) }, payload.len()))
}

/// A header without length and checksum. Without a checksum is how IPv4 may be sent.
pub(crate) fn header(source: u16, destination: u16) -> [u8; HEADER_BYTES] {
    let [a, b] = source.to_be_bytes();
    let [c, d] = destination.to_be_bytes();
    [a, b, c, d, 0, 0, 0, 0]
}

/// Writes the length of a datagram into its header.
pub(crate) fn complete(header: &mut [u8; HEADER_BYTES], bytes: u16) {
    header[4..6].copy_from_slice(&bytes.to_be_bytes());
}

/// Writes the checksum of a datagram whose bytes are all written, with zeros for the checksum.
pub(crate) fn seal(datagram: &mut [u8], pseudo_header: Sum) {
    let checksum = match pseudo_header.add(datagram).finish() {
        // Zero would say that there is none; the other zero of ones' complement stands for it.
        0 => 0xffff,
        sum => sum,
    };
    if let Some(place) = datagram.get_mut(6..HEADER_BYTES) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
}
