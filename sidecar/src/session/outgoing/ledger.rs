//! What a lane has accepted, and where each tensor of it still is. Pure book-keeping.

use std::collections::BTreeMap;

use sealane_types::PeerName;

use super::news::Serial;
use crate::handoff::{SenderEvent, Sequence};

/// A tensor that was given to replicas.
#[derive(Debug)]
struct Copies {
    /// Replicas that have not answered, and the place of their Peer in `taken`.
    waiting: BTreeMap<Serial, usize>,
    /// Replicas that it was given to.
    given: usize,
    /// For every Peer, whether one of its replicas has taken it.
    taken: Vec<bool>,
    length: u64,
    /// A replica is gone with it.
    lost: bool,
}

/// What a replica did with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Taken,
    Lost,
    Dropped,
}

/// Tensors that are settled now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) taken: Vec<Sequence>,
    pub(super) uncertain: Vec<Sequence>,
    /// Bytes of the taken ones.
    pub(super) bytes: u64,
}

/// What one replica was given and has not answered for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) tensors: u64,
    pub(super) bytes: u64,
}

/// Tensors under way.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    copies: BTreeMap<Sequence, Copies>,
    held: BTreeMap<Serial, Held>,
}

impl Ledger {
    /// `sequence` goes to `replicas` of these Peers.
    pub(super) fn assign<'a>(
        &mut self,
        sequence: Sequence,
        length: u64,
        replicas: impl Iterator<Item = (Serial, &'a PeerName)>,
    ) {
        let mut peers: Vec<&PeerName> = Vec::new();
        let mut place = |peer| {
            peers.iter().position(|known| *known == peer).unwrap_or_else(|| {
                peers.push(peer);
                peers.len() - 1
            })
        };
        let waiting: BTreeMap<_, _> = replicas.map(|(replica, peer)| (replica, place(peer))).collect();
        for replica in waiting.keys() {
            let held = self.held.entry(*replica).or_default();
            held.tensors += 1;
            held.bytes = held.bytes.saturating_add(length);
        }
        let (given, taken) = (waiting.len(), vec![false; peers.len()]);
        self.copies.insert(sequence, Copies { waiting, given, taken, length, lost: false });
    }

    /// `sequence` has to be assigned again: nothing of it was sent.
    pub(super) fn withdraw(&mut self, sequence: Sequence) {
        let Some(copies) = self.copies.remove(&sequence) else { return };
        copies.waiting.keys().for_each(|replica| release(&mut self.held, *replica, copies.length));
    }

    /// What a replica was given of this lane and has not answered for.
    pub(super) fn held(&self, association: Serial) -> Held {
        self.held.get(&association).copied().unwrap_or_default()
    }

    /// Whether `sequence` was given to more than one replica. Those that have taken it count: assigned anew, it would
    /// reach their Peers twice.
    pub(super) fn is_shared(&self, sequence: Sequence) -> bool {
        self.copies.get(&sequence).is_some_and(|copies| copies.given > 1)
    }

    /// A replica's application has taken these.
    pub(super) fn taken(&mut self, association: Serial, sequences: &[Sequence]) -> Settled {
        self.settle(association, sequences, Fate::Taken)
    }

    /// A replica is gone with these.
    pub(super) fn lost(&mut self, association: Serial, sequences: &[Sequence]) -> Settled {
        self.settle(association, sequences, Fate::Lost)
    }

