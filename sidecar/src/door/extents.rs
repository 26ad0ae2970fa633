//! Which parts of a segment are free. Lowest address first, neighbours joined: an everyday stream keeps to the same
//! few pages, which stay in the caches.

use std::collections::BTreeMap;

use super::limits::SLOT_ALIGNMENT;

#[derive(Debug)]
pub(super) struct Extents {
    bytes: u64,
    /// Offset to length, disjoint and never adjacent.
    free: BTreeMap<u64, u64>,
}

/// `bytes` rounded up to a whole number of slots.
pub(super) fn aligned(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(SLOT_ALIGNMENT)
}

impl Extents {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, free: BTreeMap::from([(0, bytes)]) }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn all_free(&self) -> bool {
        self.free.get(&0) == Some(&self.bytes)
    }

    /// Takes `bytes` (aligned, not 0); None when no gap is large enough.
    pub(super) fn take(&mut self, bytes: u64) -> Option<u64> {
        let (&offset, &length) = self.free.iter().find(|(_, length)| **length >= bytes)?;
        self.free.remove(&offset);
        if length > bytes {
            self.free.insert(offset + bytes, length - bytes);
        }
        Some(offset)
    }

    /// Gives back what [`Extents::take`] gave.
    pub(super) fn give(&mut self, mut offset: u64, mut bytes: u64) {
        if let Some(after) = self.free.remove(&(offset + bytes)) {
            bytes += after;
        }
        if let Some((&before, &length)) = self.free.range(..offset).next_back()
            && before + length == offset
        {
            offset = before;
            bytes += length;
        }
        self.free.insert(offset, bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Slots never overlap, and giving everything back leaves one whole gap, whatever the order.
        #[test]
        fn slots_are_disjoint_and_join_again(sizes in prop::collection::vec(1_u64..2_000, 1..60), keep in any::<u64>()) {
            let mut extents = Extents::new(32_768);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (index, size) in sizes.iter().enumerate() {
                let bytes = aligned(*size).unwrap();
                if let Some(offset) = extents.take(bytes) {
                    prop_assert!(offset + bytes <= 32_768);
                    prop_assert!(held.iter().all(|(other, length)| offset + bytes <= *other || other + length <= offset));
                    held.push((offset, bytes));
                }
                if keep >> (index % 64) & 1 == 0 && !held.is_empty() {
                    let (offset, bytes) = held.swap_remove(index % held.len());
                    extents.give(offset, bytes);
                }
            }
            for (offset, bytes) in held {
                extents.give(offset, bytes);
            }
            prop_assert!(extents.all_free());
        }
    }
}
