//! A ring in mapped memory, laid out as the kernel says.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::shared::Shared;
use crate::memory::{OutOfBounds, Region};

/// Where the parts of a ring begin, in bytes: `struct xdp_ring_offset`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offsets {
    pub(crate) producer: usize,
    pub(crate) consumer: usize,
    pub(crate) flags: usize,
    pub(crate) items: usize,
}

/// A ring whose items are plain values of the kernel's layout.
///
/// Invariant: the pointers are aligned and lie in `region`, the last one with `slots` items behind it.
#[derive(Debug)]
pub(crate) struct Mapped<T> {
    produced: NonNull<AtomicU32>,
    consumed: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    items: NonNull<T>,
    slots: u32,
    /// Keeps the memory behind the pointers. Shared only by tests, which play the kernel.
    _region: Arc<Region>,
}

// SAFETY: the memory behind the pointers belongs to the value through `_region`, and no thread has a special claim to it.
unsafe impl<T: Send> Send for Mapped<T> {}

impl<T> Mapped<T> {
    /// Holds what the kernel says about the layout against the memory that it mapped. The memory goes in whole: of this
    /// process, nobody else has a side of the ring.
    ///
    /// `slots` must be a power of two.
    pub(crate) fn new(region: Region, offsets: Offsets, slots: u32) -> Result<Self, OutOfBounds> {
        Self::over(Arc::new(region), offsets, slots)
    }

    fn over(region: Arc<Region>, offsets: Offsets, slots: u32) -> Result<Self, OutOfBounds> {
        if !slots.is_power_of_two() {
            return Err(OutOfBounds);
        }
        Ok(Self {
            produced: region.pointer(offsets.producer, 1)?,
            consumed: region.pointer(offsets.consumer, 1)?,
            flags: region.pointer(offsets.flags, 1)?,
            items: region.pointer(offsets.items, slots as usize)?,
            slots,
            _region: region,
        })
    }

    /// Bytes that a ring of so many slots takes, from the beginning of its memory.
    pub(crate) fn bytes(offsets: Offsets, slots: u32) -> Option<usize> {
        size_of::<T>().checked_mul(slots as usize)?.checked_add(offsets.items)
    }
}

// SAFETY: the count never changes and is a power of two; the pointers are valid by the invariant of the type.
unsafe impl<T: Copy> Shared for Mapped<T> {
    type Index = AtomicU32;
    type Item = T;

    fn slots(&self) -> u32 {
        self.slots
    }

    fn produced(&self) -> &AtomicU32 {
        // SAFETY: valid by the invariant of the type; the kernel too changes it as an atomic.
        unsafe { self.produced.as_ref() }
    }

    fn consumed(&self) -> &AtomicU32 {
        // SAFETY: valid by the invariant of the type; the kernel too changes it as an atomic.
        unsafe { self.consumed.as_ref() }
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: valid by the invariant of the type; the kernel too changes it as an atomic.
        let flags = unsafe { self.flags.as_ref() };
        // Relaxed: a hint about no other memory.
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    unsafe fn put(&self, slot: u32, item: T) {
        // SAFETY: the caller keeps `slot` below the count, and that many items lie behind the pointer.
        let place = unsafe { self.items.add(slot as usize) };
        // SAFETY: aligned and valid; of this process only the caller touches it. Volatile, because the kernel is outside
        // of what the compiler knows.
        unsafe { place.write_volatile(item) };
    }

    unsafe fn take(&self, slot: u32) -> T {
        // SAFETY: the caller keeps `slot` below the count, and that many items lie behind the pointer.
        let place = unsafe { self.items.add(slot as usize) };
        // SAFETY: aligned and valid, and any bytes are an item: integers of the kernel. Volatile, so that an item is read
        // once and what was checked is what is used, even if a kernel changed it meanwhile.
        unsafe { place.read_volatile() }
    }
}

#[cfg(test)]
impl<T: Copy> Mapped<T> {
    /// As a kernel that claims to have produced so many items.
    pub(crate) fn claim_produced(&self, count: u32) {
        self.produced().store(count, Ordering::Relaxed);
    }

