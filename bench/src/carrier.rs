//! What carries bytes between two ends on this machine: memory, a TCP connection, or datagrams.

mod handed;
mod spinning;

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;

pub(crate) use handed::Handed;
use spinning::Spinning;

use crate::cores::{Core, Cores};
use crate::queue::Queue;

/// Bytes that memory between two ends holds: more than any batch, so that both ends work at the same time.
const MEMORY_BYTES: usize = 2 << 20;

/// Where two ends meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    Memory,
    /// Buffers that one end fills and the other takes over.
    Handed,
    Loopback,
    /// TCP over loopback, whose ends look all the time and never sleep, each on a core of its own.
    Spinning(Cores),
    /// UDP over loopback.
    Datagrams,
}

/// One end before it belongs to a runtime.
#[derive(Debug)]
pub(crate) enum Plug {
    Memory(DuplexStream),
    /// For contenders that take buffers as they are.
    Handed(Handed),
    Tcp(std::net::TcpStream),
    /// The thread that opens it stays on this core.
    Spinning(std::net::TcpStream, Core),
    /// For contenders that make a stream of datagrams themselves.
    Udp {
        socket: UdpSocket,
        remote: SocketAddr,
    },
    /// As well, past the kernel's sockets.
    Queue(Box<Queue>),
}

/// One end that reads and writes.
#[derive(Debug)]
pub(crate) enum Carrier {
    Memory(DuplexStream),
    Tcp(TcpStream),
    Spinning(Spinning),
}

impl Path {
    /// Two ends that are connected with each other.
    pub(crate) fn connect(self) -> io::Result<(Plug, Plug)> {
        match self {
            Self::Memory => {
                let (one, other) = tokio::io::duplex(MEMORY_BYTES);
                Ok((Plug::Memory(one), Plug::Memory(other)))
            }
            Self::Handed => {
                let (one, other) = Handed::pair();
                Ok((Plug::Handed(one), Plug::Handed(other)))
            }
            Self::Loopback => {
                let (one, other) = loopback()?;
                Ok((Plug::Tcp(one), Plug::Tcp(other)))
            }
            Self::Spinning(Cores([here, there])) => {
                let (one, other) = loopback()?;
                Ok((Plug::Spinning(one, here), Plug::Spinning(other, there)))
            }
            Self::Datagrams => {
                let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
                let (one, other) = (bind()?, bind()?);
                let (here, there) = (one.local_addr()?, other.local_addr()?);
                Ok((Plug::Udp { socket: one, remote: there }, Plug::Udp { socket: other, remote: here }))
            }
        }
    }
}

fn loopback() -> io::Result<(std::net::TcpStream, std::net::TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let one = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (other, _) = listener.accept()?;
    for stream in [&one, &other] {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
    }
    Ok((one, other))
}

impl Plug {
    /// Makes it part of the runtime that this is called in.
    pub(crate) fn open(self) -> io::Result<Carrier> {
        Ok(match self {
            Self::Memory(stream) => Carrier::Memory(stream),
            Self::Tcp(stream) => Carrier::Tcp(TcpStream::from_std(stream)?),
            Self::Spinning(stream, core) => {
                core.pin().map_err(io::Error::other)?;
                Carrier::Spinning(Spinning(stream))
            }
            Self::Handed(_) | Self::Udp { .. } | Self::Queue(_) => {
                return Err(io::Error::other("buffers and datagrams are no stream"));
            }
        })
    }
}

impl AsyncRead for Carrier {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Memory(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Spinning(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Carrier {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Memory(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Spinning(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Memory(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Spinning(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Memory(stream) => stream.is_write_vectored(),
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Spinning(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Memory(stream) => Pin::new(stream).poll_flush(context),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Spinning(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Memory(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Spinning(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
