//! Opening a listening socket for the data and admin ports.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

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

fn in_use(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied)
}
