//! AF_XDP beside the UDP socket of the data port: datagrams that come by the network device pass by the kernel's stack,
//! and so do those of connections that are carried so. Only what is sealed lies in memory that the kernel shares.
//!
//! Deliberately absent: finding out about neighbours. The handshake passes through the kernel, which then knows them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealane_protocol::Moment;
use sealane_protocol::datagram::Transmit;
use sealane_xdp::{
    Interface, Link, Mode, OpenError, Opened, Options, Resolution, ResolveError, Resolver, Route, SendError,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::udp::{Moved, Put, Socket, Unsent, with_space};

/// Packets of one look at a queue.
const RECEIVE_BUDGET: usize = 64;
/// Datagrams that are sealed before they are sent: what the kernel copies at once (`TX_BATCH_SIZE` of net/xdp/xsk.c).
const SEND_BATCH: usize = 32;
/// Frames of all queues together, 64 MiB: a card with many queues must not take the memory of the pod.
const FRAMES_MAX: u32 = 16_384;
/// Frames of a queue, however many there are.
const FRAMES_MIN: u32 = 64;
/// How long a sender without room waits at most until it looks again: not every driver tells of room.
const ROOM_LOOK: Duration = Duration::from_millis(1);
/// How long a route is used until the kernel is asked for it again, and how soon one that was not there.
const ROUTE_MICROS: u64 = 5_000_000;
const NO_ROUTE_MICROS: u64 = 50_000;

/// Which device is to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// The one that has the pod's address.
    OfPod,
    Named(String),
}

/// Why no device is used. UDP carries sessions in its place.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeviceError {
    #[error("AF_XDP was not asked for when this pod was made, or it is not on the host's network")]
    NotAsked,
    #[error("no network device has the address of this pod")]
    NoDevice,
    #[error("network device {device}")]
    Open {
        device: String,
        #[source]
        source: OpenError,
    },
    #[error("the kernel did not tell about its network devices")]
    Kernel(#[from] io::Error),
    #[error("the kernel does not tell about routes")]
    Routes(#[from] ResolveError),
}

impl DeviceError {
    /// In one line, as a status tells it.
    pub(crate) fn told(self) -> String {
        let modes: Vec<String> = match &self {
            Self::Open { source: OpenError::Refused(modes), .. } => {
                modes.iter().map(ToString::to_string).collect()
            }
            _ => Vec::new(),
        };
        let text = format!("{:#}", anyhow::Error::from(self));
        if modes.is_empty() { text } else { format!("{text}: {}", modes.join("; ")) }
    }
}

/// A device that is open. It comes about before any thread does, because only one thread can drop what opening needed.
#[derive(Debug)]
pub(crate) struct OpenDevice {
    opened: Opened,
    port: u16,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Xdp {
    interface: Interface,
    mode: Mode,
    port: u16,
    queues: Vec<Queue>,
    resolver: Mutex<Resolver>,
    turn: AtomicUsize,
    /// Datagrams that took the kernel's socket, for want of a route past it.
    detoured: AtomicU64,
}

#[derive(Debug)]
struct Queue {
    link: Mutex<Link>,
    ready: AsyncFd<OwnedFd>,
}

/// How datagrams of one connection get to its remote. They pass through the kernel's socket while there is no route.
#[derive(Debug)]
pub(crate) struct Path {
    xdp: Arc<Xdp>,
    queue: usize,
    route: Option<Route>,
    /// For which ends the route was looked up, and when.
    looked_up: Option<(Option<IpAddr>, SocketAddr, Moment)>,
}

impl Device {
    /// Opens the device for datagrams to `port`. `addresses` are the pod's.
    pub(crate) fn open(&self, addresses: &[IpAddr], port: u16) -> Result<OpenDevice, DeviceError> {
        let known = known_addresses()?;
        let device = match self {
            Self::Named(name) => name.clone(),
            Self::OfPod => {
                let holder = |address: &IpAddr| known.iter().find(|(_, held)| held == address);
                addresses.iter().find_map(holder).ok_or(DeviceError::NoDevice)?.0.clone()
            }
        };
        let own = known.into_iter().filter(|(name, _)| *name == device).map(|(_, address)| address);
        let own = own.take(sealane_xdp::limits::ADDRESSES_MAX).collect();
        let mut options = Options::new(device.clone(), own, port);
        let failed = |source| DeviceError::Open { device: device.clone(), source };
        let queues = Interface::named(&options.interface).map_err(OpenError::from).map_err(&failed)?.queues;
        options.frames = options.frames.min(FRAMES_MAX / queues.max(1)).max(FRAMES_MIN);
        let opened = sealane_xdp::open(&options).map_err(failed)?;
        for refused in &opened.refused {
            tracing::info!("AF_XDP is not used in another mode: {refused}");
        }
        Ok(OpenDevice { opened, port })
    }
}

/// Addresses of this machine that datagrams can be for, with the device of each.
fn known_addresses() -> io::Result<Vec<(String, IpAddr)>> {
    let all = nix::ifaddrs::getifaddrs()?;
    Ok(all
        .filter_map(|one| {
            let address = one.address?;
            let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
            let v6 = || address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip()));
            Some((one.interface_name, v4.or_else(v6)?))
        })
        .collect())
}

