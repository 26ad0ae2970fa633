//! The half of a link that sends: frames lent through the transmit ring, taken back from the completion ring.

use std::io;

use crate::limits::{PACKET_BYTES_MAX, PACKET_FRAMES_MAX};
use crate::packet::Head;
use crate::ring::{Consumer, Mapped, Producer};
use crate::sys::xdp::Descriptor;
use crate::umem::{Frame, Umem};

/// Bytes of an Ethernet header, which an MTU does not count.
const ETHERNET_HEADER_BYTES: usize = 14;

/// Packets that one call sends in copy mode: `TX_BATCH_SIZE` of net/xdp/xsk.c.
const KERNEL_BATCH: usize = 32;

/// Why a packet was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Environment: what was sent before is still on its way. Flush, and try again.
    #[error("no frame is free")]
    Full,
    /// Caller: more than [`crate::Link::payload_bytes_max`].
    #[error("the payload is longer than the interface sends")]
    TooLong,
}

/// Why packets cannot be sent: the interface is down or gone. Environment; the link is of no more use until it is up.
#[derive(Debug, thiserror::Error)]
#[error("the interface does not send")]
pub struct FlushError(#[source] pub io::Error);

#[derive(Debug)]
pub(super) struct Sender {
    ring: Producer<Mapped<Descriptor>>,
    completion: Consumer<Mapped<u64>>,
    /// Frames that are ours.
    free: Vec<Frame>,
    /// Where packets that span frames are written first. Empty where they do not.
    scratch: Box<[u8]>,
    /// Bytes of the longest packet, Ethernet header included.
    packet_bytes_max: usize,
    /// How often the kernel is asked in one flush: enough for all frames, twice.
    attempts_max: usize,
    sent: u64,
    rejected: u64,
}

impl Sender {
    pub(super) fn new(
        ring: Producer<Mapped<Descriptor>>,
        completion: Consumer<Mapped<u64>>,
        frames: Vec<Frame>,
        frame_bytes: u32,
        mtu: u32,
        fragments: bool,
    ) -> Self {
        let frame_bytes = frame_bytes as usize;
        let fits =
            if fragments { (frame_bytes * PACKET_FRAMES_MAX).min(PACKET_BYTES_MAX) } else { frame_bytes };
        let packet_bytes_max = fits.min((mtu as usize).saturating_add(ETHERNET_HEADER_BYTES));
        let scratch = if packet_bytes_max > frame_bytes { packet_bytes_max } else { 0 };
        let attempts_max = 2 * (frames.len() / KERNEL_BATCH + 1);
        let scratch = vec![0; scratch].into_boxed_slice();
        Self { ring, completion, free: frames, scratch, packet_bytes_max, attempts_max, sent: 0, rejected: 0 }
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn rejected(&self) -> u64 {
        self.rejected
    }

    pub(super) fn payload_bytes_max(&self, head: &Head) -> usize {
        self.packet_bytes_max.saturating_sub(head.bytes())
    }

    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }

    pub(super) fn is_sending(&mut self) -> bool {
        !self.ring.is_drained()
    }

    /// Writes a packet and puts it on the ring, unpublished.
    pub(super) fn send(
        &mut self,
        umem: &mut Umem,
        head: &Head,
        payload_bytes: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        if payload_bytes > self.payload_bytes_max(head) {
            return Err(SendError::TooLong);
        }
        let bytes = head.bytes() + payload_bytes;
        // At most `PACKET_FRAMES_MAX`, since the payload is not too long.
        let frames = bytes.div_ceil(umem.frame_bytes() as usize);
        if self.free.len() < frames {
            self.reap(umem);
        }
        if self.free.len() < frames || !self.ring.has_room(frames as u32) {
            return Err(SendError::Full);
        }
        if frames == 1 {
            let Some(packet) = self.free.last().and_then(|frame| umem.slice(frame, 0..bytes)) else {
                return Err(SendError::Full);
            };
            compose(packet, head, write)?;
            self.lend(umem, bytes, false);
        } else {
            compose(self.scratch.get_mut(..bytes).ok_or(SendError::TooLong)?, head, write)?;
            self.scatter(umem, bytes);
        }
        self.sent += 1;
        Ok(())
    }

    /// Publishes what was written and has the kernel send it, until it has or does not go on.
    pub(super) fn flush(
        &mut self,
        umem: &mut Umem,
        mut wake: impl FnMut() -> io::Result<()>,
    ) -> Result<(), FlushError> {
        self.ring.publish();
        // A driver does not send what it could not complete: its ring must not stay full.
        self.reap(umem);
        for _ in 0..self.attempts_max {
            if self.ring.is_drained() || !self.ring.needs_wakeup() {
                break;
            }
            let free = self.ring.free();
            let Err(error) = wake() else { break };
            match error.raw_os_error() {
                // A batch is sent and there is more; or the socket or the device holds as much as it may.
                Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS) => {}
                _ => return Err(FlushError(error)),
            }
            if self.reap(umem) == 0 && self.ring.free() == free {
                break;
            }
        }
        Ok(())
    }

    /// Takes back frames whose packets have left.
    pub(super) fn reap(&mut self, umem: &mut Umem) -> usize {
        let mut count = 0;
        // Not until there is nothing more: a kernel that makes up completions would keep us here.
        for _ in 0..self.completion.slots() {
            let Some(address) = self.completion.pop() else { break };
            match umem.transmitted(address) {
                Ok(frame) => {
                    self.free.push(frame);
                    count += 1;
                }
                Err(_) => self.rejected += 1,
            }
        }
        self.completion.release();
        count
    }

    /// Copies the packet in the scratch memory into frames. There are enough of them, and of slots.
    fn scatter(&mut self, umem: &mut Umem, bytes: usize) {
        let frame_bytes = umem.frame_bytes() as usize;
        let mut begin = 0;
        while begin < bytes {
            let end = bytes.min(begin + frame_bytes);
            let piece = self.scratch.get(begin..end).unwrap_or_default();
            if let Some(place) = self.free.last().and_then(|frame| umem.slice(frame, 0..piece.len())) {
                place.copy_from_slice(piece);
            }
            self.lend(umem, end - begin, end < bytes);
            begin = end;
        }
    }

    /// Puts the first `bytes` of the last free frame on the ring.
    fn lend(&mut self, umem: &mut Umem, bytes: usize, continues: bool) {
        if let Some(slot) = self.ring.slot()
            && let Some(frame) = self.free.pop()
        {
            // At most the bytes of a frame, which are a `u32`.
            slot.write(umem.lend_to_transmit(frame, bytes as u32, continues));
        }
    }
}

