//! What a lane has accepted, and where each tensor of it still is. Pure book-keeping.

use std::collections::{BTreeMap, BTreeSet};

use super::news::Serial;
use crate::handoff::{SenderEvent, Sequence};

/// A tensor that was given to replicas.
#[derive(Debug)]
struct Copies {
    waiting: BTreeSet<Serial>,
    /// Replicas that it was given to.
    given: usize,
    length: u64,
    /// A replica is gone with it.
    lost: bool,
}

/// Tensors that are settled now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) taken: Vec<Sequence>,
    pub(super) uncertain: Vec<Sequence>,
    /// Bytes of the taken ones.
    pub(super) bytes: u64,
}

/// Tensors under way.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    copies: BTreeMap<Sequence, Copies>,
}

impl Ledger {
    /// `sequence` goes to `replicas`.
    pub(super) fn assign(&mut self, sequence: Sequence, length: u64, replicas: impl Iterator<Item = Serial>) {
        let waiting: BTreeSet<_> = replicas.collect();
        let given = waiting.len();
        self.copies.insert(sequence, Copies { waiting, given, length, lost: false });
    }

    /// `sequence` has to be assigned again: nothing of it was sent.
    pub(super) fn withdraw(&mut self, sequence: Sequence) {
        self.copies.remove(&sequence);
    }

    /// Whether `sequence` was given to more than one replica. Those that have taken it count: assigned anew, it would
    /// reach their Peers twice.
    pub(super) fn is_shared(&self, sequence: Sequence) -> bool {
        self.copies.get(&sequence).is_some_and(|copies| copies.given > 1)
    }

    /// A replica's application has taken these.
    pub(super) fn taken(&mut self, association: Serial, sequences: &[Sequence]) -> Settled {
        self.settle(association, sequences, false)
    }

    /// A replica is gone with these.
    pub(super) fn lost(&mut self, association: Serial, sequences: &[Sequence]) -> Settled {
        self.settle(association, sequences, true)
    }

    /// A replica of several is not waited for any more.
    pub(super) fn dropped(&mut self, association: Serial, sequences: &[Sequence]) -> Settled {
        self.settle(association, sequences, false)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    fn settle(&mut self, association: Serial, sequences: &[Sequence], lost: bool) -> Settled {
        let mut settled = Settled::default();
        for sequence in sequences {
            let Some(copies) = self.copies.get_mut(sequence) else { continue };
            copies.waiting.remove(&association);
            copies.lost |= lost;
            if !copies.waiting.is_empty() {
                continue;
            }
            if copies.lost {
                settled.uncertain.push(*sequence);
            } else {
                settled.bytes += copies.length;
                settled.taken.push(*sequence);
            }
            self.copies.remove(sequence);
        }
        settled
    }
}

/// Events for `sequences`, one for each run without gaps.
pub(super) fn runs(
    mut sequences: Vec<Sequence>,
    event: impl Fn(Sequence, Sequence) -> SenderEvent,
) -> Vec<SenderEvent> {
    sequences.sort_unstable();
    let mut runs: Vec<(Sequence, Sequence)> = Vec::new();
    for sequence in sequences {
        match runs.last_mut() {
            Some((_, last)) if last.0 + 1 == sequence.0 => *last = sequence,
            _ => runs.push((sequence, sequence)),
        }
    }
    runs.into_iter().map(|(first, last)| event(first, last)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequences(numbers: &[u64]) -> Vec<Sequence> {
        numbers.iter().copied().map(Sequence).collect()
    }

    #[test]
    fn a_broadcast_tensor_is_taken_when_every_replica_took_it() {
        let mut ledger = Ledger::default();
        ledger.assign(Sequence(1), 10, [Serial(1), Serial(2)].into_iter());
        assert_eq!(ledger.taken(Serial(1), &sequences(&[1])), Settled::default());
        assert_eq!(ledger.taken(Serial(1), &sequences(&[1])), Settled::default(), "once each");
        let settled = ledger.taken(Serial(2), &sequences(&[1]));
        assert_eq!((settled.taken, settled.bytes), (sequences(&[1]), 10));
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_tensor_that_others_took_stays_shared() {
        let mut ledger = Ledger::default();
        ledger.assign(Sequence(1), 10, [Serial(1), Serial(2)].into_iter());
        ledger.assign(Sequence(2), 10, [Serial(1)].into_iter());
        assert_eq!(ledger.taken(Serial(2), &sequences(&[1])), Settled::default());
        assert!(ledger.is_shared(Sequence(1)), "sending it anew would reach the other twice");
        assert!(!ledger.is_shared(Sequence(2)));
    }

    #[test]
    fn one_lost_copy_makes_a_tensor_uncertain() {
        let mut ledger = Ledger::default();
        ledger.assign(Sequence(1), 10, [Serial(1), Serial(2)].into_iter());
        assert_eq!(ledger.lost(Serial(1), &sequences(&[1])), Settled::default());
        let settled = ledger.taken(Serial(2), &sequences(&[1]));
        assert_eq!((settled.taken, settled.uncertain), (vec![], sequences(&[1])));
    }

    #[test]
    fn runs_have_no_gaps() {
        let taken = |first, last| SenderEvent::Taken { first, last };
        let events = runs(sequences(&[5, 1, 2, 3, 7, 6]), taken);
        let expected = [taken(Sequence(1), Sequence(3)), taken(Sequence(5), Sequence(7))];
        assert_eq!(events, expected);
    }
}
