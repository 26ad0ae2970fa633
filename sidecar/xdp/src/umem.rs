//! UMEM: the frames that packets lie in, and who holds each.
//!
//! Invariant: a frame is in exactly one place. A [`Frame`] exists for each that is ours, and for no other; a frame that
//! was lent to the kernel comes back only through a descriptor that names it, and only from where it was lent to.
//!
//! Descriptors are hostile by assumption: an address, a length or options that do not fit are [`Rejected`], which costs
//! a packet and never memory.

use std::io;
use std::ops::Range;

use crate::memory::Region;
use crate::sys::xdp::{CONTINUES, Descriptor};

/// A frame that is ours. It cannot be copied, so it cannot be lent twice.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame that is dropped is never used again"]
pub(crate) struct Frame(u32);

/// A frame with a packet, or a part of one, in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) frame: Frame,
    /// Where in the frame the bytes are. Within the frame.
    pub(crate) range: Range<usize>,
    /// Whether the packet goes on in the next descriptor.
    pub(crate) continues: bool,
}

/// Why a descriptor was not believed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Rejected {
    /// Kernel: it names no frame, or one that it was not lent.
    #[error("a descriptor names a frame that is not the kernel's to give")]
    Foreign,
    /// Kernel: the frame is back, but what is said about its content is not possible.
    #[error("a descriptor does not lie in its frame")]
    Misshapen(Frame),
}

/// Where a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Ours,
    /// On the fill ring, or with the kernel, or on the receive ring.
    Receiving,
    /// On the transmit ring, or with the kernel, or on the completion ring.
    Transmitting,
}

/// The memory of all frames of a queue.
#[derive(Debug)]
pub(crate) struct Umem {
    region: Region,
    frame_bytes: u32,
    places: Box<[Place]>,
}

impl Umem {
    /// `count` frames of `frame_bytes` each, all of them ours. `frame_bytes` must be a power of two.
    pub(crate) fn new(count: u32, frame_bytes: u32) -> io::Result<(Self, Vec<Frame>)> {
        let bytes = (count as usize).checked_mul(frame_bytes as usize);
        let bytes = bytes.filter(|_| frame_bytes.is_power_of_two()).ok_or(io::ErrorKind::InvalidInput)?;
        let region = Region::anonymous(bytes)?;
        let places = vec![Place::Ours; count as usize].into_boxed_slice();
        Ok((Self { region, frame_bytes, places }, (0..count).map(Frame).collect()))
    }

    /// Where the memory lies in this process.
    pub(crate) fn address(&self) -> u64 {
        self.region.address()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.region.bytes()
    }

    pub(crate) fn frame_bytes(&self) -> u32 {
        self.frame_bytes
    }

    /// Gives a frame to the kernel to receive into. Returns what goes on the fill ring.
    pub(crate) fn lend_to_receive(&mut self, frame: Frame) -> u64 {
        self.lend(frame, Place::Receiving)
    }

    /// Gives a frame to the kernel to send its first `length` bytes. Returns what goes on the transmit ring.
    pub(crate) fn lend_to_transmit(&mut self, frame: Frame, length: u32, continues: bool) -> Descriptor {
        let options = if continues { CONTINUES } else { 0 };
        Descriptor { address: self.lend(frame, Place::Transmitting), length, options }
    }

    /// Takes back what the receive ring holds.
    pub(crate) fn received(&mut self, descriptor: Descriptor) -> Result<Received, Rejected> {
        let frame = self.back(descriptor.address, Place::Receiving)?;
        let start = descriptor.address % u64::from(self.frame_bytes);
        let end = start + u64::from(descriptor.length);
        if end > u64::from(self.frame_bytes) || descriptor.options & !CONTINUES != 0 {
            return Err(Rejected::Misshapen(frame));
        }
        // Both fit: they are at most the bytes of a frame.
        let range = start as usize..end as usize;
        Ok(Received { frame, range, continues: descriptor.options & CONTINUES != 0 })
    }

    /// Takes back what the completion ring holds.
    pub(crate) fn transmitted(&mut self, address: u64) -> Result<Frame, Rejected> {
        self.back(address, Place::Transmitting)
    }

