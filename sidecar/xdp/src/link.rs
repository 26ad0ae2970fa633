//! A link: one queue of an interface, for one thread.

mod gather;
mod receiver;
mod sender;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

pub use self::receiver::Arrival;
use self::receiver::Receiver;
use self::sender::Sender;
pub use self::sender::{FlushError, SendError};
use crate::interface::InterfaceIndex;
use crate::mode::Mode;
use crate::program::{Program, ProgramError};
use crate::queue::QueueId;
use crate::route::Route;
use crate::socket::{Rings, Socket, SocketError};
use crate::umem::{Frame, Umem};

/// What a link is made of, all of it set up.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) program: Arc<Program>,
    pub(crate) socket: Socket,
    pub(crate) rings: Rings,
    pub(crate) umem: Umem,
    pub(crate) frames: Vec<Frame>,
    pub(crate) queue: QueueId,
    pub(crate) mode: Mode,
    /// Bytes of the longest IP packet of the interface.
    pub(crate) mtu: u32,
    /// Whether packets may span frames.
    pub(crate) fragments: bool,
}

/// Moves UDP payloads between one queue and the memory of this process.
///
/// It can be sent to the thread that is to serve the queue, and not be shared. When the last link of an interface is
/// dropped, the steering program is detached.
#[derive(Debug)]
pub struct Link {
    receiver: Receiver,
    sender: Sender,
    umem: Umem,
    socket: Socket,
    queue: QueueId,
    mode: Mode,
    /// Attached for as long as there are links.
    program: Arc<Program>,
}

/// What happened to packets since a link was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Payloads that were handed to the caller.
    pub received: u64,
    /// Payloads that were put on the transmit ring.
    pub sent: u64,
    /// Descriptors of the kernel that were not believed.
    pub rejected_descriptors: u64,
    /// Packets of the port that are not what they should be.
    pub malformed_packets: u64,
    /// Packets of several frames that are too long, or of which a part is missing.
    pub cut_packets: u64,
    /// `rx_dropped`: packets lost because no frame was free, or too few for one that spans frames. Under load, this is
    /// where loss shows.
    pub kernel_dropped: u64,
    /// `rx_invalid_descs`: frames of the fill ring that the kernel did not believe.
    pub kernel_invalid_fill: u64,
    /// `tx_invalid_descs`: descriptors to send that the kernel did not believe.
    pub kernel_invalid_transmit: u64,
    /// `rx_ring_full`: packets lost because they were not taken in time.
    pub kernel_receive_ring_full: u64,
    /// `rx_fill_ring_empty_descs`: how often the fill ring was found empty. Not counted for packets that span frames.
    pub kernel_fill_ring_empty: u64,
    /// `tx_ring_empty_descs`: how often there was nothing to send.
    pub kernel_transmit_ring_empty: u64,
}

impl Link {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { program, socket, rings, mut umem, mut frames, queue, mode, mtu, fragments } = parts;
        let Rings { fill, receive, transmit, completion } = rings;
        let to_send = frames.split_off(frames.len() / 2);
        let receiver = Receiver::new(receive, fill, frames, fragments, &mut umem);
        let sender = Sender::new(transmit, completion, to_send, umem.frame_bytes(), mtu, fragments);
        Self { receiver, sender, umem, socket, queue, mode, program }
    }

    /// Binds the socket to its queue.
    pub(crate) fn bind(&self, interface: InterfaceIndex, fragments: bool) -> Result<(), SocketError> {
        self.socket.bind(interface, self.queue, self.mode, fragments)
    }

    /// Lets packets come.
    pub(crate) fn steer(&self) -> Result<(), ProgramError> {
        self.program.steer(self.queue, self.socket.as_fd())
    }

    #[must_use]
    pub fn queue(&self) -> QueueId {
        self.queue
    }

    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The most bytes of a payload to there.
    #[must_use]
    pub fn payload_bytes_max(&self, route: &Route) -> usize {
        self.sender.payload_bytes_max(route.head())
    }

    /// Takes at most `budget` descriptors from the receive ring, hands each packet to `each`, and gives the frames back to
    /// be received into. Returns how many packets there were. It never waits.
    pub fn receive(&mut self, budget: usize, each: impl FnMut(Arrival<'_>)) -> usize {
        let count = self.receiver.receive(&mut self.umem, budget, each);
        if self.receiver.needs_wakeup() {
            // Whatever comes of it, the next call tries again.
            let _ = self.socket.wake_receive();
        }
        count
    }

    /// Writes a packet with a payload of `payload_bytes` to be sent by the next [`Self::flush`]. `write` is given the place
    /// in the frame, with zeros or bytes of earlier packets, and has to write all of it: with what is sealed already, since
    /// the place is not this process's alone.
    pub fn send(
        &mut self,
        route: &Route,
        payload_bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        self.sender.send(&mut self.umem, route.head(), payload_bytes, write)
    }

    /// Has everything sent that was written. What the kernel does not take now stays on the ring for the next call.
    pub fn flush(&mut self) -> Result<(), FlushError> {
        self.sender.flush(&mut self.umem, || self.socket.wake_transmit())
    }

    /// Takes back frames whose packets have left, and returns how many. [`Self::send`] and [`Self::flush`] do so when
    /// they need to.
    pub fn reap(&mut self) -> usize {
        self.sender.reap(&mut self.umem)
    }

    /// Whether something that was written is still on its way to the kernel.
    pub fn is_sending(&mut self) -> bool {
        self.sender.is_sending()
    }

    /// Whether the kernel waits for a system call before it receives or sends: call [`Self::receive`] or
    /// [`Self::flush`], or [`Self::wait`].
    #[must_use]
    pub fn needs_wakeup(&self) -> bool {
        self.receiver.needs_wakeup() || self.sender.needs_wakeup()
    }

    /// Waits until there is something to receive; false if there is not after `timeout`, or a signal came first.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        self.socket.wait(timeout)
    }

    pub fn counters(&self) -> io::Result<Counters> {
        let kernel = self.socket.statistics()?;
        let receiver = self.receiver.counters();
        Ok(Counters {
            received: receiver.received,
            sent: self.sender.sent(),
            rejected_descriptors: receiver.rejected + self.sender.rejected(),
            malformed_packets: receiver.malformed,
            cut_packets: receiver.cut,
            kernel_dropped: kernel.rx_dropped,
            kernel_invalid_fill: kernel.rx_invalid_descs,
            kernel_invalid_transmit: kernel.tx_invalid_descs,
            kernel_receive_ring_full: kernel.rx_ring_full,
            kernel_fill_ring_empty: kernel.rx_fill_ring_empty_descs,
            kernel_transmit_ring_empty: kernel.tx_ring_empty_descs,
        })
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

const _: () = {
    const fn can_be_sent<T: Send>() {}
    can_be_sent::<Link>();
};
