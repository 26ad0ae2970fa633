//! Ethernet: fourteen bytes, without VLAN tags (IEEE 802.3).

use std::fmt;

use super::malformed::Malformed;

pub(crate) const HEADER_BYTES: usize = 14;

/// Ethertypes (linux/if_ether.h).
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;

/// The address of an Ethernet interface.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    #[must_use]
    pub const fn new(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// Whether it can belong to one interface: no group's address, and not all zeros.
    #[must_use]
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// What of a header matters to who receives it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ethernet {
    pub(crate) source: MacAddress,
    pub(crate) ethertype: u16,
}

/// Reads a header; returns it and what follows.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Ethernet, &[u8]), Malformed> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed::Short)?;
    let [_, _, _, _, _, _, a, b, c, d, e, f, high, low] = *header;
    Ok((
        Ethernet { source: MacAddress([a, b, c, d, e, f]), ethertype: u16::from_be_bytes([high, low]) },
        rest,
    ))
}

pub(crate) fn header(source: MacAddress, destination: MacAddress, ethertype: u16) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..6].copy_from_slice(&destination.0);
    header[6..12].copy_from_slice(&source.0);
    header[12..].copy_from_slice(&ethertype.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_groups_belong_to_nobody() {
        assert!(MacAddress::new([2, 0, 0, 0, 0, 1]).is_unicast());
        assert!(!MacAddress::new([0xff; 6]).is_unicast());
        assert!(!MacAddress::new([1, 0, 0x5e, 0, 0, 1]).is_unicast());
        assert!(!MacAddress::new([0; 6]).is_unicast());
        assert_eq!(MacAddress::new([2, 0, 0xab, 0, 0, 1]).to_string(), "02:00:ab:00:00:01");
    }
}
