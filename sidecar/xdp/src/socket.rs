//! An AF_XDP socket: UMEM registered, four rings mapped, bound to one queue (Documentation/networking/af_xdp.rst).

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::interface::InterfaceIndex;
use crate::limits::{BIND_RETRY_MILLISECONDS_MAX, BIND_RETRY_PAUSE_MILLISECONDS};
use crate::memory::{OutOfBounds, Region};
use crate::mode::Mode;
use crate::queue::QueueId;
use crate::ring::{Consumer, Mapped, Offsets, Producer};
use crate::sys::plain::Plain;
use crate::sys::socket;
use crate::sys::xdp::Descriptor;
use crate::umem::Umem;

/// An open socket.
#[derive(Debug)]
pub(crate) struct Socket {
    descriptor: OwnedFd,
}

/// Our ends of a socket's rings.
#[derive(Debug)]
pub(crate) struct Rings {
    /// Frames for the kernel to receive into.
    pub(crate) fill: Producer<Mapped<u64>>,
    /// What it received.
    pub(crate) receive: Consumer<Mapped<Descriptor>>,
    /// What it is to send.
    pub(crate) transmit: Producer<Mapped<Descriptor>>,
    /// Frames that it has sent.
    pub(crate) completion: Consumer<Mapped<u64>>,
}

/// Why there is no socket. All but [`Self::Layout`] are the environment's: a kernel without AF_XDP, a missing capability,
/// a driver that cannot, a queue that is taken.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("the kernel gives no AF_XDP socket")]
    Open(#[source] io::Error),
    #[error("no memory for packets")]
    Memory(#[source] io::Error),
    #[error("the kernel did not take the memory for packets")]
    Register(#[source] io::Error),
    #[error("the kernel gave no rings")]
    Rings(#[source] io::Error),
    /// Kernel: its rings do not lie in the memory that it mapped for them.
    #[error("the kernel's rings make no sense")]
    Layout,
    #[error("the socket cannot be bound to the queue")]
    Bind(#[source] io::Error),
}

impl From<OutOfBounds> for SocketError {
    fn from(_: OutOfBounds) -> Self {
        Self::Layout
    }
}

impl Socket {
    /// Opens a socket over `umem`, with `slots` in each of its rings.
    pub(crate) fn open(umem: &Umem, slots: u32) -> Result<(Self, Rings), SocketError> {
        let descriptor = socket::open(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(SocketError::Open)?;
        let mut registration = libc::xdp_umem_reg::zeroed();
        registration.addr = umem.address();
        registration.len = umem.bytes() as u64;
        registration.chunk_size = umem.frame_bytes();
        let fd = descriptor.as_fd();
        set(fd, libc::XDP_UMEM_REG, &registration).map_err(SocketError::Register)?;
        let sizes =
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING];
        for ring in sizes {
            set(fd, ring, &slots).map_err(SocketError::Rings)?;
        }
        let offsets: libc::xdp_mmap_offsets =
            socket::option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(SocketError::Rings)?;
        let fill_page = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let completion_page = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let rings = Rings {
            fill: Producer::new(map(fd, fill_page, &offsets.fr, slots)?),
            receive: Consumer::new(map(fd, libc::XDP_PGOFF_RX_RING, &offsets.rx, slots)?),
            transmit: Producer::new(map(fd, libc::XDP_PGOFF_TX_RING, &offsets.tx, slots)?),
            completion: Consumer::new(map(fd, completion_page, &offsets.cr, slots)?),
        };
        Ok((Self { descriptor }, rings))
    }

    /// Binds to a queue. One that is busy is asked for again for a while.
    pub(crate) fn bind(
        &self,
        interface: InterfaceIndex,
        queue: QueueId,
        mode: Mode,
        fragments: bool,
    ) -> Result<(), SocketError> {
        let mut address = libc::sockaddr_xdp::zeroed();
        address.sxdp_family = libc::AF_XDP as u16;
        address.sxdp_ifindex = interface.number();
        address.sxdp_queue_id = queue.number();
        address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP
            | if mode == Mode::ZeroCopy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY }
            | if fragments { libc::XDP_USE_SG } else { 0 };
        let deadline = Instant::now() + Duration::from_millis(BIND_RETRY_MILLISECONDS_MAX);
        loop {
            match socket::bind(self.as_fd(), &address) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(BIND_RETRY_PAUSE_MILLISECONDS));
                }
                result => return result.map_err(SocketError::Bind),
            }
        }
    }

    /// Makes the kernel look at the transmit ring. In copy mode it sends within the call, 32 packets at most.
    pub(crate) fn wake_transmit(&self) -> io::Result<()> {
        socket::send(self.as_fd(), &[])
    }

    /// Makes the kernel look at the fill ring.
    pub(crate) fn wake_receive(&self) -> io::Result<()> {
        socket::nudge(self.as_fd())
    }

    /// Waits until something was received, or until `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> io::Result<bool> {
        socket::wait(self.as_fd(), timeout)
    }

    /// What the kernel has counted.
    pub(crate) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        socket::option(self.as_fd(), libc::SOL_XDP, libc::XDP_STATISTICS)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn set<T: Plain>(socket: BorrowedFd<'_>, name: c_int, value: &T) -> io::Result<()> {
    socket::set_option(socket, libc::SOL_XDP, name, value)
}

fn map<T>(
    socket: BorrowedFd<'_>,
    page: libc::off_t,
    offsets: &libc::xdp_ring_offset,
    slots: u32,
) -> Result<Mapped<T>, SocketError> {
    let fit = |offset: u64| usize::try_from(offset).map_err(|_| SocketError::Layout);
    let offsets = Offsets {
        producer: fit(offsets.producer)?,
        consumer: fit(offsets.consumer)?,
        flags: fit(offsets.flags)?,
        items: fit(offsets.desc)?,
    };
    let bytes = Mapped::<T>::bytes(offsets, slots).ok_or(SocketError::Layout)?;
    let region = Region::of_socket(socket, page, bytes).map_err(SocketError::Rings)?;
    Ok(Mapped::new(region, offsets, slots)?)
}
