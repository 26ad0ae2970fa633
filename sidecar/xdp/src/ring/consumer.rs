//! The side that empties a ring: the receive ring and the completion ring.

use std::sync::atomic::Ordering;

use super::shared::{Index, Shared};

/// Reads items and gives their slots back in batches.
#[derive(Debug)]
pub(crate) struct Consumer<S: Shared> {
    shared: S,
    /// Items read so far, given back or not. The index in shared memory is never read back.
    taken: u32,
    /// Items known to be there: as many as when last looked, less those read since.
    ready: u32,
}

impl<S: Shared> Consumer<S> {
    /// The only consumer of `shared`, which nobody has read from yet.
    pub(crate) fn new(shared: S) -> Self {
        Self { shared, taken: 0, ready: 0 }
    }

    /// How many items the ring holds at most.
    pub(crate) fn slots(&self) -> u32 {
        self.shared.slots()
    }

    /// Reads the next item. Its slot is the producer's again after [`Self::release`].
    pub(crate) fn pop(&mut self) -> Option<S::Item> {
        if self.ready == 0 {
            // Acquire: who sees this index sees the items below it.
            let produced = self.shared.produced().load(Ordering::Acquire);
            // A producer that claims more than there is room for has written at most that.
            self.ready = produced.wrapping_sub(self.taken).min(self.shared.slots());
        }
        self.ready = self.ready.checked_sub(1)?;
        let slot = self.taken & (self.shared.slots() - 1);
        // SAFETY: the mask keeps the slot below the count, a power of two. There is one consumer, it is borrowed
        // mutably, and an honest producer writes no slot that it was not given back.
        let item = unsafe { self.shared.take(slot) };
        self.taken = self.taken.wrapping_add(1);
        Some(item)
    }

    /// Gives the slots of all items read so far back to the producer.
    pub(crate) fn release(&mut self) {
        // Release: what was read from a slot was read before the producer can write it again.
        self.shared.consumed().store(self.taken, Ordering::Release);
    }
}

#[cfg(test)]
impl<S: Shared> Consumer<S> {
    /// As after so many items.
    pub(crate) fn beginning_at(self, taken: u32) -> Self {
        Self { taken, ready: 0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapped::tests::pair;

    #[test]
    fn a_hostile_producer_has_written_a_ring_at_most() {
        for claimed in [9, 1 << 20, u32::MAX] {
            let (_, mut consumer, ring) = pair::<u64>(8);
            ring.claim_produced(claimed);
            assert!(consumer.pop().is_some());
            assert_eq!(consumer.ready, 7, "{claimed}");
        }
    }
}
