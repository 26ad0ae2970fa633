//! One UDP socket: many datagrams with one system call, both ways, where the kernel can (GSO, GRO, recvmmsg).

use std::cell::RefCell;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use sealane_protocol::datagram::Transmit;
use tokio::io::{Interest, Ready};

/// Bytes of one segmented send or of what the kernel joined: what a UDP length can say.
const SEGMENTED_BYTES_MAX: usize = 65_507;
/// What the kernel joins into one buffer at most.
pub(super) const JOINED_BYTES_MAX: usize = 65_536;
/// Buffers that one receiving call fills.
const BUFFERS: usize = 32;
/// What the kernel keeps for a connection that is busy elsewhere; it gives less where it may not give so much.
const BUFFER_BYTES: usize = 8 << 20;
/// IP and UDP headers.
const HEADERS_V4: u16 = 28;
const HEADERS_V6: u16 = 48;
/// The MTU where the kernel does not say: Ethernet's.
const MTU: u16 = 1_500;
/// Jumbo frames are the largest that networks carry; what only this machine would gains nothing over segments.
const MTU_MAX: u16 = 9_000;

/// How a system call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// It is done, whatever becomes of the datagrams.
    Done,
    /// The kernel has nothing, or no room; [`Socket::ready`] tells when.
    Blocked,
    /// Nobody listens there, as far as an unauthenticated message of the network says so.
    Refused,
}

/// What became of datagrams.
#[derive(Debug)]
pub enum Put {
    Done,
    /// See [`Moved::Refused`].
    Refused,
    /// The kernel has no room for them yet; [`Socket::ready`] tells when.
    Blocked(Unsent),
}

/// Datagrams that wait for room.
#[derive(Debug)]
pub struct Unsent {
    pub(super) from: Option<IpAddr>,
    pub(super) to: SocketAddr,
    pub(super) contents: Vec<u8>,
    pub(super) segment: usize,
}

/// What one buffer was filled with: datagrams of one source and, but for the last, of one size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) from: SocketAddr,
    /// This machine's address that they were sent to.
    pub(crate) to: Option<IpAddr>,
    pub(crate) bytes: usize,
    pub(crate) segment: usize,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Socket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
}

