//! The side that fills a ring: the fill ring and the transmit ring.

use std::sync::atomic::Ordering;

use super::shared::{Index, Shared};

/// Writes items and publishes them in batches.
#[derive(Debug)]
pub(crate) struct Producer<S: Shared> {
    shared: S,
    /// Items written so far, published or not. The index in shared memory is never read back.
    written: u32,
    /// Slots known to be free: as many as when last looked, less those written since.
    free: u32,
}

/// A slot that can be written. Dropped unwritten, it stays free.
#[derive(Debug)]
pub(crate) struct Slot<'a, S: Shared> {
    producer: &'a mut Producer<S>,
}

impl<S: Shared> Producer<S> {
    /// The only producer of `shared`, which nobody has written to yet.
    pub(crate) fn new(shared: S) -> Self {
        Self { shared, written: 0, free: 0 }
    }

    /// Slots that can be written now.
    pub(crate) fn free(&mut self) -> u32 {
        // Acquire: what the consumer read from a slot, it read before it gave the slot back.
        let consumed = self.shared.consumed().load(Ordering::Acquire);
        // A consumer that claims what was never written, or takes back what it gave, leaves nothing free.
        let used = self.written.wrapping_sub(consumed);
        self.free = self.shared.slots().saturating_sub(used);
        self.free
    }

    /// Whether so many slots can be written now. It looks at shared memory only if it must.
    pub(crate) fn has_room(&mut self, count: u32) -> bool {
        self.free >= count || self.free() >= count
    }

    /// The next free slot, or none if the ring is full.
    pub(crate) fn slot(&mut self) -> Option<Slot<'_, S>> {
        if self.has_room(1) { Some(Slot { producer: self }) } else { None }
    }

    /// Shows the other side what was written.
    pub(crate) fn publish(&mut self) {
        // Release: who sees this index sees the items below it.
        self.shared.produced().store(self.written, Ordering::Release);
    }

    /// Whether everything that was written has been consumed.
    pub(crate) fn is_drained(&mut self) -> bool {
        self.free() == self.shared.slots()
    }

    /// Whether the kernel asks to be told that something was published.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

impl<S: Shared> Slot<'_, S> {
    /// Writes an item, which the other side does not see before [`Producer::publish`].
    pub(crate) fn write(self, item: S::Item) {
        let producer = self.producer;
        let slot = producer.written & (producer.shared.slots() - 1);
        // SAFETY: the mask keeps the slot below the count, a power of two. There is one producer, it is borrowed
        // mutably, and an honest consumer reads no slot that it gave back.
        unsafe { producer.shared.put(slot, item) };
        producer.written = producer.written.wrapping_add(1);
        producer.free -= 1;
    }
}

#[cfg(test)]
impl<S: Shared> Producer<S> {
    /// As after so many items.
    pub(crate) fn beginning_at(self, written: u32) -> Self {
        Self { written, free: 0, ..self }
    }

    /// Whether there was room.
    pub(crate) fn push(&mut self, item: S::Item) -> bool {
        self.slot().map(|slot| slot.write(item)).is_some()
    }
}