    /// The bytes of a frame. None for a frame of other memory, or for a range that is not in it.
    pub(crate) fn slice(&mut self, frame: &Frame, range: Range<usize>) -> Option<&mut [u8]> {
        let bytes = self.frame_bytes as usize;
        if self.places.get(frame.0 as usize) != Some(&Place::Ours) || range.end > bytes {
            return None;
        }
        let begin = frame.0 as usize * bytes;
        // SAFETY: the frame is ours, so the kernel has no claim to it, and the borrow of `self` keeps others out.
        unsafe { self.region.slice(begin + range.start..begin + range.end) }
    }

    fn lend(&mut self, frame: Frame, to: Place) -> u64 {
        if let Some(place) = self.places.get_mut(frame.0 as usize) {
            *place = to;
        }
        u64::from(frame.0) * u64::from(self.frame_bytes)
    }

    /// The frame that holds `address`, if the kernel has it for `from`. It is ours afterwards.
    fn back(&mut self, address: u64, from: Place) -> Result<Frame, Rejected> {
        let number = u32::try_from(address / u64::from(self.frame_bytes)).map_err(|_| Rejected::Foreign)?;
        match self.places.get_mut(number as usize) {
            Some(place) if *place == from => {
                *place = Place::Ours;
                Ok(Frame(number))
            }
            _ => Err(Rejected::Foreign),
        }
    }
}

#[cfg(test)]
impl Umem {
    /// Frames that are lent to be received into.
    pub(crate) fn receiving(&self) -> usize {
        self.places.iter().filter(|place| **place == Place::Receiving).count()
    }

    /// Writes a packet as the kernel does.
    pub(crate) fn write_as_kernel(&mut self, address: u64, bytes: &[u8]) {
        let begin = address as usize;
        // SAFETY: the memory of a test is registered with no kernel, and the borrow of `self` keeps others out.
        let place = unsafe { self.region.slice(begin..begin + bytes.len()) };
        place.unwrap().copy_from_slice(bytes);
    }

    /// Reads a packet as the kernel does.
    pub(crate) fn read_as_kernel(&mut self, address: u64, length: u32) -> Vec<u8> {
        let begin = address as usize;
        // SAFETY: the memory of a test is registered with no kernel, and the borrow of `self` keeps others out.
        unsafe { self.region.slice(begin..begin + length as usize) }.unwrap().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COUNT: u32 = 8;
    const FRAME_BYTES: u32 = 2048;

    #[test]
    fn a_frame_comes_back_once_and_from_where_it_was_lent() {
        let (mut umem, mut frames) = Umem::new(COUNT, FRAME_BYTES).unwrap();
        let address = umem.lend_to_receive(frames.remove(3));
        assert_eq!(address, 3 * 2048);
        assert_eq!(umem.transmitted(address), Err(Rejected::Foreign));
        let descriptor = Descriptor { address: address + 256, length: 100, options: 0 };
        let received = umem.received(descriptor).unwrap();
        assert_eq!((received.range.clone(), received.continues), (256..356, false));
        assert_eq!(umem.slice(&received.frame, received.range).unwrap().len(), 100);
        assert_eq!(umem.received(descriptor), Err(Rejected::Foreign), "it is ours already");
    }

    #[test]
    fn what_does_not_fit_its_frame_is_rejected_and_the_frame_kept() {
        let (mut umem, mut frames) = Umem::new(COUNT, FRAME_BYTES).unwrap();
        for (offset, length, options) in
            [(0, 2049, 0), (2047, 2, 0), (1, u32::MAX, 0), (0, 1, 2), (0, 1, u32::MAX)]
        {
            let address = umem.lend_to_receive(frames.pop().unwrap()) + offset;
            match umem.received(Descriptor { address, length, options }) {
                Err(Rejected::Misshapen(frame)) => frames.push(frame),
                other => panic!("{offset} {length} {options}: {other:?}"),
            }
        }
        for address in [u64::from(COUNT * FRAME_BYTES), u64::MAX, 1 << 43] {
            assert_eq!(umem.transmitted(address), Err(Rejected::Foreign));
        }
    }

    #[test]
    fn a_frame_that_is_not_ours_has_no_bytes() {
        let (mut umem, mut frames) = Umem::new(COUNT, FRAME_BYTES).unwrap();
        let frame = frames.pop().unwrap();
        assert!(umem.slice(&frame, 0..2049).is_none());
        let forged = Frame(frame.0);
        assert!(umem.slice(&forged, 0..1).is_some());
        let _ = umem.lend_to_transmit(frame, 1, false);
        assert!(umem.slice(&forged, 0..1).is_none());
        assert!(umem.slice(&Frame(COUNT), 0..1).is_none());
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        LendToReceive,
        LendToTransmit,
        Received(Descriptor),
        Transmitted(u64),
    }

    /// Anything, and often something that is nearly right.
    fn address() -> impl Strategy<Value = u64> {
        let size = u64::from(COUNT * FRAME_BYTES);
        prop_oneof![4 => 0..size, 1 => size - 2..size + 2, 1 => any::<u64>()]
    }

    fn step() -> impl Strategy<Value = Step> {
        let length = prop_oneof![3 => 0..=FRAME_BYTES, 1 => any::<u32>()];
        let options = prop_oneof![3 => 0..=CONTINUES, 1 => any::<u32>()];
        let descriptor = (address(), length, options).prop_map(|(address, length, options)| Descriptor {
            address,
            length,
            options,
        });
        prop_oneof![
            Just(Step::LendToReceive),
            Just(Step::LendToTransmit),
            descriptor.prop_map(Step::Received),
            address().prop_map(Step::Transmitted),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, cases: if cfg!(miri) { 8 } else { 2048 }, ..ProptestConfig::default() })]

