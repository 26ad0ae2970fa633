//! Where the kernel would send a packet: `RTM_GETROUTE` (linux/rtnetlink.h).

use std::io;
use std::net::IpAddr;

use crate::interface::InterfaceIndex;
use crate::netlink::{self, AskError, Malformed, Message, Netlink, Request};

/// `struct rtmsg`
const FIXED_BYTES: usize = 12;
/// `RTA_VIA`: a next hop of another family, as `struct rtvia`.
const VIA: u16 = 18;

/// The way of packets to one address, as of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// Where they leave.
    pub interface: InterfaceIndex,
    /// Whose MAC address they get: a router's, or the destination itself.
    pub address: IpAddr,
    /// The address that the kernel would send them from.
    pub source: IpAddr,
}

/// Why there is no next hop.
#[derive(Debug, thiserror::Error)]
pub enum NextHopError {
    /// Environment: no route leads there, or one that refuses.
    #[error("no route leads to the address")]
    Unreachable(#[source] io::Error),
    /// Caller: the address is this machine's own, or that of a group.
    #[error("the address is not that of one other machine")]
    NotUnicast,
    /// Environment: the kernel did not say what it should.
    #[error("the kernel did not answer about the route")]
    Kernel(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Looks up the route to `destination`.
pub(crate) fn find(netlink: &mut Netlink, destination: IpAddr) -> Result<NextHop, NextHopError> {
    let (family, bits) = match destination {
        IpAddr::V4(_) => (libc::AF_INET, 32),
        IpAddr::V6(_) => (libc::AF_INET6, 128),
    };
    let mut fixed = [0; FIXED_BYTES];
    fixed[0] = family as u8;
    fixed[1] = bits;
    let request = Request::new(libc::RTM_GETROUTE, &fixed).address(libc::RTA_DST, destination);
    match netlink.ask(&request) {
        Ok(message) => parse(&message, destination),
        Err(AskError::Refused(error)) => Err(NextHopError::Unreachable(error)),
        Err(error) => Err(NextHopError::Kernel(error.into())),
    }
}

fn parse(message: &Message<'_>, destination: IpAddr) -> Result<NextHop, NextHopError> {
    let malformed = |error: Malformed| NextHopError::Kernel(error.into());
    if message.kind != libc::RTM_NEWROUTE {
        return Err(malformed(Malformed));
    }
    let (fixed, attributes) = message.split::<FIXED_BYTES>().map_err(malformed)?;
    let [_, _, _, _, _, _, _, kind, ..] = *fixed;
    match kind {
        libc::RTN_UNICAST => {}
        libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_ANYCAST | libc::RTN_MULTICAST => {
            return Err(NextHopError::NotUnicast);
        }
        _ => return Err(NextHopError::Unreachable(io::Error::from_raw_os_error(libc::EHOSTUNREACH))),
    }
    let (mut interface, mut gateway, mut source) = (None, None, None);
    for attribute in attributes {
        let (kind, value) = attribute.map_err(malformed)?;
        match kind {
            libc::RTA_OIF => {
                interface = Some(InterfaceIndex::new(netlink::integer(value).map_err(malformed)?));
            }
            libc::RTA_GATEWAY => gateway = Some(netlink::address(value).map_err(malformed)?),
            VIA => gateway = Some(via(value).map_err(malformed)?),
            libc::RTA_PREFSRC => source = Some(netlink::address(value).map_err(malformed)?),
            _ => {}
        }
    }
    let source = source.filter(|source| source.is_ipv4() == destination.is_ipv4());
    match (interface, source) {
        (Some(interface), Some(source)) => {
            Ok(NextHop { interface, address: gateway.unwrap_or(destination), source })
        }
        _ => Err(malformed(Malformed)),
    }
}

/// `struct rtvia`: a family, then an address of it.
fn via(value: &[u8]) -> Result<IpAddr, Malformed> {
    let (_family, address) = value.split_first_chunk::<2>().ok_or(Malformed)?;
    netlink::address(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::answer;

    const DESTINATION: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));

    fn parsed(kind: u8, attributes: &[(u16, &[u8])]) -> Result<NextHop, NextHopError> {
        let mut fixed = [0; FIXED_BYTES];
        fixed[7] = kind;
        parse(&Message::parse(&answer(libc::RTM_NEWROUTE, &fixed, attributes)).unwrap(), DESTINATION)
    }

    #[test]
    fn a_destination_is_its_own_next_hop_unless_there_is_a_router() {
        let index = 5_u32.to_ne_bytes();
        let mut attributes: Vec<(u16, &[u8])> =
            vec![(libc::RTA_OIF, &index), (libc::RTA_PREFSRC, &[10, 0, 0, 1])];
        let hop = parsed(libc::RTN_UNICAST, &attributes).unwrap();
        let source = "10.0.0.1".parse().unwrap();
        assert_eq!(hop, NextHop { interface: InterfaceIndex::new(5), address: DESTINATION, source });
        attributes.push((libc::RTA_GATEWAY, &[10, 0, 0, 254]));
        assert_eq!(parsed(libc::RTN_UNICAST, &attributes).unwrap().address, IpAddr::from([10, 0, 0, 254]));
        let six = [&[10, 0], &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..]].concat();
        attributes[2] = (VIA, &six);
        assert_eq!(
            parsed(libc::RTN_UNICAST, &attributes).unwrap().address,
            "fe80::1".parse::<IpAddr>().unwrap()
        );
    }

    #[test]
    fn what_is_not_one_other_machine_has_no_next_hop() {
        for kind in [libc::RTN_LOCAL, libc::RTN_BROADCAST, libc::RTN_MULTICAST] {
            assert!(matches!(parsed(kind, &[]), Err(NextHopError::NotUnicast)));
        }
        assert!(matches!(parsed(libc::RTN_BLACKHOLE, &[]), Err(NextHopError::Unreachable(_))));
    }

    #[test]
    fn what_is_missing_or_of_another_length_is_malformed() {
        let index = 5_u32.to_ne_bytes();
        let six = [0; 16];
        let cases: [&[(u16, &[u8])]; 5] = [
            &[],
            &[(libc::RTA_OIF, &index)],
            &[(libc::RTA_OIF, &[1, 2]), (libc::RTA_PREFSRC, &[10, 0, 0, 1])],
            &[(libc::RTA_OIF, &index), (libc::RTA_PREFSRC, &[10, 0, 0])],
            &[(libc::RTA_OIF, &index), (libc::RTA_PREFSRC, &six)],
        ];
        for attributes in cases {
            assert!(matches!(parsed(libc::RTN_UNICAST, attributes), Err(NextHopError::Kernel(_))));
        }
    }
}
