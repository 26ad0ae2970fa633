//! A network interface: what has to be known of it before a link is opened.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use crate::netlink::{self, Message, Netlink, Request};
use crate::packet::MacAddress;
use crate::sys::ethtool;

/// `struct ifinfomsg` (linux/rtnetlink.h)
const FIXED_BYTES: usize = 16;
/// `IFLA_NUM_RX_QUEUES` (linux/if_link.h)
const RECEIVE_QUEUES: u16 = 32;

/// The number by which the kernel knows an interface, in one network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterfaceIndex(u32);

impl InterfaceIndex {
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// An Ethernet interface of the network namespace of the thread that asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub index: InterfaceIndex,
    pub mac: MacAddress,
    /// Bytes of the longest IP packet.
    pub mtu: u32,
    /// As `ethtool -i` names it, such as `ice` or `veth`.
    pub driver: String,
    /// Queues that receive.
    pub queues: u32,
}

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// Caller: there is no interface of this name in this network namespace.
    #[error("there is no such interface")]
    Unknown,
    /// Caller: it has no MAC address, such as a tunnel or loopback.
    #[error("the interface is no Ethernet")]
    NotEthernet,
    /// Environment: the kernel did not say what it should.
    #[error("the kernel did not answer about the interface")]
    Kernel(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Interface {
    /// Looks an interface up by its name.
    pub fn named(name: &str) -> Result<Self, InterfaceError> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(InterfaceError::Unknown);
        }
        let mut zero_ended = name.as_bytes().to_vec();
        zero_ended.push(0);
        let request = Request::new(libc::RTM_GETLINK, &[0; FIXED_BYTES])
            .attribute(libc::IFLA_IFNAME, &zero_ended)
            // Without it the kernel tells of every virtual function too.
            .attribute(libc::IFLA_EXT_MASK, &0_u32.to_ne_bytes());
        let mut netlink = Netlink::open().map_err(kernel)?;
        let message = netlink
            .ask(&request)
            .map_err(|error| if error.is(libc::ENODEV) { InterfaceError::Unknown } else { kernel(error) })?;
        let link = Link::parse(&message)?;
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(kernel)?;
        let driver =
            ethtool::driver(socket.as_fd(), name).or_else(unsupported_is(String::new())).map_err(kernel)?;
        let queues = ethtool::queues(socket.as_fd(), name).or_else(unsupported_is(0)).map_err(kernel)?;
        // Drivers without channels have as many queues as they were made with.
        let queues = if queues == 0 { link.queues.max(1) } else { queues };
        Ok(Self { name: name.to_owned(), index: link.index, mac: link.mac, mtu: link.mtu, driver, queues })
    }
}

/// What netlink says of an interface.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    index: InterfaceIndex,
    mac: MacAddress,
    mtu: u32,
    queues: u32,
}

impl Link {
    fn parse(message: &Message<'_>) -> Result<Self, InterfaceError> {
        let malformed = || kernel(netlink::Malformed);
        if message.kind != libc::RTM_NEWLINK {
            return Err(malformed());
        }
        let (fixed, attributes) = message.split::<FIXED_BYTES>().map_err(kernel)?;
        let [_, _, kind_low, kind_high, a, b, c, d, ..] = *fixed;
        if u16::from_ne_bytes([kind_low, kind_high]) != libc::ARPHRD_ETHER {
            return Err(InterfaceError::NotEthernet);
        }
        let (mut mac, mut mtu, mut queues) = (None, None, 0);
        for attribute in attributes {
            let (kind, value) = attribute.map_err(kernel)?;
            match kind {
                libc::IFLA_ADDRESS => mac = <[u8; 6]>::try_from(value).ok().map(MacAddress::new),
                libc::IFLA_MTU => mtu = Some(netlink::integer(value).map_err(kernel)?),
                RECEIVE_QUEUES => queues = netlink::integer(value).map_err(kernel)?,
                _ => {}
            }
        }
        let index = InterfaceIndex(u32::from_ne_bytes([a, b, c, d]));
        let mac = mac.filter(|mac| mac.is_unicast()).ok_or(InterfaceError::NotEthernet)?;
        Ok(Self { index, mac, mtu: mtu.ok_or_else(malformed)?, queues })
    }
}

fn kernel(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> InterfaceError {
    InterfaceError::Kernel(error.into())
}

/// Drivers need not answer `ethtool`.
fn unsupported_is<T>(value: T) -> impl FnOnce(io::Error) -> io::Result<T> {
    move |error| if error.raw_os_error() == Some(libc::EOPNOTSUPP) { Ok(value) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::answer;

    fn parse(kind: u16, attributes: &[(u16, &[u8])]) -> Result<Link, InterfaceError> {
        let mut fixed = [0; FIXED_BYTES];
        fixed[2..4].copy_from_slice(&kind.to_ne_bytes());
        fixed[4..8].copy_from_slice(&9_u32.to_ne_bytes());
        Link::parse(&Message::parse(&answer(libc::RTM_NEWLINK, &fixed, attributes)).unwrap())
    }

    #[test]
    fn reads_what_the_kernel_says() {
        let (mac, mtu, queues) = ([2, 0, 0, 0, 0, 9], 9000_u32.to_ne_bytes(), 4_u32.to_ne_bytes());
        let all: [(u16, &[u8]); 3] =
            [(libc::IFLA_ADDRESS, &mac), (libc::IFLA_MTU, &mtu), (RECEIVE_QUEUES, &queues)];
        let link = parse(libc::ARPHRD_ETHER, &all).unwrap();
        assert_eq!(link, Link { index: InterfaceIndex(9), mac: MacAddress::new(mac), mtu: 9000, queues: 4 });
        assert!(matches!(parse(libc::ARPHRD_LOOPBACK, &all), Err(InterfaceError::NotEthernet)));
        assert!(matches!(parse(libc::ARPHRD_ETHER, &all[1..]), Err(InterfaceError::NotEthernet)));
        assert!(matches!(parse(libc::ARPHRD_ETHER, &all[..1]), Err(InterfaceError::Kernel(_))));
        let short: [(u16, &[u8]); 2] = [(libc::IFLA_ADDRESS, &mac), (libc::IFLA_MTU, &[1, 2])];
        assert!(matches!(parse(libc::ARPHRD_ETHER, &short), Err(InterfaceError::Kernel(_))));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no netlink")]
    fn knows_what_is_no_ethernet_and_what_is_not_there() {
        assert!(matches!(Interface::named("lo"), Err(InterfaceError::NotEthernet)));
        for name in ["", "no-such-thing", "a-name-that-is-too-long-for-linux", "nul\0"] {
            assert!(matches!(Interface::named(name), Err(InterfaceError::Unknown)), "{name}");
        }
    }
}