        /// Whatever a kernel says, every frame is in one place, and what is handed out is ours to write.
        #[test]
        fn hostile_descriptors_never_give_a_frame_twice(steps in prop::collection::vec(step(), 0..64)) {
            let (mut umem, mut ours) = Umem::new(COUNT, FRAME_BYTES).unwrap();
            let mut receiving = std::collections::BTreeSet::new();
            let mut transmitting = std::collections::BTreeSet::new();
            for step in steps {
                match step {
                    Step::LendToReceive => if let Some(frame) = ours.pop() {
                        receiving.insert(umem.lend_to_receive(frame) / u64::from(FRAME_BYTES));
                    },
                    Step::LendToTransmit => if let Some(frame) = ours.pop() {
                        let descriptor = umem.lend_to_transmit(frame, 1, false);
                        transmitting.insert(descriptor.address / u64::from(FRAME_BYTES));
                    },
                    Step::Received(descriptor) => match umem.received(descriptor) {
                        Ok(Received { frame, range, .. }) => {
                            prop_assert!(receiving.remove(&u64::from(frame.0)));
                            prop_assert_eq!(range.len(), descriptor.length as usize);
                            umem.slice(&frame, range).unwrap().fill(0xaa);
                            ours.push(frame);
                        }
                        Err(Rejected::Misshapen(frame)) => {
                            prop_assert!(receiving.remove(&u64::from(frame.0)));
                            ours.push(frame);
                        }
                        Err(Rejected::Foreign) => {
                            prop_assert!(!receiving.contains(&(descriptor.address / u64::from(FRAME_BYTES))));
                        }
                    },
                    Step::Transmitted(address) => match umem.transmitted(address) {
                        Ok(frame) => {
                            prop_assert!(transmitting.remove(&u64::from(frame.0)));
                            ours.push(frame);
                        }
                        Err(_) => prop_assert!(!transmitting.contains(&(address / u64::from(FRAME_BYTES)))),
                    },
                }
                let numbers: std::collections::BTreeSet<u32> = ours.iter().map(|frame| frame.0).collect();
                prop_assert_eq!(numbers.len(), ours.len());
                prop_assert_eq!(ours.len() + receiving.len() + transmitting.len(), COUNT as usize);
            }
        }
    }
}
