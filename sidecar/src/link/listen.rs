//! Opening listening sockets for the data and admin ports.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

/// Ports that are tried where any will do.
const TRIES_MAX: u32 = 16;

/// Listens without blocking. The IPv6 wildcard takes IPv4 too; where there is no IPv6 it becomes the IPv4 wildcard.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = match TcpListener::bind(address) {
        Err(error) if address.ip().is_unspecified() && address.is_ipv6() && !in_use(&error) => {
            TcpListener::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()))
        }
        other => other,
    }?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Listens for TCP and UDP on one port. Where any port will do, one is taken that both have.
pub(crate) fn bind_both(address: SocketAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut tries = 0;
    loop {
        let listener = bind(address)?;
        match UdpSocket::bind(listener.local_addr()?) {
            Ok(socket) => return Ok((listener, socket)),
            Err(error) if address.port() == 0 && in_use(&error) && tries < TRIES_MAX => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

fn in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
}
