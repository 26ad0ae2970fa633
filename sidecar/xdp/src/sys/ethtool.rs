//! What a network driver says about itself: `SIOCETHTOOL` (linux/sockios.h, linux/ethtool.h).

use std::ffi::c_char;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `ETHTOOL_GDRVINFO`
const DRIVER_INFORMATION: u32 = 0x0000_0003;
/// `ETHTOOL_GCHANNELS`
const CHANNELS: u32 = 0x0000_003c;

/// `struct ethtool_drvinfo`
#[repr(C)]
struct DriverInformation {
    command: u32,
    driver: [u8; 32],
    other: [u8; 160],
}

const _: () = assert!(size_of::<DriverInformation>() == 196, "linux/ethtool.h");

/// `struct ethtool_channels`
#[repr(C)]
struct Channels {
    command: u32,
    receive_max: u32,
    transmit_max: u32,
    other_max: u32,
    combined_max: u32,
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// A structure that `SIOCETHTOOL` reads and writes.
///
/// # Safety
/// The structure consists of integers and begins with a command for which the kernel writes no more bytes than it has.
unsafe trait Request {}

// SAFETY: integers; `driver` is the only place that makes one, with its own command.
unsafe impl Request for DriverInformation {}
// SAFETY: integers; `queues` is the only place that makes one, with its own command.
unsafe impl Request for Channels {}

/// The driver's name, such as `ice` or `veth`.
pub(crate) fn driver(socket: BorrowedFd<'_>, interface: &str) -> io::Result<String> {
    let mut information = DriverInformation { command: DRIVER_INFORMATION, driver: [0; 32], other: [0; 160] };
    ask(socket, interface, &mut information)?;
    let name = information.driver.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// How many queues receive now. Drivers without channels answer that they do not support the question.
pub(crate) fn queues(socket: BorrowedFd<'_>, interface: &str) -> io::Result<u32> {
    let mut channels = Channels {
        command: CHANNELS,
        receive_max: 0,
        transmit_max: 0,
        other_max: 0,
        combined_max: 0,
        receive: 0,
        transmit: 0,
        other: 0,
        combined: 0,
    };
    ask(socket, interface, &mut channels)?;
    Ok(channels.receive.saturating_add(channels.combined))
}

/// `struct ifreq` (linux/if.h) with a pointer as its data.
#[repr(C)]
struct InterfaceRequest<R> {
    name: [c_char; libc::IFNAMSIZ],
    data: *mut R,
    unused: [u8; 16],
}

fn ask<R: Request>(socket: BorrowedFd<'_>, interface: &str, request: &mut R) -> io::Result<()> {
    const { assert!(size_of::<InterfaceRequest<R>>() >= size_of::<libc::ifreq>()) };
    let mut name: [c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
    if interface.len() >= name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (into, byte) in name.iter_mut().zip(interface.bytes()) {
        *into = c_char::from_ne_bytes([byte]);
    }
    let mut question = InterfaceRequest { name, data: std::ptr::from_mut(request), unused: [0; 16] };
    let pointer = &raw mut question;
    // SAFETY: `pointer` is at least an `ifreq` with a name that ends in zero, and `Request` answers for what its data
    // points to.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, pointer) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
