//! The half of a link that receives: frames lent through the fill ring, taken back from the receive ring.

use std::net::SocketAddr;

use super::gather::{Gather, Gathered};
use crate::packet::{self, MacAddress, Parsed};
use crate::ring::{Consumer, Mapped, Producer};
use crate::sys::xdp::{CONTINUES, Descriptor};
use crate::umem::{Frame, Received, Rejected, Umem};

/// A packet that was received.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// Who sent it on this Ethernet: the peer, or the last router. Anybody can write it; it is worth as much as what
    /// authenticates the payload.
    pub source_mac: MacAddress,
    /// In the frame itself, or in memory of the link if it spans frames. It cannot be written: what is opened belongs in
    /// memory that is the caller's alone.
    pub payload: &'a [u8],
}

/// What came of descriptors and packets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReceiverCounters {
    pub(super) received: u64,
    pub(super) rejected: u64,
    pub(super) malformed: u64,
    pub(super) cut: u64,
}

#[derive(Debug)]
pub(super) struct Receiver {
    ring: Consumer<Mapped<Descriptor>>,
    fill: Producer<Mapped<u64>>,
    /// Frames that are ours and are to go on the fill ring.
    waiting: Vec<Frame>,
    gather: Gather,
    counters: ReceiverCounters,
}

impl Receiver {
    pub(super) fn new(
        ring: Consumer<Mapped<Descriptor>>,
        fill: Producer<Mapped<u64>>,
        frames: Vec<Frame>,
        fragments: bool,
        umem: &mut Umem,
    ) -> Self {
        let gather = Gather::new(fragments);
        let mut receiver =
            Self { ring, fill, waiting: frames, gather, counters: ReceiverCounters::default() };
        receiver.refill(umem);
        receiver
    }

    pub(super) fn counters(&self) -> ReceiverCounters {
        self.counters
    }

    pub(super) fn needs_wakeup(&self) -> bool {
        self.fill.needs_wakeup()
    }

