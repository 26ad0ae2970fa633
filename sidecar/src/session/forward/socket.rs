//! A local socket of either family, moving bytes without waiting.

use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll, Waker};

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{Shutdown, shutdown};
use tokio::net::{TcpStream, UnixStream};

/// An application's end of a pipe. Dropped, or lost with this process, it is reset, so that an application never takes a
/// cut for an end; [`Socket::close`] ends it well.
///
/// Linux has no reset for unix sockets: there, the application's next write fails, and its reads end.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What one attempt to move bytes did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    Bytes(usize),
    /// The application has ended its direction.
    Ended,
    /// Nothing now; [`Socket::is_readable`] or [`Socket::is_writable`] tells when.
    Blocked,
    /// The application is gone.
    Broken,
}

impl Socket {
    pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
        // What the application hands over in one piece goes on at once.
        stream.set_nodelay(true)?;
        stream.set_zero_linger()?;
        Ok(Self::Tcp(stream))
    }

    pub(super) const fn unix(stream: UnixStream) -> Self {
        Self::Unix(stream)
    }

    /// Reads into `into`, which must not be empty.
    pub(super) fn take(&self, into: &mut [u8]) -> Moved {
        match retried(|| match self {
            Self::Tcp(stream) => stream.try_read(into),
            Self::Unix(stream) => stream.try_read(into),
        }) {
            Moved::Bytes(0) => Moved::Ended,
            moved => moved,
        }
    }

    /// Writes what fits.
    pub(super) fn put(&self, bytes: &[u8]) -> Moved {
        retried(|| match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        })
    }

    /// Whether there may be bytes to take; if not, `waker` is woken when there may be.
    pub(super) fn is_readable(&self, waker: &Waker) -> bool {
        let context = &mut Context::from_waker(waker);
        is_ready(match self {
            Self::Tcp(stream) => stream.poll_read_ready(context),
            Self::Unix(stream) => stream.poll_read_ready(context),
        })
    }

    /// Whether there may be room; if not, `waker` is woken when there may be.
    pub(super) fn is_writable(&self, waker: &Waker) -> bool {
        let context = &mut Context::from_waker(waker);
        is_ready(match self {
            Self::Tcp(stream) => stream.poll_write_ready(context),
            Self::Unix(stream) => stream.poll_write_ready(context),
        })
    }

    /// Ends the direction towards the application.
    pub(super) fn end(&self) -> io::Result<()> {
        Ok(match self {
            Self::Tcp(stream) => shutdown(stream.as_fd(), Shutdown::Write),
            Self::Unix(stream) => shutdown(stream.as_fd(), Shutdown::Write),
        }?)
    }

    /// Both directions have come to their ends: what the application has not read yet is still delivered.
    pub(super) fn close(self) {
        if let Self::Tcp(stream) = &self {
            // An application that is gone already needs no end.
            let _ = set_socket_linger(stream.as_fd(), None);
        }
    }
}

fn retried(mut attempt: impl FnMut() -> io::Result<usize>) -> Moved {
    loop {
        match attempt() {
            Ok(bytes) => return Moved::Bytes(bytes),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Moved::Blocked,
            Err(_) => return Moved::Broken,
        }
    }
}

/// A socket with an error is ready: the attempt tells of it.
fn is_ready(poll: Poll<io::Result<()>>) -> bool {
    poll.is_ready()
}