    /// As a kernel that wants to be told.
    pub(crate) fn ask_for_wakeup(&self) {
        // SAFETY: valid by the invariant of the type.
        let flags = unsafe { self.flags.as_ref() };
        flags.store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::consumer::Consumer;
    use super::super::producer::Producer;
    use super::*;

    /// A layout like the kernel's: indices on lines of their own, items behind them.
    const OFFSETS: Offsets = Offsets { producer: 0, consumer: 64, flags: 128, items: 192 };

    /// Both sides of a ring in ordinary memory, and the ring itself for a test that plays a hostile kernel.
    pub(crate) fn pair<T: Copy>(slots: u32) -> (Producer<Mapped<T>>, Consumer<Mapped<T>>, Mapped<T>) {
        let region = Arc::new(Region::anonymous(Mapped::<T>::bytes(OFFSETS, slots).unwrap()).unwrap());
        let ring = || Mapped::over(Arc::clone(&region), OFFSETS, slots).unwrap();
        (Producer::new(ring()), Consumer::new(ring()), ring())
    }

    #[test]
    fn a_layout_outside_of_the_memory_is_refused() {
        let region = Arc::new(Region::anonymous(192 + 8 * 8).unwrap());
        let attempt = |offsets, slots| Mapped::<u64>::over(Arc::clone(&region), offsets, slots).is_ok();
        assert!(attempt(OFFSETS, 8));
        assert!(!attempt(OFFSETS, 16), "items beyond the end");
        assert!(!attempt(OFFSETS, 6), "not a power of two");
        assert!(!attempt(Offsets { producer: 2, ..OFFSETS }, 8), "not aligned");
        assert!(!attempt(Offsets { consumer: 256, ..OFFSETS }, 8));
        assert!(!attempt(Offsets { flags: usize::MAX, ..OFFSETS }, 8));
        assert_eq!(Mapped::<u64>::bytes(Offsets { items: usize::MAX, ..OFFSETS }, 8), None);
    }

    #[test]
    fn items_pass_in_order_and_only_when_published() {
        let (mut producer, mut consumer, _) = pair::<u64>(4);
        assert_eq!(consumer.pop(), None);
        for item in 0..4 {
            assert!(producer.push(item));
        }
        assert!(!producer.push(4), "full");
        assert_eq!(consumer.pop(), None, "nothing was published");
        producer.publish();
        assert_eq!((consumer.pop(), consumer.pop()), (Some(0), Some(1)));
        assert_eq!(producer.free(), 0, "slots are given back by release alone");
        consumer.release();
        assert_eq!(producer.free(), 2);
        assert!(!producer.is_drained());
        assert_eq!((consumer.pop(), consumer.pop(), consumer.pop()), (Some(2), Some(3), None));
        consumer.release();
        assert!(producer.is_drained());
    }

    #[test]
    fn indices_wrap_around() {
        let (mut producer, mut consumer, ring) = pair::<u32>(2);
        let begin = u32::MAX - 1;
        (producer, consumer) = (producer.beginning_at(begin), consumer.beginning_at(begin));
        ring.produced().store(begin, Ordering::Relaxed);
        ring.consumed().store(begin, Ordering::Relaxed);
        for item in 0..8 {
            assert!(producer.push(item));
            producer.publish();
            assert_eq!(consumer.pop(), Some(item));
            consumer.release();
        }
        assert_eq!(ring.produced().load(Ordering::Relaxed), 6);
    }

    #[test]
    fn a_hostile_consumer_frees_no_more_than_the_ring_has() {
        let (mut producer, _, ring) = pair::<u64>(8);
        for claimed in [1, 9, 1 << 20, u32::MAX / 2] {
            ring.consumed().store(claimed, Ordering::Relaxed);
            assert_eq!(producer.free(), 0, "{claimed}: nothing was written that could have been consumed");
        }
        ring.consumed().store(u32::MAX, Ordering::Relaxed);
        assert_eq!(producer.free(), 7, "taking back what was never given makes less free, not more");
    }

    #[test]
    fn two_threads_pass_everything_in_order() {
        const ITEMS: u64 = if cfg!(miri) { 64 } else { 100_000 };
        let (mut producer, mut consumer, _) = pair::<u64>(8);
        let filling = std::thread::spawn(move || {
            for item in 0..ITEMS {
                while !producer.push(item) {
                    std::thread::yield_now();
                }
                producer.publish();
            }
        });
        let mut expected = 0;
        while expected < ITEMS {
            match consumer.pop() {
                Some(item) => {
                    assert_eq!(item, expected);
                    expected += 1;
                    consumer.release();
                }
                None => std::thread::yield_now(),
            }
        }
        filling.join().unwrap();
    }
}
