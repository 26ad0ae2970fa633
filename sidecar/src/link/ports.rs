//! The data port: TCP, UDP, and a network device beside it if that was asked for. It is opened before any thread is
//! started, because what opening a device needs is dropped by one thread at a time.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use super::listen::bind_both;
use super::udp::widen;
use super::xdp::{Device, DeviceError, OpenDevice};

/// See the module's documentation.
#[derive(Debug)]
pub struct Ports {
    pub(crate) address: SocketAddr,
    pub(crate) listener: TcpListener,
    pub(crate) socket: UdpSocket,
    pub(crate) device: Result<OpenDevice, DeviceError>,
}

impl Ports {
    /// Opens what is at `address`. A device that cannot be had is no error: UDP carries sessions in its place.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open(address: SocketAddr, device: Option<&Device>, own: &[IpAddr]) -> io::Result<Self> {
        let (listener, socket) = bind_both(address)?;
        widen(&socket);
        let address = listener.local_addr()?;
        let device = device.ok_or(DeviceError::NotAsked).and_then(|device| device.open(own, address.port()));
        Ok(Self { address, listener, socket, device })
    }
}