/// Writes the payload, then the headers, whose checksum covers it.
fn compose(packet: &mut [u8], head: &Head, write: impl FnOnce(&mut [u8])) -> Result<(), SendError> {
    write(packet.get_mut(head.bytes()..).ok_or(SendError::TooLong)?);
    head.write(packet).map_err(|_| SendError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet;
    use crate::ring::pair;
    use crate::route::Route;
    use crate::route::tests::interface;
    use crate::sys::xdp::CONTINUES;

    const FRAMES: u32 = 8;
    const FRAME_BYTES: u32 = 2048;

    /// A sender, its memory, and the kernel's ends of its rings.
    struct Bench {
        umem: Umem,
        sender: Sender,
        route: Route,
        kernel_transmit: Consumer<Mapped<Descriptor>>,
        kernel_completion: Producer<Mapped<u64>>,
        /// The completion ring, for a kernel that makes up its index.
        hostile: Mapped<u64>,
        wakes: usize,
    }

    fn bench(mtu: u32) -> Bench {
        bench_with_slots(mtu, 8)
    }

    fn bench_with_slots(mtu: u32, slots: u32) -> Bench {
        let (umem, frames) = Umem::new(FRAMES, FRAME_BYTES).unwrap();
        let (ring, kernel_transmit, kernel) = pair(slots);
        kernel.ask_for_wakeup();
        let (kernel_completion, completion, hostile) = pair(slots);
        let sender = Sender::new(ring, completion, frames, FRAME_BYTES, mtu, true);
        let mac = packet::MacAddress::new([2, 0, 0, 0, 0, 2]);
        let (from, to) = ("10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap());
        let route = Route::to(&interface(mtu), from, to, mac).unwrap();
        Bench { umem, sender, route, kernel_transmit, kernel_completion, hostile, wakes: 0 }
    }

    impl Bench {
        fn send(&mut self, payload: &[u8]) -> Result<(), SendError> {
            let head = self.route.head();
            self.sender.send(&mut self.umem, head, payload.len(), |place| place.copy_from_slice(payload))
        }

        /// Flushes to a kernel that answers so, and does nothing.
        fn flush(&mut self, answer: Option<i32>) -> Result<(), FlushError> {
            let wakes = &mut self.wakes;
            self.sender.flush(&mut self.umem, || {
                *wakes += 1;
                answer.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
            })
        }

        /// What a kernel does: takes descriptors, sends what they name, completes them.
        fn kernel_sends(&mut self) -> Vec<Vec<u8>> {
            let (mut packets, mut packet) = (Vec::new(), Vec::new());
            while let Some(descriptor) = self.kernel_transmit.pop() {
                packet.extend(self.umem.read_as_kernel(descriptor.address, descriptor.length));
                if descriptor.options & CONTINUES == 0 {
                    packets.push(std::mem::take(&mut packet));
                }
                assert!(self.kernel_completion.push(descriptor.address));
            }
            self.kernel_transmit.release();
            self.kernel_completion.publish();
            packets
        }
    }

    #[test]
    fn packets_leave_when_flushed_and_their_frames_come_back() {
        let mut bench = bench(9000);
        let long: Vec<u8> = (0..5000_u32).map(|byte| byte as u8).collect();
        for round in 0..20 {
            assert_eq!(bench.send(b"short"), Ok(()), "{round}");
            assert_eq!(bench.send(&long), Ok(()), "{round}");
            assert!(bench.kernel_sends().is_empty(), "nothing was flushed");
            bench.flush(None).unwrap();
            let packets = bench.kernel_sends();
            let payloads: Vec<&[u8]> =
                packets.iter().map(|packet| &packet[packet::parse(packet).unwrap().payload]).collect();
            assert_eq!(payloads, [b"short", &long[..]]);
        }
        assert_eq!(bench.sender.sent(), 40);
        assert_eq!(bench.sender.rejected(), 0);
    }

    #[test]
    fn rings_shorter_than_the_frames_do_not_stall() {
        let mut bench = bench_with_slots(1500, 2);
        for round in 0..20 {
            for _ in 0..2 {
                assert_eq!(bench.send(b"x"), Ok(()), "{round}");
            }
            assert_eq!(bench.send(b"x"), Err(SendError::Full));
            bench.flush(None).unwrap();
            assert_eq!(bench.kernel_sends().len(), 2, "its completion ring has room");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_whole() {
        let mut bench = bench(5000);
        assert_eq!(bench.sender.payload_bytes_max(bench.route.head()), 5000 - 28);
        assert_eq!(bench.send(&[0; 4973]), Err(SendError::TooLong));
        assert_eq!(bench.send(&[1; 4972]), Ok(()));
        assert_eq!(bench.send(&[2; 4972]), Ok(()));
        assert_eq!(bench.send(&[3; 4972]), Err(SendError::Full), "two frames are left, and it needs three");
        assert_eq!(bench.send(&[4; 2000]), Ok(()));
        assert_eq!(bench.send(&[5]), Ok(()));
        assert_eq!(bench.send(&[6]), Err(SendError::Full));
        bench.flush(None).unwrap();
        let first: Vec<u8> = bench.kernel_sends().iter().map(|packet| packet[42]).collect();
        assert_eq!(first, [1, 2, 4, 5]);
        assert_eq!(bench.send(&[7]), Ok(()), "frames are taken back when they are needed");
    }

    #[test]
    fn a_flush_ends_whatever_the_kernel_answers() {
        let mut bench = bench(1500);
        bench.flush(Some(libc::ENETDOWN)).unwrap();
        assert_eq!(bench.wakes, 0, "there is nothing to send");
        bench.send(b"x").unwrap();
        for answer in [libc::EAGAIN, libc::ENOBUFS, libc::EBUSY] {
            bench.wakes = 0;
            bench.flush(Some(answer)).unwrap();
            assert_eq!(bench.wakes, 1, "{answer}: the kernel took nothing");
        }
        let down = bench.flush(Some(libc::ENETDOWN)).unwrap_err();
        assert_eq!(down.0.raw_os_error(), Some(libc::ENETDOWN));
    }

    #[test]
    fn a_kernel_that_sends_in_batches_is_asked_until_all_is_sent() {
        let mut bench = bench(1500);
        for _ in 0..2 {
            bench.send(b"x").unwrap();
        }
        let Bench { umem, sender, kernel_transmit, .. } = &mut bench;
        let mut wakes = 0;
        let flushed = sender.flush(umem, || {
            wakes += 1;
            kernel_transmit.pop().unwrap();
            kernel_transmit.release();
            Err(io::Error::from_raw_os_error(libc::EAGAIN))
        });
        assert!(flushed.is_ok());
        assert_eq!((wakes, sender.is_sending()), (2, false));
    }

    #[test]
    fn completions_that_lie_free_nothing() {
        let mut bench = bench(1500);
        bench.send(b"x").unwrap();
        for address in [u64::MAX, 0, 4096] {
            assert!(bench.kernel_completion.push(address));
        }
        bench.kernel_completion.publish();
        assert_eq!(bench.sender.reap(&mut bench.umem), 0);
        assert_eq!(bench.sender.rejected(), 3);
        assert_eq!(bench.sender.free.len(), FRAMES as usize - 1);
        bench.hostile.claim_produced(1 << 31);
        assert_eq!(bench.sender.reap(&mut bench.umem), 0, "it ends");
        assert_eq!(bench.sender.rejected(), 3 + 8);
    }

    #[test]
    fn a_caller_that_panics_loses_no_frame() {
        let mut bench = bench(1500);
        let Bench { umem, sender, route, .. } = &mut bench;
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            sender.send(umem, route.head(), 1, |_| panic!("a test"))
        }));
        assert!(panicked.is_err());
        assert_eq!(bench.sender.free.len(), FRAMES as usize);
    }
}
