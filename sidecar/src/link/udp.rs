//! One UDP socket: many datagrams with one system call, both ways. The kernel cuts and joins them where it can (GSO, GRO);
//! where it does not cut, it is handed many at once (sendmmsg).

use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::task::{Context, Poll};

use nix::sys::socket::{MsgFlags, MultiHeaders, getsockopt, sendmmsg, setsockopt, sockopt};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use sealane_protocol::datagram::Transmit;
use tokio::io::{Interest, Ready};

/// Bytes of one segmented send or of what the kernel joined: what a UDP length can say.
const SEGMENTED_BYTES_MAX: usize = 65_507;
/// What the kernel joins into one buffer at most.
pub(super) const JOINED_BYTES_MAX: usize = 65_536;
/// Buffers that one receiving call fills.
const BUFFERS: usize = 32;
/// Datagrams that are sent at once where the kernel does not cut them.
const DATAGRAMS: usize = 64;
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
    /// Whether it hears one remote alone, so that datagrams need no address.
    is_connected: bool,
    /// Whether the kernel is asked to cut datagrams.
    segments: bool,
}

thread_local! {
    /// Where datagrams of connections of this thread are sealed, and where those are opened that have a socket of their own.
    static SPACE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ARRIVED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// What one system call with many datagrams needs.
    static HEADERS: RefCell<MultiHeaders<()>> = RefCell::new(MultiHeaders::preallocate(DATAGRAMS, None));
}

