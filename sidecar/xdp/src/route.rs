//! The headers of packets to one peer.

use std::net::SocketAddr;

use crate::interface::Interface;
use crate::packet::{Head, MacAddress};

/// How packets of one interface reach one peer: both ends' addresses, and the MAC address they are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    head: Head,
    from: SocketAddr,
    to: SocketAddr,
    mac: MacAddress,
}

/// Why packets cannot be sent so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Caller: one end is IPv4 and the other IPv6.
    #[error("the two ends are not of one address family")]
    Families,
    /// Caller: no packet is sent from or to all addresses, a group, or port 0.
    #[error("an end is not the address and port of one machine")]
    Unspecified,
    /// Caller: a MAC address of a group, or of nobody.
    #[error("the MAC address is not that of one interface")]
    Mac,
}

impl Route {
    /// Packets from `from` of the interface to `to`, by way of the machine with this MAC address: that of an
    /// authenticated peer's last packet, or that of the next hop.
    pub fn to(
        interface: &Interface,
        from: SocketAddr,
        to: SocketAddr,
        mac: MacAddress,
    ) -> Result<Self, RouteError> {
        let names_one =
            |end: SocketAddr| !end.ip().is_unspecified() && !end.ip().is_multicast() && end.port() != 0;
        if !names_one(from) || !names_one(to) {
            return Err(RouteError::Unspecified);
        }
        if !mac.is_unicast() {
            return Err(RouteError::Mac);
        }
        let head = Head::new(interface.mac, from, mac, to).map_err(|_| RouteError::Families)?;
        Ok(Self { head, from, to, mac })
    }

    #[must_use]
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.to
    }

    #[must_use]
    pub fn mac(&self) -> MacAddress {
        self.mac
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::interface::InterfaceIndex;

    pub(crate) fn interface(mtu: u32) -> Interface {
        Interface {
            name: "test".to_owned(),
            index: InterfaceIndex::new(1),
            mac: MacAddress::new([2, 0, 0, 0, 0, 1]),
            mtu,
            driver: String::new(),
            queues: 1,
        }
    }

    #[test]
    fn a_route_leads_from_one_machine_to_one_other() {
        let mac = MacAddress::new([2, 0, 0, 0, 0, 2]);
        let attempt = |from: &str, to: &str, mac| {
            Route::to(&interface(1500), from.parse().unwrap(), to.parse().unwrap(), mac).map(|_| ())
        };
        assert_eq!(attempt("10.0.0.1:1", "10.0.0.2:2", mac), Ok(()));
        assert_eq!(attempt("10.0.0.1:1", "[fd00::2]:2", mac), Err(RouteError::Families));
        for (from, to) in
            [("0.0.0.0:1", "10.0.0.2:2"), ("10.0.0.1:0", "10.0.0.2:2"), ("10.0.0.1:1", "224.0.0.1:2")]
        {
            assert_eq!(attempt(from, to, mac), Err(RouteError::Unspecified));
        }
        assert_eq!(attempt("10.0.0.1:1", "10.0.0.2:2", MacAddress::new([0xff; 6])), Err(RouteError::Mac));
    }
}
