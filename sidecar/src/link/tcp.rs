//! One TCP connection: dialling, and moving bytes without waiting.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;

/// Longest wait for one address.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// Dials the addresses in turn; the first that answers is used.
pub(crate) async fn dial(addresses: &[SocketAddr]) -> io::Result<Link> {
    let mut last = io::Error::new(io::ErrorKind::AddrNotAvailable, "no address is known");
    let began = Instant::now();
    for address in addresses {
        match tokio::time::timeout(CONNECT_DEADLINE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(Link { dialled: Some(began.elapsed()), ..Link::new(stream)? }),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// What one attempt to move bytes did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    Bytes(usize),
    /// The socket has no bytes, or no room; [`Link::ready`] tells when.
    Blocked,
    /// The other side is gone.
    Cut,
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    /// How long dialling took.
    dialled: Option<Duration>,
}

impl Link {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        // Batches are made above; the kernel shall not wait for more.
        stream.set_nodelay(true)?;
        Ok(Self { stream, dialled: None })
    }

    /// How long dialling took; none for a link that was accepted.
    pub(crate) fn dialled(&self) -> Option<Duration> {
        self.dialled
    }

    pub(crate) fn take(&self, into: &mut [u8]) -> Moved {
        moved(self.stream.try_read(into))
    }

    pub(crate) fn put(&self, bytes: &[u8]) -> Moved {
        moved(self.stream.try_write(bytes))
    }

    /// Waits until bytes can be taken, or put if `writing`.
    pub(crate) async fn ready(&self, writing: bool) -> io::Result<Ready> {
        let interest = if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.stream.ready(interest).await
    }
}

/// An end of file and an error say the same: whether it was meant is for the authenticated close to tell.
fn moved(result: io::Result<usize>) -> Moved {
    match result {
        Ok(0) => Moved::Cut,
        Ok(bytes) => Moved::Bytes(bytes),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Moved::Blocked
        }
        Err(_) => Moved::Cut,
    }
}