impl Socket {
    /// Takes over `socket`, within a runtime.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        widen(&socket);
        let is_connected = socket.peer_addr().is_ok();
        Ok(Self { io: tokio::net::UdpSocket::from_std(socket)?, state, is_connected, segments: true })
    }

    /// Does not ask the kernel to cut datagrams, as if it could not.
    #[must_use]
    pub fn without_segmentation(self) -> Self {
        Self { segments: false, ..self }
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
            let Transmit { to, bytes, segment } = fill(space, self.at_once())?;
            let contents = space.get(..bytes).unwrap_or_default();
            Some(self.send_or_keep(from, to, contents, segment))
        })
    }

    /// Datagrams that one call of [`Self::put`] is for.
    fn at_once(&self) -> usize {
        if self.is_cut() { self.state.max_gso_segments() } else { DATAGRAMS }
    }

    /// Whether the kernel cuts what is sent. It finds out that a device cannot, and then it does not from then on.
    fn is_cut(&self) -> bool {
        self.segments && self.state.max_gso_segments() > 1
    }

    /// Sends datagrams, keeping those that have no room.
    pub(super) fn send_or_keep(
        &self,
        from: Option<IpAddr>,
        to: SocketAddr,
        contents: &[u8],
        segment: usize,
    ) -> Put {
        match self.send_all(from, to, contents, segment) {
            (Moved::Done, _) => Put::Done,
            (Moved::Refused, _) => Put::Refused,
            (Moved::Blocked, passed) => {
                let contents = contents.get(passed..).unwrap_or_default().to_vec();
                Put::Blocked(Unsent { from, to, contents, segment })
            }
        }
    }

    /// Sends again what had no room.
    #[must_use]
    pub fn put_again(&self, mut unsent: Unsent) -> Put {
        match self.send_all(unsent.from, unsent.to, &unsent.contents, unsent.segment) {
            (Moved::Done, _) => Put::Done,
            (Moved::Refused, _) => Put::Refused,
            (Moved::Blocked, passed) => {
                unsent.contents.drain(..passed);
                Put::Blocked(unsent)
            }
        }
    }

    /// Sends datagrams until one has no room; and the bytes of those before it.
    fn send_all(
        &self,
        from: Option<IpAddr>,
        to: SocketAddr,
        contents: &[u8],
        segment: usize,
    ) -> (Moved, usize) {
        let (mut passed, segment) = (0, segment.max(1));
        while let Some(rest) = contents.get(passed..).filter(|rest| !rest.is_empty()) {
            passed += match self.send_some(from, to, rest, segment) {
                Ok(sent) => sent,
                Err(error) => match failed(&error) {
                    // It is lost; those behind it need not be.
                    Moved::Done if self.is_cut() => rest.len(),
                    Moved::Done => segment.min(rest.len()),
                    stopped => return (stopped, passed),
                },
            };
        }
        (Moved::Done, passed)
    }

    /// The bytes that were sent with one system call: all, as many datagrams as it takes, or the first one.
    fn send_some(
        &self,
        from: Option<IpAddr>,
        to: SocketAddr,
        contents: &[u8],
        segment: usize,
    ) -> io::Result<usize> {
        if !self.is_cut() && self.is_connected && contents.len() > segment {
            return self.send_many(contents, segment);
        }
        let bytes = if self.is_cut() { contents.len() } else { segment.min(contents.len()) };
        self.send_whole(from, to, contents.get(..bytes).unwrap_or_default(), segment).map(|()| bytes)
    }

    fn send_many(&self, contents: &[u8], segment: usize) -> io::Result<usize> {
        let mut datagrams = contents.chunks(segment);
        let count = datagrams.len().min(DATAGRAMS);
        let slices: [_; DATAGRAMS] =
            std::array::from_fn(|_| [IoSlice::new(datagrams.next().unwrap_or_default())]);
        let sent = HEADERS.with_borrow_mut(|headers| {
            self.io.try_io(Interest::WRITABLE, || {
                let (slices, flags) = (slices.iter().take(count), MsgFlags::MSG_DONTWAIT);
                let sent = sendmmsg(self.io.as_raw_fd(), headers, slices, [None; DATAGRAMS], [], flags);
                Ok(sent?.count())
            })
        });
        sent.map(|sent| sent.saturating_mul(segment).min(contents.len()))
    }

    fn send_whole(
        &self,
        src_ip: Option<IpAddr>,
        destination: SocketAddr,
        contents: &[u8],
        segment: usize,
    ) -> io::Result<()> {
        let segment_size = (segment < contents.len()).then_some(segment);
        let transmit = quinn_udp::Transmit { destination, ecn: None, contents, segment_size, src_ip };
        self.io.try_io(Interest::WRITABLE, || self.state.try_send(UdpSockRef::from(&self.io), &transmit))
    }

    /// Sends one datagram, from an address of this machine if that is known.
    pub fn send(&self, from: Option<IpAddr>, to: SocketAddr, datagram: &[u8]) -> Moved {
        moved(self.send_whole(from, to, datagram, datagram.len()))
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

/// Has the kernel keep more for `socket`: with `CAP_NET_ADMIN` whatever the machine's limit is, otherwise up to it. A
/// sidecar works with less.
pub fn widen(socket: &std::net::UdpSocket) {
    // The kernel tells twice of what it was asked for (socket(7)).
    let has = |bytes: nix::Result<usize>| bytes.is_ok_and(|bytes| bytes >= 2 * BUFFER_BYTES);
    if !has(getsockopt(socket, sockopt::RcvBuf))
        && setsockopt(socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err()
    {
        let _ = setsockopt(socket, sockopt::RcvBuf, &BUFFER_BYTES);
    }
    if !has(getsockopt(socket, sockopt::SndBuf))
        && setsockopt(socket, sockopt::SndBufForce, &BUFFER_BYTES).is_err()
    {
        let _ = setsockopt(socket, sockopt::SndBuf, &BUFFER_BYTES);
    }
}

fn moved(result: io::Result<()>) -> Moved {
    match result {
        Ok(()) => Moved::Done,
        Err(error) => failed(&error),
    }
}

fn failed(error: &io::Error) -> Moved {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Moved::Blocked,
        io::ErrorKind::ConnectionRefused => Moved::Refused,
        // A datagram that could not be sent is one that was lost.
        _ => Moved::Done,
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
    let mtu = getsockopt(&socket, sockopt::IpMtu).ok()?;
    Some(u16::try_from(mtu).unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: usize = 100;
    /// Of three system calls, the last one short.
    const COUNT: usize = 2 * DATAGRAMS + 3;

    async fn arrives(sender: Socket, receiver: &Socket, to: SocketAddr) {
        sender.writable().await.unwrap();
        let contents: Vec<u8> = (0..COUNT * SEGMENT - 1).map(|at| (at / SEGMENT) as u8).collect();
        assert!(matches!(sender.send_or_keep(None, to, &contents, SEGMENT), Put::Done));
        let mut arrived: Vec<Vec<u8>> = Vec::new();
        while arrived.len() < COUNT {
            receiver.ready(false).await.unwrap();
            receiver.take(|_, datagram| arrived.push(datagram.to_vec()));
        }
        assert!(arrived.iter().flatten().eq(&contents), "all of them, as they were and in order");
    }

    #[tokio::test]
    async fn datagrams_arrive_whether_the_kernel_cuts_them_or_not() {
        let bound = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = bound.local_addr().unwrap();
        let receiver = Socket::new(bound).unwrap();
        let unconnected =
            || Socket::new(std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
        for sender in [Socket::towards(to).unwrap(), unconnected()] {
            arrives(sender.without_segmentation(), &receiver, to).await;
        }
        let whole: Vec<u8> = vec![1; 4 * SEGMENT];
        let cut = Socket::towards(to).unwrap();
        cut.writable().await.unwrap();
        assert!(matches!(cut.send_or_keep(None, to, &whole, SEGMENT), Put::Done));
        let mut sizes = Vec::new();
        while sizes.len() < 4 {
            receiver.ready(false).await.unwrap();
            receiver.take(|_, datagram| sizes.push(datagram.len()));
        }
        assert_eq!(sizes, [SEGMENT; 4]);
    }

    #[tokio::test]
    async fn one_that_is_too_long_is_lost_and_those_behind_it_are_not() {
        let bound = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = bound.local_addr().unwrap();
        let receiver = Socket::new(bound).unwrap();
        let sender = Socket::towards(to).unwrap().without_segmentation();
        sender.writable().await.unwrap();
        let mut contents = vec![1; SEGMENTED_BYTES_MAX + 1];
        assert!(matches!(sender.send_or_keep(None, to, &contents, SEGMENTED_BYTES_MAX + 1), Put::Done));
        contents.push(2);
        assert!(matches!(sender.send_or_keep(None, to, &contents, SEGMENTED_BYTES_MAX + 1), Put::Done));
        receiver.ready(false).await.unwrap();
        let mut arrived = Vec::new();
        receiver.take(|_, datagram| arrived.push(datagram.to_vec()));
        assert_eq!(arrived, [[2]]);
    }
}