impl Xdp {
    /// Takes over an open device, within a runtime.
    pub(crate) fn new(device: OpenDevice) -> Result<Self, DeviceError> {
        let OpenDevice { opened: Opened { links, interface, mode, .. }, port } = device;
        let queue = |link: Link| -> io::Result<Queue> {
            let descriptor = link.as_fd().try_clone_to_owned()?;
            #[expect(
                deprecated,
                reason = "what replaces it is unsafe for types that lie about their descriptor"
            )]
            let ready = AsyncFd::new(descriptor)?;
            Ok(Queue { ready, link: Mutex::new(link) })
        };
        let queues = links.into_iter().map(queue).collect::<io::Result<_>>()?;
        let resolver = Mutex::new(Resolver::open()?);
        Ok(Self {
            interface,
            mode,
            port,
            queues,
            resolver,
            turn: AtomicUsize::new(0),
            detoured: AtomicU64::new(0),
        })
    }

    /// As a status names it.
    pub(crate) const fn mode(&self) -> &'static str {
        self.mode.as_str()
    }

    pub(crate) fn device(&self) -> &str {
        &self.interface.name
    }

    pub(crate) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// How many packets of all queues came to what. Those that were lost did not find room: the kernel had no frame of
    /// memory for them, or this process did not take them in time. Those that were detoured took the kernel's socket.
    pub(crate) fn packets(&self) -> [(&'static str, u64); 5] {
        let detoured = self.detoured.load(Ordering::Relaxed);
        let mut packets =
            [("received", 0_u64), ("sent", 0), ("lost", 0), ("malformed", 0), ("detoured", detoured)];
        // A device that does not tell has nothing to add.
        for counters in self.queues.iter().filter_map(|queue| queue.link().counters().ok()) {
            let counted = [
                counters.received,
                counters.sent,
                counters.kernel_dropped.saturating_add(counters.kernel_receive_ring_full),
                counters.malformed_packets.saturating_add(counters.cut_packets),
            ];
            packets.iter_mut().zip(counted).for_each(|((_, sum), one)| *sum = sum.saturating_add(one));
        }
        packets
    }

    /// Whether datagrams to `remote` leave by this device.
    pub(crate) fn leads_to(&self, remote: SocketAddr) -> bool {
        let hop = self.resolver().next_hop(remote.ip().to_canonical());
        hop.is_ok_and(|hop| hop.interface == self.interface.index)
    }

    /// Waits until a queue may have something.
    pub(crate) async fn ready(&self, queue: usize) -> io::Result<()> {
        match self.queues.get(queue) {
            Some(queue) => queue.ready.readable().await.map(|mut guard| guard.retain_ready()),
            None => std::future::pending().await,
        }
    }

    /// Takes what a queue has, at most a few dozen packets, and hands each to `take`, with where it came from and which of
    /// this machine's addresses it is for.
    pub(crate) fn receive(&self, queue: usize, mut take: impl FnMut(SocketAddr, IpAddr, &[u8])) -> Moved {
        let Some(queue) = self.queues.get(queue) else { return Moved::Blocked };
        let received = queue.ready.try_io(Interest::READABLE, |_| {
            let count = queue.link().receive(RECEIVE_BUDGET, |arrival| {
                take(arrival.from, arrival.to.ip(), arrival.payload);
            });
            if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        if received.is_ok() { Moved::Done } else { Moved::Blocked }
    }

    /// Sends datagrams of `segment` bytes; the bytes that the queue had room for.
    fn send(&self, queue: usize, route: &Route, contents: &[u8], segment: usize) -> usize {
        let Some(queue) = self.queues.get(queue) else { return contents.len() };
        let mut link = queue.link();
        let mut sent = 0;
        for datagram in contents.chunks(segment.max(1)) {
            let mut write = || link.send(route, datagram.len(), |place| place.copy_from_slice(datagram));
            match write() {
                // One that is too long for the device is one that was lost, which tells of the path's MTU.
                Ok(()) | Err(SendError::TooLong) => sent += datagram.len(),
                Err(SendError::Full) => break,
            }
        }
        // What a device that is down does not send is lost.
        let _ = link.flush();
        sent
    }

    /// Waits until there may be room in a queue.
    pub(crate) async fn room(&self, queue: usize) -> io::Result<()> {
        let Some(queue) = self.queues.get(queue) else { return Ok(()) };
        match tokio::time::timeout(ROOM_LOOK, queue.ready.writable()).await {
            Ok(writable) => writable.map(|mut guard| guard.clear_ready()),
            Err(_) => Ok(()),
        }
    }

    fn resolver(&self) -> MutexGuard<'_, Resolver> {
        self.resolver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The route from `local`, or the address that the kernel would choose. None while there is none.
    fn route(&self, local: Option<IpAddr>, remote: SocketAddr) -> Option<Route> {
        match self.resolver().resolve(&self.interface, self.port, remote) {
            Ok(Resolution::Route(route)) => {
                let from = SocketAddr::new(local.unwrap_or(route.from().ip()), self.port);
                Route::to(&self.interface, from, remote, route.mac()).ok()
            }
            Ok(Resolution::Unresolved) => None,
            Err(error) => {
                tracing::debug!(%remote, "no route past the kernel: {error}");
                None
            }
        }
    }
}

impl Queue {
    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Path {
    pub(crate) fn new(xdp: Arc<Xdp>) -> Self {
        // Connections are spread over the queues.
        let turn = xdp.turn.fetch_add(1, Ordering::Relaxed);
        let queue = turn.checked_rem(xdp.queues()).unwrap_or(0);
        Self { xdp, queue, route: None, looked_up: None }
    }

    /// As [`Socket::put_from`]. Datagrams without a route pass through `socket`.
    pub(crate) fn put(
        &mut self,
        socket: &Socket,
        local: Option<IpAddr>,
        now: Moment,
        fill: impl FnOnce(&mut [u8], usize) -> Option<Transmit>,
    ) -> Option<Put> {
        with_space(|space| {
            let Transmit { to, bytes, segment } = fill(space, SEND_BATCH)?;
            let contents = space.get(..bytes).unwrap_or_default();
            Some(self.send(socket, local, now, Transmit { to, bytes, segment }, contents))
        })
    }

    /// As [`Socket::put_again`].
    pub(crate) fn put_again(&mut self, socket: &Socket, now: Moment, unsent: Unsent) -> Put {
        let Unsent { from, to, contents, segment } = unsent;
        let transmit = Transmit { to, bytes: contents.len(), segment };
        self.send(socket, from, now, transmit, &contents)
    }

    fn send(
        &mut self,
        socket: &Socket,
        local: Option<IpAddr>,
        now: Moment,
        transmit: Transmit,
        contents: &[u8],
    ) -> Put {
        let Transmit { to, segment, .. } = transmit;
        self.look_up(local, to, now);
        let Some(route) = &self.route else {
            let put = socket.send_or_keep(local, to, contents, segment);
            let kept = if let Put::Blocked(unsent) = &put { unsent.contents.len() } else { 0 };
            let detoured = contents.len().saturating_sub(kept).div_ceil(segment.max(1));
            self.xdp.detoured.fetch_add(detoured as u64, Ordering::Relaxed);
            return put;
        };
        let sent = self.xdp.send(self.queue, route, contents, segment);
        match contents.get(sent..) {
            Some(rest) if !rest.is_empty() => {
                Put::Blocked(Unsent { from: local, to, contents: rest.to_vec(), segment })
            }
            _ => Put::Done,
        }
    }

    /// Has a route of now, if there is one.
    fn look_up(&mut self, local: Option<IpAddr>, to: SocketAddr, now: Moment) {
        let keep = if self.route.is_some() { ROUTE_MICROS } else { NO_ROUTE_MICROS };
        let is_current = self.looked_up.is_some_and(|(from, remote, when)| {
            from == local && remote == to && now.micros_since(when) < keep
        });
        if !is_current {
            self.route = self.xdp.route(local, to);
            self.looked_up = Some((local, to, now));
        }
    }

    /// Waits until there may be room.
    pub(crate) fn room(&self) -> impl Future<Output = io::Result<()>> + Send + use<> {
        let (xdp, queue) = (Arc::clone(&self.xdp), self.queue);
        async move { xdp.room(queue).await }
    }
}
