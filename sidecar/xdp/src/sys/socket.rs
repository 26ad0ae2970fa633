//! Sockets, as far as the standard library does not reach.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::plain::Plain;

/// Opens a socket that programs started later do not inherit.
pub(crate) fn open(domain: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let descriptor = checked(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the call above has just made this descriptor, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

pub(crate) fn set_option<T: Plain>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let pointer = std::ptr::from_ref(value).cast();
    // SAFETY: the pointer and the length are those of `value`, which outlives the call.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, pointer, length_of::<T>()) })?;
    Ok(())
}

/// Reads an option. An answer of another length is that of a kernel with another structure, and an error.
pub(crate) fn option<T: Plain>(socket: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<T> {
    let mut value = T::zeroed();
    let mut length = length_of::<T>();
    let pointer = std::ptr::from_mut(&mut value).cast();
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `value`; any bytes are a `T`.
    checked(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, pointer, &raw mut length) })?;
    if length != length_of::<T>() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(value)
}

/// Binds to an address structure that begins with its family.
pub(crate) fn bind<A: Plain>(socket: BorrowedFd<'_>, address: &A) -> io::Result<()> {
    let pointer = std::ptr::from_ref(address).cast();
    // SAFETY: the pointer and the length are those of `address`, which outlives the call.
    checked(unsafe { libc::bind(socket.as_raw_fd(), pointer, length_of::<A>()) })?;
    Ok(())
}

/// Connects to an address structure that begins with its family.
pub(crate) fn connect<A: Plain>(socket: BorrowedFd<'_>, address: &A) -> io::Result<()> {
    let pointer = std::ptr::from_ref(address).cast();
    // SAFETY: the pointer and the length are those of `address`, which outlives the call.
    checked(unsafe { libc::connect(socket.as_raw_fd(), pointer, length_of::<A>()) })?;
    Ok(())
}

/// Sends the bytes, all or none. An empty message tells an AF_XDP socket that its transmit ring has something.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let pointer = bytes.as_ptr().cast();
    // SAFETY: the pointer and the length are those of `bytes`, which the kernel only reads.
    let sent = unsafe { libc::send(socket.as_raw_fd(), pointer, bytes.len(), libc::MSG_DONTWAIT) };
    counted(sent)?;
    Ok(())
}

/// Receives one message without waiting. What does not fit is an error, never a shorter message.
pub(crate) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<usize> {
    let pointer = into.as_mut_ptr().cast();
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the kernel writes at most `into.len()` bytes at the beginning of `into`.
    let received = counted(unsafe { libc::recv(socket.as_raw_fd(), pointer, into.len(), flags) })?;
    if received > into.len() {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(received)
}

/// Tells an AF_XDP socket that its fill ring has frames again.
pub(crate) fn nudge(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (nowhere, flags) = (std::ptr::null_mut(), libc::MSG_DONTWAIT);
    // SAFETY: no memory is passed: the length is zero.
    counted(unsafe { libc::recv(socket.as_raw_fd(), nowhere, 0, flags) })?;
    Ok(())
}

/// Waits until something can be received; false when `timeout` has passed or a signal came first. A socket that only has
/// an error to tell is an error: who waits for it would not wait.
pub(crate) fn wait(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let milliseconds = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: one entry is passed, and it outlives the call.
    match checked(unsafe { libc::poll(&raw mut entry, 1, milliseconds) }) {
        Ok(0) => Ok(false),
        Ok(_) if entry.revents & libc::POLLIN != 0 => Ok(true),
        Ok(_) => Err(io::ErrorKind::NetworkDown.into()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

fn length_of<T>() -> libc::socklen_t {
    const { assert!(size_of::<T>() <= 4096, "kernel structures are small") };
    size_of::<T>() as libc::socklen_t
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn counted(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
