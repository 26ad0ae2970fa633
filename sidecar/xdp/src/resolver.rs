//! From an address to a route: the kernel's routing table, then its neighbours.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use crate::interface::Interface;
use crate::neighbour::{self, Neighbour};
use crate::netlink::Netlink;
use crate::next_hop::{self, NextHop, NextHopError};
use crate::route::{Route, RouteError};

/// Where provoking datagrams go: the port of the discard service (RFC 863), which nobody serves.
const DISCARD_PORT: u16 = 9;

/// Asks the kernel, in the network namespace of the thread that opened it. It needs no capability.
#[derive(Debug)]
pub struct Resolver {
    netlink: Netlink,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    Route(Route),
    /// The next hop has been asked for its MAC address: ask again in some milliseconds.
    Unresolved,
}

/// Why there is no route.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// Environment: netlink is not to be had.
    #[error("no netlink socket")]
    Socket(#[source] io::Error),
    #[error(transparent)]
    NextHop(#[from] NextHopError),
    /// Environment: packets to there leave by another interface, which this link cannot send on.
    #[error("the route leaves by another interface")]
    OtherInterface(NextHop),
    /// Environment: the kernel did not say what it should.
    #[error("the kernel did not answer about the neighbour")]
    Neighbour(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Route(#[from] RouteError),
}

impl Resolver {
    pub fn open() -> Result<Self, ResolveError> {
        Ok(Self { netlink: Netlink::open().map_err(ResolveError::Socket)? })
    }

    /// The way that the kernel's packets to `destination` take.
    pub fn next_hop(&mut self, destination: IpAddr) -> Result<NextHop, NextHopError> {
        next_hop::find(&mut self.netlink, destination)
    }

    /// The route from `port` of the address that the kernel would choose to `destination`.
    pub fn resolve(
        &mut self,
        interface: &Interface,
        port: u16,
        destination: SocketAddr,
    ) -> Result<Resolution, ResolveError> {
        let hop = self.next_hop(destination.ip())?;
        if hop.interface != interface.index {
            return Err(ResolveError::OtherInterface(hop));
        }
        let found = neighbour::find(&mut self.netlink, hop.interface, hop.address);
        let mac = match found.map_err(|error| ResolveError::Neighbour(error.into()))? {
            Neighbour::Fresh(mac) => mac,
            Neighbour::Stale(mac) => {
                // Packets of AF_XDP do not pass by the neighbour table: nothing else would make the kernel look again.
                provoke(&hop);
                mac
            }
            Neighbour::Unknown => {
                provoke(&hop);
                return Ok(Resolution::Unresolved);
            }
        };
        Ok(Resolution::Route(Route::to(interface, SocketAddr::new(hop.source, port), destination, mac)?))
    }
}

/// Makes the kernel ask for the next hop's MAC address, by an empty datagram. Whether it could be sent is of no interest:
/// the next lookup tells whether there was an answer.
fn provoke(hop: &NextHop) {
    let (local, remote) = match hop.address {
        IpAddr::V4(address) => {
            (SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), SocketAddr::from((address, DISCARD_PORT)))
        }
        // Addresses of a link need to be told which.
        IpAddr::V6(address) => (
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            SocketAddrV6::new(address, DISCARD_PORT, 0, hop.interface.number()).into(),
        ),
    };
    let _ = UdpSocket::bind(local).and_then(|socket| socket.send_to(&[], remote));
}