thread_local! {
    /// Where datagrams of connections of this thread are sealed, and where those are opened that have a socket of their own.
    static SPACE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ARRIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Socket {
    /// Takes over `socket`, within a runtime.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // As much as it gives: a sidecar works with less.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), BUFFER_BYTES);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), BUFFER_BYTES);
        Ok(Self { io: tokio::net::UdpSocket::from_std(socket)?, state })
    }

    /// A socket that hears `remote` alone.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn towards(remote: SocketAddr) -> io::Result<Self> {
        let any: IpAddr =
            if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = std::net::UdpSocket::bind((any, 0))?;
        socket.connect(remote)?;
        Self::new(socket)
    }

    /// Lets `fill` put datagrams into a space of this thread, given how many of them the kernel takes at once, and sends
    /// them. `None`: there was nothing to send.
    pub fn put(&self, fill: impl FnOnce(&mut [u8], usize) -> Option<Transmit>) -> Option<Put> {
        self.put_from(None, fill)
    }

    /// As [`Self::put`], from an address of this machine if that is known.
    pub(crate) fn put_from(
        &self,
        from: Option<IpAddr>,
        fill: impl FnOnce(&mut [u8], usize) -> Option<Transmit>,
    ) -> Option<Put> {
        with_space(|space| {
            let Transmit { to, bytes, segment } = fill(space, self.state.max_gso_segments())?;
            let contents = space.get(..bytes).unwrap_or_default();
            Some(self.send_or_keep(from, to, contents, segment))
        })
    }

    /// As [`Self::send_from`], keeping what has no room.
    pub(super) fn send_or_keep(
        &self,
        from: Option<IpAddr>,
        to: SocketAddr,
        contents: &[u8],
        segment: usize,
    ) -> Put {
        match self.send_from(from, to, contents, segment) {
            Moved::Done => Put::Done,
            Moved::Refused => Put::Refused,
            Moved::Blocked => Put::Blocked(Unsent { from, to, contents: contents.to_vec(), segment }),
        }
    }

    /// Sends again what had no room.
    #[must_use]
    pub fn put_again(&self, unsent: Unsent) -> Put {
        match self.send_from(unsent.from, unsent.to, &unsent.contents, unsent.segment) {
            Moved::Done => Put::Done,
            Moved::Refused => Put::Refused,
            Moved::Blocked => Put::Blocked(unsent),
        }
    }

    /// Sends datagrams of `segment` bytes, the last of which may have fewer.
    pub fn send(&self, destination: SocketAddr, contents: &[u8], segment: usize) -> Moved {
        self.send_from(None, destination, contents, segment)
    }

    /// As [`Self::send`], from an address of this machine if that is known.
    pub(crate) fn send_from(
        &self,
        src_ip: Option<IpAddr>,
        destination: SocketAddr,
        contents: &[u8],
        segment: usize,
    ) -> Moved {
        let segment_size = (segment < contents.len()).then_some(segment);
        let transmit = quinn_udp::Transmit { destination, ecn: None, contents, segment_size, src_ip };
        let sent =
            self.io.try_io(Interest::WRITABLE, || self.state.try_send(UdpSockRef::from(&self.io), &transmit));
        moved(sent)
    }

    /// Takes what the kernel has, at most a few buffers of it, and hands each datagram to `take`.
    pub fn take(&self, mut take: impl FnMut(SocketAddr, &mut [u8])) -> Moved {
        ARRIVED.with_borrow_mut(|arrived| {
            arrived.resize(BUFFERS * JOINED_BYTES_MAX, 0);
            self.receive(arrived, |meta, bytes| {
                for datagram in bytes.chunks_mut(meta.stride.max(1)) {
                    take(meta.addr, datagram);
                }
            })
        })
    }

    /// As [`Self::take`], in buffers of `get`; those that were not filled go to `put` again.
    pub(crate) fn take_buffers(
        &self,
        mut get: impl FnMut() -> Vec<u8>,
        mut take: impl FnMut(Arrival, Vec<u8>),
        mut put: impl FnMut(Vec<u8>),
    ) -> Moved {
        let mut buffers: [Vec<u8>; BUFFERS] = std::array::from_fn(|_| {
            let mut buffer = get();
            buffer.resize(JOINED_BYTES_MAX, 0);
            buffer
        });
        let mut arrivals = [None; BUFFERS];
        let mut filled = arrivals.iter_mut();
        let slices = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
        let moved = self.receive_into(slices, |meta, _| {
            if let Some(arrival) = filled.next() {
                let (from, to) = (meta.addr, meta.dst_ip);
                *arrival = Some(Arrival { from, to, bytes: meta.len, segment: meta.stride });
            }
        });
        for (buffer, arrival) in buffers.into_iter().zip(arrivals) {
            match arrival {
                Some(arrival) => take(arrival, buffer),
                None => put(buffer),
            }
        }
        moved
    }

    fn receive(&self, arrived: &mut [u8], each: impl FnMut(&RecvMeta, &mut [u8])) -> Moved {
        let mut buffers = arrived.chunks_mut(JOINED_BYTES_MAX);
        let slices = std::array::from_fn(|_| IoSliceMut::new(buffers.next().unwrap_or_default()));
        self.receive_into(slices, each)
    }

    fn receive_into(
        &self,
        mut slices: [IoSliceMut<'_>; BUFFERS],
        mut each: impl FnMut(&RecvMeta, &mut [u8]),
    ) -> Moved {
        let mut metas = [RecvMeta::default(); BUFFERS];
        let received = self.io.try_io(Interest::READABLE, || {
            self.state.recv(UdpSockRef::from(&self.io), &mut slices, &mut metas)
        });
        let count = match received {
            Ok(count) => count,
            Err(error) => return moved(Err(error)),
        };
        for (meta, buffer) in metas.iter().zip(&mut slices).take(count) {
            each(meta, buffer.get_mut(..meta.len).unwrap_or_default());
        }
        Moved::Done
    }

    /// As [`Self::ready`], for the one task that has this socket: another's waker takes its place.
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>, writing: bool) -> Poll<io::Result<()>> {
        if writing && let Poll::Ready(ready) = self.io.poll_send_ready(context) {
            return Poll::Ready(ready);
        }
        self.io.poll_recv_ready(context)
    }

    /// Waits until datagrams can be put.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.io.writable().await
    }

    /// Waits until datagrams can be taken, or put if `writing`.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn ready(&self, writing: bool) -> io::Result<Ready> {
        let interest = if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        self.io.ready(interest).await
    }
}

/// A space of this thread, as large as what is sent at once.
pub(super) fn with_space<R>(use_it: impl FnOnce(&mut [u8]) -> R) -> R {
    SPACE.with_borrow_mut(|space| {
        space.resize(SEGMENTED_BYTES_MAX, 0);
        use_it(space)
    })
}

fn moved(result: io::Result<()>) -> Moved {
    match result {
        Ok(()) => Moved::Done,
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Moved::Blocked,
            io::ErrorKind::ConnectionRefused => Moved::Refused,
            // A datagram that could not be sent is one that was lost.
            _ => Moved::Done,
        },
    }
}

/// UDP payload of the largest datagram that the interface towards `remote` carries.
#[must_use]
pub fn datagram_bytes_max(remote: SocketAddr) -> u16 {
    let headers = if remote.ip().to_canonical().is_ipv4() { HEADERS_V4 } else { HEADERS_V6 };
    mtu_towards(remote).unwrap_or(MTU).min(MTU_MAX).saturating_sub(headers)
}

/// What the kernel knows about the way there; it sends nothing to find out.
fn mtu_towards(remote: SocketAddr) -> Option<u16> {
    let IpAddr::V4(address) = remote.ip().to_canonical() else { return None };
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((address, remote.port())).ok()?;
    let mtu = nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::IpMtu).ok()?;
    Some(u16::try_from(mtu).unwrap_or(u16::MAX))
}
