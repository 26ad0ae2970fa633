//! What a put call has accepted and not yet said the last word about. No tasks, no messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::fault::Fault;
use super::limits;
use super::memory::Stored;

/// One lane's accepted tensors.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Their bytes stay until a tensor is taken or uncertain.
    untaken: BTreeMap<u64, Arc<Stored>>,
    /// Accepted, and the client has not been told.
    untold: Vec<(u64, u64)>,
    /// Sequences below the first number were put before the flush of this id.
    flushes: VecDeque<(u64, u64)>,
    uncertain: u64,
}

/// A flush that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flushed {
    pub(super) id: u64,
    pub(super) uncertain: u64,
}

impl Ledger {
    pub(super) fn accept(&mut self, sequence: u64, stored: Arc<Stored>) {
        self.untaken.insert(sequence, stored);
        extend(&mut self.untold, sequence, sequence);
    }

    /// What the client has not been told, each once.
    pub(super) fn accepted(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.untold)
    }

    pub(super) fn flush(&mut self, below: u64, id: u64) -> Result<(), Fault> {
        if self.flushes.len() >= limits::FLUSHES_MAX {
            return Err(Fault::Flushes { max: limits::FLUSHES_MAX });
        }
        self.flushes.push_back((below, id));
        Ok(())
    }

    /// These are taken: their memory is free.
    pub(super) fn taken(&mut self, ranges: &[(u64, u64)]) {
        for (first, last) in ranges {
            self.remove(*first, *last);
        }
    }

    /// It cannot be known whether these are: their memory is free.
    pub(super) fn uncertain(&mut self, ranges: &[(u64, u64)]) {
        for (first, last) in ranges {
            self.uncertain += self.remove(*first, *last) as u64;
        }
    }

    fn remove(&mut self, first: u64, last: u64) -> usize {
        let sequences: Vec<u64> = self.untaken.range(first..=last).map(|(sequence, _)| *sequence).collect();
        sequences.iter().filter_map(|sequence| self.untaken.remove(sequence)).count()
    }

    /// The next flush that is done.
    pub(super) fn flushed(&mut self) -> Option<Flushed> {
        let (below, id) = *self.flushes.front()?;
        if self.untaken.first_key_value().is_some_and(|(sequence, _)| *sequence < below) {
            return None;
        }
        self.flushes.pop_front();
        Some(Flushed { id, uncertain: self.count_uncertain() })
    }

    /// How many became uncertain since this was asked before.
    pub(super) fn count_uncertain(&mut self) -> u64 {
        std::mem::take(&mut self.uncertain)
    }
}

/// Adds a run to ranges, joined with the last one where they meet.
pub(super) fn extend(ranges: &mut Vec<(u64, u64)>, first: u64, last: u64) {
    match ranges.last_mut() {
        Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
        _ => ranges.push((first, last)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Store;
    use super::*;
    use crate::door::budget::{Budget, Side};

    #[tokio::test]
    async fn a_flush_waits_for_what_was_put_before_it_and_no_more() {
        let budget = Budget::new(64 << 20, crate::metrics::Door::default());
        let store = Store::new(Side::Put, &budget, 0).await;
        let mut ledger = Ledger::default();
        for sequence in [0, 1, 2, 7] {
            ledger.accept(sequence, Arc::new(store.place(8).await.unwrap()));
        }
        assert_eq!(ledger.accepted(), [(0, 2), (7, 7)]);
        assert!(ledger.accepted().is_empty());
        ledger.flush(3, 11).unwrap();
        ledger.flush(8, 12).unwrap();
        ledger.taken(&[(1, 2)]);
        assert_eq!(ledger.flushed(), None);
        ledger.uncertain(&[(0, 0)]);
        assert_eq!(ledger.flushed(), Some(Flushed { id: 11, uncertain: 1 }));
        assert_eq!(ledger.flushed(), None);
        ledger.taken(&[(0, u64::MAX)]);
        assert_eq!(ledger.flushed(), Some(Flushed { id: 12, uncertain: 0 }));
    }

    #[test]
    fn flushes_are_bounded() {
        let mut ledger = Ledger::default();
        (0..limits::FLUSHES_MAX as u64).for_each(|id| ledger.flush(1, id).unwrap());
        assert!(matches!(ledger.flush(1, 0), Err(Fault::Flushes { .. })));
    }
}
