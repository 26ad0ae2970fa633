//! Packets over `AF_UNIX` `SOCK_SEQPACKET`, and descriptors going out. None comes in: without a control buffer the
//! kernel closes what a client passes.

use std::fs;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net;
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

use super::DoorError;
use super::limits::MESSAGE_BYTES_MAX;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 64;
/// Every container of the pod may use the door, whatever user it runs as.
const MODE: u32 = 0o666;

/// The listening socket. Its path goes away with it.
///
/// tokio's `UnixListener` and `UnixStream` only register the descriptor with the reactor here: what they say about
/// streams does not apply to packets, and all transfer goes through rustix.
#[derive(Debug)]
pub(super) struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

/// One client's packets.
#[derive(Debug)]
pub(super) struct Socket {
    socket: UnixStream,
}

fn open(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// Listens on `path`, which every container of the pod may use.
pub(super) fn listen(path: &Path, kind: SocketType) -> Result<UnixListener, DoorError> {
    clear_stale(path)?;
    let failed = |source| DoorError::Listen { path: path.to_owned(), source };
    let listen = || -> io::Result<UnixListener> {
        let socket = open(kind)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
        rustix::net::listen(&socket, BACKLOG)?;
        UnixListener::from_std(net::UnixListener::from(socket))
    };
    listen().map_err(failed)
}

impl Listener {
    pub(super) fn bind(path: &Path) -> Result<Self, DoorError> {
        Ok(Self { socket: listen(path, SocketType::SEQPACKET)?, path: path.to_owned() })
    }

    /// Cancel safe.
    pub(super) async fn accept(&self) -> io::Result<Socket> {
        let (socket, _) = self.socket.accept().await?;
        Ok(Socket { socket })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // It may be gone already, and nobody is left to care.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes what a killed sidecar left behind; a living one keeps its door.
fn clear_stale(path: &Path) -> Result<(), DoorError> {
    let failed = |source| DoorError::Listen { path: path.to_owned(), source };
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if !kind.is_socket() {
        return Err(DoorError::NotASocket { path: path.to_owned() });
    }
    // A socket of another type answers otherwise than one that nobody listens on.
    let probe = open(SocketType::SEQPACKET).map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
    match rustix::net::connect(&probe, &address) {
        Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path).map_err(failed),
        _ => Err(DoorError::Taken(path.to_owned())),
    }
}

impl Socket {
    /// The next packet's length; 0 when the client left. A length beyond `buffer` is a packet that was cut off.
    /// Cancel safe.
    pub(super) async fn receive(&self, buffer: &mut [u8; MESSAGE_BYTES_MAX]) -> io::Result<usize> {
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let receive = || {
            let (_, length) = rustix::net::recv(&self.socket, &mut buffer[..], flags)?;
            Ok(length)
        };
        self.socket.async_io(Interest::READABLE, receive).await
    }

    /// Sends one packet whole, waiting while the client's queue is full. Cancel safe: it is sent whole or not at all.
    pub(super) async fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.socket.async_io(Interest::WRITABLE, || self.send_now(packet)).await
    }

    /// Sends one packet if the client's queue has room, for a last word that nobody waits for.
    pub(super) fn send_now(&self, packet: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.socket, packet, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// As [`Socket::send`], with a descriptor.
    pub(super) async fn send_with(&self, packet: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [descriptor];
            if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            rustix::net::sendmsg(&self.socket, &[IoSlice::new(packet)], &mut control, flags)?;
            Ok(())
        };
        self.socket.async_io(Interest::WRITABLE, send).await
    }
}
