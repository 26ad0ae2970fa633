//! The headers of packets to one peer: written once, completed for every packet.

use std::net::{IpAddr, SocketAddr};

use super::ethernet::{self, MacAddress};
use super::{ipv4, ipv6, udp};

/// Headers that lack lengths and checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    ethernet: [u8; ethernet::HEADER_BYTES],
    ip: Ip,
    udp: [u8; udp::HEADER_BYTES],
}

/// The two ends are not of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Families;

/// A packet is longer than its headers can say, or shorter than they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ip {
    Four([u8; ipv4::HEADER_BYTES]),
    Six([u8; ipv6::HEADER_BYTES]),
}

impl Head {
    pub(crate) fn new(
        source_mac: MacAddress,
        from: SocketAddr,
        destination_mac: MacAddress,
        to: SocketAddr,
    ) -> Result<Self, Families> {
        let (ethertype, ip) = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => (ethernet::IPV4, Ip::Four(ipv4::header(from, to))),
            (IpAddr::V6(from), IpAddr::V6(to)) => (ethernet::IPV6, Ip::Six(ipv6::header(from, to))),
            _ => return Err(Families),
        };
        let ethernet = ethernet::header(source_mac, destination_mac, ethertype);
        Ok(Self { ethernet, ip, udp: udp::header(from.port(), to.port()) })
    }

    /// Bytes before the payload.
    pub(crate) fn bytes(&self) -> usize {
        let ip = match &self.ip {
            Ip::Four(header) => header.len(),
            Ip::Six(header) => header.len(),
        };
        self.ethernet.len() + ip + self.udp.len()
    }

    /// Writes the headers before the payload, which stands in `packet` already: the checksum covers it.
    pub(crate) fn write(&self, packet: &mut [u8]) -> Result<(), Length> {
        let (ethernet, rest) = packet.split_first_chunk_mut().ok_or(Length)?;
        *ethernet = self.ethernet;
        match self.ip {
            Ip::Four(mut header) => {
                ipv4::complete(&mut header, u16::try_from(rest.len()).map_err(|_| Length)?);
                let (ip, datagram) = rest.split_first_chunk_mut().ok_or(Length)?;
                *ip = header;
                self.write_datagram(datagram)
            }
            Ip::Six(mut header) => {
                let (ip, datagram) = rest.split_first_chunk_mut().ok_or(Length)?;
                ipv6::complete(&mut header, u16::try_from(datagram.len()).map_err(|_| Length)?);
                *ip = header;
                self.write_datagram(datagram)?;
                udp::seal(datagram, ipv6::pseudo_header(&header));
                Ok(())
            }
        }
    }

    fn write_datagram(&self, datagram: &mut [u8]) -> Result<(), Length> {
        let bytes = u16::try_from(datagram.len()).map_err(|_| Length)?;
        let header = datagram.first_chunk_mut().ok_or(Length)?;
        *header = self.udp;
        udp::complete(header, bytes);
        Ok(())
    }
}
