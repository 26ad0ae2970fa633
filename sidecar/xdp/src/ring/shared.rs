//! What both sides of a ring see.

use std::sync::atomic::{AtomicU32, Ordering};

/// An index that counts items since the beginning and wraps around at 2^32, as the kernel's do.
pub(crate) trait Index {
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
}

impl Index for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    fn store(&self, value: u32, order: Ordering) {
        self.store(value, order);
    }
}

/// Memory of a ring.
///
/// # Safety
/// [`Self::slots`] is always the same power of two. [`Self::put`] and [`Self::take`] touch no memory but that of their
/// slot, which is valid as long as the value lives.
pub(crate) unsafe trait Shared {
    type Index: Index;
    type Item: Copy;

    /// How many items there is room for.
    fn slots(&self) -> u32;

    /// How many items the producer has published.
    fn produced(&self) -> &Self::Index;

    /// How many items the consumer has given back.
    fn consumed(&self) -> &Self::Index;

    /// Whether the kernel asks to be told that the ring has something for it.
    fn needs_wakeup(&self) -> bool;

    /// Writes a slot.
    ///
    /// # Safety
    /// `slot` is less than [`Self::slots`], and of this process only the caller touches it.
    unsafe fn put(&self, slot: u32, item: Self::Item);

    /// Reads a slot.
    ///
    /// # Safety
    /// `slot` is less than [`Self::slots`], and nobody in this process writes it meanwhile.
    unsafe fn take(&self, slot: u32) -> Self::Item;
}