    /// Takes at most `budget` descriptors; returns how many packets were whole.
    pub(super) fn receive(
        &mut self,
        umem: &mut Umem,
        budget: usize,
        mut each: impl FnMut(Arrival<'_>),
    ) -> usize {
        let before = self.counters.received;
        let mut taken = 0;
        while taken < budget {
            let Some(descriptor) = self.ring.pop() else { break };
            taken += 1;
            self.take(umem, descriptor, &mut each);
        }
        if taken > 0 {
            self.ring.release();
            self.refill(umem);
        }
        // As many as the budget at most, which is a `usize`.
        (self.counters.received - before) as usize
    }

    /// Takes back what a descriptor names and hands on what it holds.
    fn take(&mut self, umem: &mut Umem, descriptor: Descriptor, each: &mut impl FnMut(Arrival<'_>)) {
        let received = match umem.received(descriptor) {
            Ok(received) => received,
            Err(rejected) => {
                self.counters.rejected += 1;
                if let Rejected::Misshapen(frame) = rejected {
                    self.waiting.push(frame);
                }
                return self.lose(descriptor.options & CONTINUES != 0);
            }
        };
        let Received { frame, range, continues } = received;
        // First of all the frame is where it goes next, so that it is not lost if the caller panics.
        self.waiting.push(frame);
        let Some(bytes) = self.waiting.last().and_then(|frame| umem.slice(frame, range)) else { return };
        let packet = if self.gather.is_between() && !continues {
            bytes
        } else {
            match self.gather.add(bytes, continues) {
                Gathered::Packet(packet) => packet,
                Gathered::More => return,
                Gathered::Cut => {
                    self.counters.cut += 1;
                    return;
                }
            }
        };
        match packet::parse(packet) {
            Ok(Parsed { source_mac, from, to, payload }) => {
                self.counters.received += 1;
                each(Arrival { from, to, source_mac, payload: &packet[payload] });
            }
            Err(_) => self.counters.malformed += 1,
        }
    }

    /// Gives up the packet that a rejected descriptor was a part of, if there is one.
    fn lose(&mut self, continues: bool) {
        let within = !self.gather.is_between();
        if self.gather.skip(continues) == Gathered::Cut && within {
            self.counters.cut += 1;
        }
    }

    /// Lends the kernel as many frames as the fill ring takes.
    fn refill(&mut self, umem: &mut Umem) {
        while !self.waiting.is_empty() {
            let Some(slot) = self.fill.slot() else { break };
            if let Some(frame) = self.waiting.pop() {
                slot.write(umem.lend_to_receive(frame));
            }
        }
        self.fill.publish();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::Head;
    use crate::ring::pair;

    const FRAMES: u32 = 8;
    const FRAME_BYTES: u32 = 2048;

    /// A receiver, its memory, and the kernel's ends of its rings.
    struct Bench {
        umem: Umem,
        receiver: Receiver,
        kernel_fill: Consumer<Mapped<u64>>,
        kernel_receive: Producer<Mapped<Descriptor>>,
    }

    fn bench() -> Bench {
        let (mut umem, frames) = Umem::new(FRAMES, FRAME_BYTES).unwrap();
        let (kernel_receive, ring, _) = pair(8);
        let (fill, kernel_fill, _) = pair(8);
        let receiver = Receiver::new(ring, fill, frames, true, &mut umem);
        Bench { umem, receiver, kernel_fill, kernel_receive }
    }

    impl Bench {
        /// What a kernel does with a packet: frames from the fill ring, pieces of at most `piece` bytes.
        fn deliver(&mut self, packet: &[u8], piece: usize) {
            let mut pieces = packet.chunks(piece).peekable();
            while let Some(bytes) = pieces.next() {
                let address = self.kernel_fill.pop().expect("a frame to receive into") + 256;
                self.umem.write_as_kernel(address, bytes);
                let options = if pieces.peek().is_some() { CONTINUES } else { 0 };
                let descriptor = Descriptor { address, length: bytes.len() as u32, options };
                assert!(self.kernel_receive.push(descriptor));
            }
            self.kernel_fill.release();
            self.kernel_receive.publish();
        }

        fn received(&mut self, budget: usize) -> Vec<Vec<u8>> {
            let mut payloads = Vec::new();
            let count = self
                .receiver
                .receive(&mut self.umem, budget, |arrival| payloads.push(arrival.payload.to_vec()));
            assert_eq!(count, payloads.len());
            payloads
        }
    }

    fn packet(payload: &[u8]) -> Vec<u8> {
        let mac = |last| MacAddress::new([2, 0, 0, 0, 0, last]);
        let head =
            Head::new(mac(1), "10.0.0.1:1".parse().unwrap(), mac(2), "10.0.0.2:2".parse().unwrap()).unwrap();
        let mut bytes = vec![0; head.bytes() + payload.len()];
        bytes[head.bytes()..].copy_from_slice(payload);
        head.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn packets_arrive_in_place_or_gathered_also_over_two_calls() {
        let mut bench = bench();
        bench.deliver(&packet(b"short"), 1024);
        let long = vec![7; 2500];
        bench.deliver(&packet(&long), 1024);
        assert_eq!(bench.received(2), [b"short".to_vec()]);
        assert_eq!(bench.received(8), [long]);
        for round in 0..64_u8 {
            bench.deliver(&packet(&[round]), 1024);
            assert_eq!(bench.received(1), [vec![round]], "frames go round");
        }
        let counters = bench.receiver.counters();
        assert_eq!((counters.received, counters.rejected, counters.malformed, counters.cut), (66, 0, 0, 0));
    }

    #[test]
    fn a_descriptor_that_lies_costs_its_packet_alone() {
        let mut bench = bench();
        let whole = packet(&[7; 100]);
        bench.deliver(&whole[..50], 50);
        // Not ours to give, in the middle of a packet.
        assert!(bench.kernel_receive.push(Descriptor { address: u64::MAX, length: 1, options: CONTINUES }));
        bench.deliver(&whole[50..], 100);
        bench.deliver(&whole, 1024);
        assert_eq!(bench.received(8), [vec![7; 100]]);
        let counters = bench.receiver.counters();
        assert_eq!((counters.rejected, counters.malformed, counters.cut), (1, 1, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: if cfg!(miri) { 4 } else { 1024 }, ..ProptestConfig::default() })]

        /// However the kernel lies, the frames that are lent and those that wait are all that there are.
        #[test]
        fn frames_are_conserved_under_hostile_descriptors(
            descriptors in prop::collection::vec(
                (0..u64::from(FRAMES * FRAME_BYTES + 9), 0..FRAME_BYTES * 2, 0..4_u32), 0..64),
        ) {
            let mut bench = bench();
            for (address, length, options) in descriptors {
                if !bench.kernel_receive.push(Descriptor { address, length, options }) {
                    bench.kernel_receive.publish();
                    bench.receiver.receive(&mut bench.umem, 3, |arrival| assert!(arrival.payload.len() < 4096));
                }
            }
            bench.kernel_receive.publish();
            while bench.receiver.receive(&mut bench.umem, 64, |_| ()) > 0 {}
            let lent = bench.umem.receiving();
            prop_assert_eq!(lent + bench.receiver.waiting.len(), FRAMES as usize);
        }
    }
}