    /// A replica of several is not waited for any more: others of its Peer have to take these.
    pub(super) fn dropped(&mut self, association: Serial, sequences: &[Sequence]) -> Settled {
        self.settle(association, sequences, Fate::Dropped)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    fn settle(&mut self, association: Serial, sequences: &[Sequence], fate: Fate) -> Settled {
        let mut settled = Settled::default();
        for sequence in sequences {
            let Some(copies) = self.copies.get_mut(sequence) else { continue };
            let Some(peer) = copies.waiting.remove(&association) else { continue };
            release(&mut self.held, association, copies.length);
            copies.lost |= fate == Fate::Lost;
            if fate == Fate::Taken
                && let Some(taken) = copies.taken.get_mut(peer)
            {
                *taken = true;
            }
            if !copies.waiting.is_empty() {
                continue;
            }
            if copies.lost || copies.taken.contains(&false) {
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

/// A replica no longer holds a tensor of `length`.
fn release(held: &mut BTreeMap<Serial, Held>, replica: Serial, length: u64) {
    let Some(of) = held.get_mut(&replica) else { return };
    of.tensors = of.tensors.saturating_sub(1);
    of.bytes = of.bytes.saturating_sub(length);
    if of.tensors == 0 {
        held.remove(&replica);
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

    fn assign(ledger: &mut Ledger, sequence: u64, replicas: &[(u64, &str)]) {
        let peers: Vec<PeerName> = replicas.iter().map(|(_, peer)| peer.parse().unwrap()).collect();
        let replicas = replicas.iter().map(|(serial, _)| Serial(*serial)).zip(&peers);
        ledger.assign(Sequence(sequence), 10, replicas);
    }

    fn sequences(numbers: &[u64]) -> Vec<Sequence> {
        numbers.iter().copied().map(Sequence).collect()
    }

    #[test]
    fn a_broadcast_tensor_is_taken_when_every_replica_took_it() {
        let mut ledger = Ledger::default();
        assign(&mut ledger, 1, &[(1, "x"), (2, "x")]);
        assert_eq!(ledger.taken(Serial(1), &sequences(&[1])), Settled::default());
        assert_eq!(ledger.taken(Serial(1), &sequences(&[1])), Settled::default(), "once each");
        let settled = ledger.taken(Serial(2), &sequences(&[1]));
        assert_eq!((settled.taken, settled.bytes), (sequences(&[1]), 10));
        assert!(ledger.is_empty());
    }

    #[test]
    fn a_tensor_that_others_took_stays_shared() {
        let mut ledger = Ledger::default();
        assign(&mut ledger, 1, &[(1, "x"), (2, "y")]);
        assign(&mut ledger, 2, &[(1, "x")]);
        assert_eq!(ledger.taken(Serial(2), &sequences(&[1])), Settled::default());
        assert!(ledger.is_shared(Sequence(1)), "sending it anew would reach the other twice");
        assert!(!ledger.is_shared(Sequence(2)));
    }

    #[test]
    fn what_no_replica_of_a_peer_took_is_not_taken() {
        let mut ledger = Ledger::default();
        assign(&mut ledger, 1, &[(1, "x"), (2, "x"), (3, "y")]);
        assign(&mut ledger, 2, &[(1, "x"), (2, "x"), (3, "y")]);
        assign(&mut ledger, 3, &[(1, "x"), (2, "x"), (3, "y")]);
        // The first: one of each Peer. The second: of one Peer only. The third: nobody.
        assert_eq!(ledger.dropped(Serial(1), &sequences(&[1, 2, 3])), Settled::default());
        assert_eq!(ledger.taken(Serial(2), &sequences(&[1, 2])), Settled::default());
        assert_eq!(ledger.dropped(Serial(2), &sequences(&[3])), Settled::default());
        assert_eq!(ledger.taken(Serial(3), &sequences(&[1])).taken, sequences(&[1]));
        let settled = ledger.dropped(Serial(3), &sequences(&[2, 3]));
        assert_eq!((settled.taken, settled.uncertain), (vec![], sequences(&[2, 3])));
        assert!(ledger.is_empty());
    }

    #[test]
    fn one_lost_copy_makes_a_tensor_uncertain() {
        let mut ledger = Ledger::default();
        assign(&mut ledger, 1, &[(1, "x"), (2, "x")]);
        assert_eq!(ledger.lost(Serial(1), &sequences(&[1])), Settled::default());
        let settled = ledger.taken(Serial(2), &sequences(&[1]));
        assert_eq!((settled.taken, settled.uncertain), (vec![], sequences(&[1])));
    }

    #[test]
    fn what_a_replica_holds_is_what_it_has_not_answered_for() {
        let mut ledger = Ledger::default();
        (1..=4).for_each(|sequence| assign(&mut ledger, sequence, &[(1, "x"), (2, "y")]));
        assert_eq!(ledger.held(Serial(1)), Held { tensors: 4, bytes: 40 });
        ledger.taken(Serial(1), &sequences(&[1]));
        ledger.lost(Serial(1), &sequences(&[2]));
        ledger.dropped(Serial(1), &sequences(&[3, 3]));
        assert_eq!(ledger.held(Serial(1)), Held { tensors: 1, bytes: 10 });
        assert_eq!(ledger.held(Serial(2)), Held { tensors: 4, bytes: 40 });
        ledger.withdraw(Sequence(4));
        assert_eq!(ledger.held(Serial(1)), Held::default());
        assert_eq!(ledger.held(Serial(2)), Held { tensors: 3, bytes: 30 });
        ledger.taken(Serial(2), &sequences(&[1, 2, 3]));
        assert!(ledger.is_empty() && ledger.held.is_empty());
    }

    #[test]
    fn runs_have_no_gaps() {
        let taken = |first, last| SenderEvent::Taken { first, last };
        let events = runs(sequences(&[5, 1, 2, 3, 7, 6]), taken);
        let expected = [taken(Sequence(1), Sequence(3)), taken(Sequence(5), Sequence(7))];
        assert_eq!(events, expected);
    }
}
