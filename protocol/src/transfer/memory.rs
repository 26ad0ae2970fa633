//! What a receiver remembers so that nothing is delivered twice.
//!
//! A sender repeats only tensors whose acknowledgement it has not seen. At most [`WINDOW_TENSORS`] of those it
//! has sent are unacknowledged, and acknowledgements arrive in the order in which they were sent, so the ones
//! it has not seen are a suffix of them. Remembering what is still held and the last window of what was taken
//! is therefore exact, however long the stream is.

use std::collections::{BTreeSet, VecDeque};

use crate::frame::Sequence;
use crate::limits::WINDOW_TENSORS;

#[derive(Debug)]
pub(super) struct Memory {
    /// Arrived whole, not yet taken.
    held: BTreeSet<Sequence>,
    /// Taken, in that order, with an index.
    taken: VecDeque<Sequence>,
    index: BTreeSet<Sequence>,
}

impl Memory {
    pub(super) const fn new() -> Self {
        Self { held: BTreeSet::new(), taken: VecDeque::new(), index: BTreeSet::new() }
    }

    pub(super) fn knows(&self, sequence: Sequence) -> bool {
        self.holds(sequence) || self.index.contains(&sequence)
    }

    pub(super) fn holds(&self, sequence: Sequence) -> bool {
        self.held.contains(&sequence)
    }

    pub(super) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn held(&self) -> u64 {
        self.held.len() as u64
    }

    pub(super) fn held_below(&self, base: Sequence) -> u64 {
        self.held.range(..base).count() as u64
    }

    pub(super) fn arrived(&mut self, sequence: Sequence) {
        self.held.insert(sequence);
    }

    pub(super) fn forget(&mut self, sequence: Sequence) {
        self.held.remove(&sequence);
    }

    /// Whether it was held until now.
    pub(super) fn taken(&mut self, sequence: Sequence) -> bool {
        if !self.held.remove(&sequence) {
            return false;
        }
        self.taken.push_back(sequence);
        self.index.insert(sequence);
        let over = u64::try_from(self.taken.len()).is_ok_and(|length| length > WINDOW_TENSORS);
        if over && let Some(oldest) = self.taken.pop_front() {
            self.index.remove(&oldest);
        }
        true
    }

    /// The sender has seen every acknowledgement below `base`.
    pub(super) fn settle_below(&mut self, base: Sequence) {
        self.taken.retain(|sequence| *sequence >= base);
        self.index.retain(|sequence| *sequence >= base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_what_was_taken_and_all_that_is_held() {
        let mut memory = Memory::new();
        memory.arrived(Sequence(0));
        for sequence in 1..=2 * WINDOW_TENSORS {
            memory.arrived(Sequence(sequence));
            assert!(memory.taken(Sequence(sequence)));
            assert!(!memory.taken(Sequence(sequence)));
        }
        assert!(memory.knows(Sequence(0)), "held for however long");
        assert!(!memory.knows(Sequence(WINDOW_TENSORS)));
        assert!(memory.knows(Sequence(WINDOW_TENSORS + 1)));
        memory.settle_below(Sequence(2 * WINDOW_TENSORS));
        assert!(!memory.knows(Sequence(2 * WINDOW_TENSORS - 1)));
        assert!(memory.knows(Sequence(2 * WINDOW_TENSORS)));
    }
}
