//! Local addresses of forwards: a port on loopback, or a unix socket where loopback is the node's.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use sealane_types::ForwardPort;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;

use super::socket::Socket;
use crate::volume;

/// TCP connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 1024;
/// How long a server whose own backlog is full may take.
const REACH_DEADLINE: Duration = Duration::from_secs(10);
/// Every container of the pod may connect, whatever user it runs as.
const SOCKET_MODE: u32 = 0o666;
/// Every container of the pod may put its server's socket there.
const TARGETS_MODE: u32 = 0o777;

/// Where an application's end of a forward is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Port(ForwardPort),
    Path(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "127.0.0.1:{port}"),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl Address {
    /// Connects to a server of this pod.
    ///
    /// # Errors
    /// Nothing accepts connections there.
    pub(super) async fn reach(&self) -> io::Result<Socket> {
        let reach = async {
            match self {
                Self::Port(port) => reach_port(*port).await,
                Self::Path(path) => reach_path(path).await,
            }
        };
        timeout(REACH_DEADLINE, reach).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// IPv6 loopback as well: servers told to listen on `localhost` may have chosen it.
async fn reach_port(port: ForwardPort) -> io::Result<Socket> {
    let dial = async |ip: IpAddr| {
        let stream = TcpStream::connect((ip, port.number())).await?;
        if stream.local_addr()? == stream.peer_addr()? {
            // With nobody listening, the kernel may give the socket this very port, and it meets itself.
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Socket::tcp(stream)
    };
    match dial(Ipv4Addr::LOCALHOST.into()).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            dial(Ipv6Addr::LOCALHOST.into()).await.map_err(|_| error)
        }
        outcome => outcome,
    }
}

/// Containers of the pod can put anything at `path`; only a socket that lies there itself is connected to, so that no link
/// leads to one that only this process may use.
async fn reach_path(path: &Path) -> io::Result<Socket> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let plain = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(directory, plain | OFlags::DIRECTORY, Mode::empty())?;
    let socket = openat(&directory, name, plain, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&socket)?.st_mode) != FileType::Socket {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a socket"));
    }
    let held = format!("/proc/self/fd/{}", socket.as_raw_fd());
    UnixStream::connect(held).await.map(Socket::unix)
}

/// Makes the directory in which servers of this pod put their sockets.
///
/// # Errors
/// It cannot be made.
pub(super) fn make_targets(directory: &Path) -> io::Result<()> {
    make(directory, TARGETS_MODE)
}

fn make(directory: &Path, mode: u32) -> io::Result<()> {
    match fs::DirBuilder::new().mode(mode).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    let found = fs::symlink_metadata(directory)?;
    if !found.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory"));
    }
    if found.permissions().mode() & 0o777 == mode {
        // A volume of its own is somebody else's, whose mode this process cannot set and need not.
        return Ok(());
    }
    // The mode that it was made with is subject to the process's mask.
    fs::set_permissions(directory, fs::Permissions::from_mode(mode))
}

/// Listens for applications.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    /// With its path, and the socket that lies there, which goes away with it.
    Unix(UnixListener, PathBuf, FileId),
}

/// A file, whatever it is called: its device and its number there.
type FileId = (u64, u64);

impl Listener {
    /// # Errors
    /// The address is taken, or cannot be listened on.
    pub(super) fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Port(port) => {
                let socket = TcpSocket::new_v4()?;
                socket.set_reuseaddr(true)?;
                socket.bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.number()))?;
                socket.listen(BACKLOG).map(Self::Tcp)
            }
            Address::Path(path) => {
                if let Some(directory) = path.parent() {
                    make(directory, 0o755)?;
                }
                // This directory is the sidecar's own: what lies there is of an earlier run.
                volume::remove(path)?;
                let listener = UnixListener::bind(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
                Ok(Self::Unix(listener, path.clone(), file_id(path)?))
            }
        }
    }

    /// Cancel safe.
    pub(super) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => listener.accept().await.and_then(|(stream, _)| Socket::tcp(stream)),
            Self::Unix(listener, ..) => listener.accept().await.map(|(stream, _)| Socket::unix(stream)),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path, bound) = self
            && file_id(path).is_ok_and(|found| found == *bound)
        {
            // It may be gone already, and nobody is left to care.
            let _ = fs::remove_file(path);
        }
    }
}

fn file_id(path: &Path) -> io::Result<FileId> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_takes_only_its_own_socket_away() {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Path(directory.path().join("forward/inference.sock"));
        let older = Listener::bind(&address).unwrap();
        let newer = Listener::bind(&address).unwrap();
        drop(older);
        address.reach().await.unwrap();
        drop(newer);
        assert_eq!(address.reach().await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_volume_that_lies_in_the_place_of_targets_is_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        // As the kubelet makes one for a pod with an fsGroup.
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o2777)).unwrap();
        make_targets(place.path()).unwrap();
        assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o7777, 0o2777);
    }

    #[test]
    fn targets_are_made_for_every_user_and_not_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let (made, link) = (place.path().join("target"), place.path().join("link"));
        make_targets(&made).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, TARGETS_MODE);
        std::os::unix::fs::symlink(&made, &link).unwrap();
        assert!(make_targets(&link).is_err());
    }
}
