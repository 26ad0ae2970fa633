//! UDP packets as they are on an Ethernet: IPv4 without options or fragments, IPv6 without extension headers.
//!
//! Deliberately absent: VLAN tags, and the UDP checksum of what is received. Kernel senders on a veth leave it unfilled,
//! and what it would tell is told better by the tag of the record within.

mod checksum;
mod ethernet;
mod head;
mod ipv4;
mod ipv6;
mod malformed;
mod udp;

use std::net::SocketAddr;
use std::ops::Range;

pub use ethernet::MacAddress;
pub(crate) use head::Head;
pub(crate) use malformed::Malformed;

/// Who sent a packet to whom, and where its payload is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) source_mac: MacAddress,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// Within the bytes that were parsed.
    pub(crate) payload: Range<usize>,
}

/// Reads a packet. What stands behind the length that its IP header tells is padding.
pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let (ethernet, rest) = ethernet::parse(bytes)?;
    let begin = bytes.len() - rest.len();
    let (source, destination, ip_bytes, datagram) = match ethernet.ethertype {
        ethernet::IPV4 => ipv4::parse(rest)?,
        ethernet::IPV6 => ipv6::parse(rest)?,
        _ => return Err(Malformed::Ethertype),
    };
    let (ports, payload_bytes) = udp::parse(datagram)?;
    let start = begin + ip_bytes + udp::HEADER_BYTES;
    Ok(Parsed {
        source_mac: ethernet.source,
        from: SocketAddr::new(source, ports.source),
        to: SocketAddr::new(destination, ports.destination),
        payload: start..start + payload_bytes,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    const HERE: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
    const THERE: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);

    fn packet(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
        let head = Head::new(HERE, from, THERE, to).unwrap();
        let mut bytes = vec![0xee; head.bytes() + payload.len()];
        bytes[head.bytes()..].copy_from_slice(payload);
        head.write(&mut bytes).unwrap();
        bytes
    }

    fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        let four = any::<([u8; 4], [u8; 4])>()
            .prop_map(|(a, b)| (Ipv4Addr::from(a).into(), Ipv4Addr::from(b).into()));
        let six = any::<([u8; 16], [u8; 16])>()
            .prop_map(|(a, b)| (Ipv6Addr::from(a).into(), Ipv6Addr::from(b).into()));
        prop_oneof![four, six]
    }

    #[test]
    fn an_ipv4_packet_is_what_other_stacks_write() {
        // Addresses and header checksum of the worked example at en.wikipedia.org/wiki/Internet_checksum, with our
        // flags, time to live and identification.
        let bytes =
            packet("192.168.0.1:68".parse().unwrap(), "192.168.0.199:67".parse().unwrap(), b"sealane!");
        let expected = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, 17, 0xb8,
            0xb0, 192, 168, 0, 1, 192, 168, 0, 199, 0, 68, 0, 67, 0, 16, 0, 0,
        ];
        assert_eq!(bytes[..42], expected);
        assert_eq!(bytes[42..], *b"sealane!");
    }

    #[test]
    fn an_ipv6_packet_has_the_checksum_that_it_must_have() {
        let bytes = packet("[fd00::1]:1000".parse().unwrap(), "[fd00::2]:2000".parse().unwrap(), b"odd");
        assert_eq!(
            bytes[..22],
            [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 11, 17, 64]
        );
        // RFC 8200 section 8.1: over a pseudo header, the sum including the checksum is all ones.
        let mut words: Vec<u8> = bytes[22..54].to_vec();
        words.extend([0, 0, 0, 11, 0, 0, 0, 17]);
        words.extend(&bytes[54..]);
        words.push(0);
        let sum: u32 =
            words.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn what_is_not_ours_to_read_is_refused() {
        let good = packet("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap(), b"payload");
        let changed = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            parse(&bytes).unwrap_err()
        };
        assert_eq!(changed(12, 0x81), Malformed::Ethertype);
        assert_eq!(changed(14, 0x46), Malformed::Shape, "options");
        assert_eq!(changed(14, 0x65), Malformed::Shape, "version");
        assert_eq!(changed(20, 0x20), Malformed::Shape, "more fragments");
        assert_eq!(changed(21, 1), Malformed::Shape, "a later fragment");
        assert_eq!(changed(23, 6), Malformed::Protocol);
        assert_eq!(changed(30, 11), Malformed::Checksum);
        assert_eq!(changed(39, 16), Malformed::Length, "longer than the IP packet");
        assert_eq!(changed(39, 7), Malformed::Length, "shorter than its own header");
        for length in 0..good.len() {
            assert_eq!(parse(&good[..length]).unwrap_err(), Malformed::Short, "{length}");
        }
        let six = packet("[fd00::1]:1".parse().unwrap(), "[fd00::2]:2".parse().unwrap(), b"payload");
        for (at, value, expected) in
            [(14, 0x40, Malformed::Shape), (20, 44, Malformed::Protocol), (59, 99, Malformed::Length)]
        {
            let mut bytes = six.clone();
            bytes[at] = value;
            assert_eq!(parse(&bytes).unwrap_err(), expected, "{at}");
        }
    }

    #[test]
    fn padding_is_no_payload() {
        let mut bytes = packet("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap(), b"x");
        bytes.resize(60, 0);
        let parsed = parse(&bytes).unwrap();
        assert_eq!(bytes[parsed.payload], *b"x");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: if cfg!(miri) { 8 } else { 1024 }, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read_back(
            (source, destination) in addresses(),
            ports in any::<(u16, u16)>(),
            payload in prop::collection::vec(any::<u8>(), 0..512),
        ) {
            let (from, to) = (SocketAddr::new(source, ports.0), SocketAddr::new(destination, ports.1));
            let bytes = packet(from, to, &payload);
            let parsed = parse(&bytes).unwrap();
            prop_assert_eq!(&bytes[parsed.payload.clone()], &payload[..]);
            prop_assert_eq!(parsed, Parsed { source_mac: HERE, from, to, payload: bytes.len() - payload.len()..bytes.len() });
        }

        #[test]
        fn hostile_bytes_are_refused_or_lie_within(
            mut bytes in prop::collection::vec(any::<u8>(), 0..256),
            shape in 0..3,
        ) {
            // Most random bytes fail at the first field: let them come further.
            let begin: &[u8] = match shape { 0 => &[], 1 => &[0x08, 0x00, 0x45], _ => &[0x86, 0xdd, 0x60] };
            for (into, byte) in bytes.iter_mut().skip(12).zip(begin) {
                *into = *byte;
            }
            if let Ok(parsed) = parse(&bytes) {
                prop_assert!(bytes.get(parsed.payload).is_some());
            }
        }
    }
}
