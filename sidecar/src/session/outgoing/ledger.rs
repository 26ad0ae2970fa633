//! What a lane has accepted, and where each tensor of it still is. Pure book-keeping.

use std::collections::BTreeMap;

use sealane_types::PeerName;

use super::news::Serial;
use crate::handoff::{SenderEvent, Sequence, Span};

/// A tensor that was given to replicas.
#[derive(Debug)]
struct Copies {
    /// Replicas that have not answered, and the place of their Peer in `taken`.
    waiting: BTreeMap<Serial, usize>,
    /// Replicas that it was given to.
    given: usize,
    /// For every Peer, whether one of its replicas has taken it.
    taken: Vec<bool>,
    span: Span,
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
    pub(super) taken: Vec<Span>,
    pub(super) uncertain: Vec<Span>,
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
    /// A tensor or a run of `length` bytes goes to `replicas` of these Peers.
    pub(super) fn assign<'a>(
        &mut self,
        span: Span,
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
        self.copies.insert(span.first, Copies { waiting, given, taken, span, length, lost: false });
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
                settled.uncertain.push(copies.span);
            } else {
                settled.bytes += copies.length;
                settled.taken.push(copies.span);
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

/// Events for `spans`, one for each range without gaps.
pub(super) fn ranges(mut spans: Vec<Span>, event: impl Fn(Span) -> SenderEvent) -> Vec<SenderEvent> {
    spans.sort_unstable();
    let mut ranges: Vec<Span> = Vec::new();
    for span in spans {
        match ranges.last_mut() {
            Some(range) if range.last.0.checked_add(1) == Some(span.first.0) => range.last = span.last,
            _ => ranges.push(span),
        }
    }
    ranges.into_iter().map(event).collect()
}

/// How many tensors these are.
pub(super) fn tensors(spans: &[Span]) -> u64 {
    spans.iter().map(|span| span.tensors()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(ledger: &mut Ledger, sequence: u64, replicas: &[(u64, &str)]) {
        let peers: Vec<PeerName> = replicas.iter().map(|(_, peer)| peer.parse().unwrap()).collect();
        let replicas = replicas.iter().map(|(serial, _)| Serial(*serial)).zip(&peers);
        ledger.assign(Span::new(Sequence(sequence), 1), 10, replicas);
    }

    fn sequences(numbers: &[u64]) -> Vec<Sequence> {
        numbers.iter().copied().map(Sequence).collect()
    }

    fn spans(numbers: &[u64]) -> Vec<Span> {
        numbers.iter().map(|number| Span::new(Sequence(*number), 1)).collect()
    }

    #[test]
    fn a_broadcast_tensor_is_taken_when_every_replica_took_it() {
        let mut ledger = Ledger::default();
        assign(&mut ledger, 1, &[(1, "x"), (2, "x")]);
        assert_eq!(ledger.taken(Serial(1), &sequences(&[1])), Settled::default());
        assert_eq!(ledger.taken(Serial(1), &sequences(&[1])), Settled::default(), "once each");
        let settled = ledger.taken(Serial(2), &sequences(&[1]));
        assert_eq!((settled.taken, settled.bytes), (spans(&[1]), 10));
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
        assert_eq!(ledger.taken(Serial(3), &sequences(&[1])).taken, spans(&[1]));
        let settled = ledger.dropped(Serial(3), &sequences(&[2, 3]));
        assert_eq!((settled.taken, settled.uncertain), (vec![], spans(&[2, 3])));
        assert!(ledger.is_empty());
    }

    #[test]
    fn one_lost_copy_makes_a_tensor_uncertain() {
        let mut ledger = Ledger::default();
        assign(&mut ledger, 1, &[(1, "x"), (2, "x")]);
        assert_eq!(ledger.lost(Serial(1), &sequences(&[1])), Settled::default());
        let settled = ledger.taken(Serial(2), &sequences(&[1]));
        assert_eq!((settled.taken, settled.uncertain), (vec![], spans(&[1])));
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
    fn a_run_is_settled_with_all_its_numbers() {
        let mut ledger = Ledger::default();
        let (run, peer) = (Span::new(Sequence(5), 4), "x".parse().unwrap());
        ledger.assign(run, 10, [(Serial(1), &peer)].into_iter());
        let settled = ledger.taken(Serial(1), &sequences(&[5]));
        assert_eq!((tensors(&settled.taken), settled.taken), (4, vec![run]));
        assert!(ledger.is_empty());
    }

    #[test]
    fn ranges_have_no_gaps() {
        let taken = |span: Span| SenderEvent::Taken { first: span.first, last: span.last };
        let run = Span::new(Sequence(8), 3);
        let events = ranges([spans(&[5, 1, 2, 3, 7, 6, 12]), vec![run]].concat(), taken);
        let expected = [(1, 3), (5, 10), (12, 12)]
            .map(|(first, last)| SenderEvent::Taken { first: Sequence(first), last: Sequence(last) });
        assert_eq!(events, expected);
    }
}
