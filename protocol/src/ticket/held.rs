//! Tickets that this side got.

use std::collections::{BTreeMap, VecDeque};

use super::Ticket;
use crate::Moment;
use crate::limits::TICKETS_OF_REMOTE_MAX;

/// Tickets for replicas that this side dials, each under the name `K` by which it dials.
#[derive(Debug)]
pub struct Held<K>(BTreeMap<K, VecDeque<Ticket>>);

impl<K> Default for Held<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord> Held<K> {
    /// Keeps a ticket; the oldest one of its replica makes room.
    pub fn insert(&mut self, replica: K, ticket: Ticket) {
        let tickets = self.0.entry(replica).or_default();
        tickets.push_back(ticket);
        if tickets.len() > TICKETS_OF_REMOTE_MAX {
            tickets.pop_front();
        }
    }

    /// The newest ticket for `replica`, to be presented now. The other side may have dropped older ones.
    pub fn take(&mut self, replica: &K, now: Moment) -> Option<Ticket> {
        let tickets = self.0.get_mut(replica)?;
        tickets.retain(|ticket| now < ticket.deadline);
        let newest = tickets.pop_back();
        if tickets.is_empty() {
            self.0.remove(replica);
        }
        newest
    }

    /// Forgets the tickets for `replica`: it did not take one.
    pub fn forget(&mut self, replica: &K) {
        self.0.remove(replica);
    }

    /// Forgets all that `keep` refuses.
    pub fn retain(&mut self, keep: impl Fn(&Ticket) -> bool) {
        self.0.retain(|_, tickets| {
            tickets.retain(|ticket| keep(ticket));
            !tickets.is_empty()
        });
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticket::tests::ticket;

    fn at(seconds: u64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn the_newest_that_is_good_goes_first_and_once() {
        let mut held = Held::default();
        for (number, seconds) in [(1, 30), (2, 30), (3, 5)] {
            held.insert("ranker-0", ticket(number, seconds));
        }
        assert_eq!(held.take(&"ranker-1", at(0)), None);
        assert_eq!(held.take(&"ranker-0", at(0)), Some(ticket(3, 5)));
        assert_eq!(held.take(&"ranker-0", at(6)), Some(ticket(2, 30)));
        assert_eq!(held.take(&"ranker-0", at(30)), None);
        assert!(held.is_empty());
    }

    #[test]
    fn few_are_kept_for_each_replica() {
        let mut held = Held::default();
        (0..=u8::MAX).for_each(|number| held.insert(1, ticket(number, 9)));
        held.insert(2, ticket(0, 9));
        assert_eq!((held.len(), held.is_empty()), (TICKETS_OF_REMOTE_MAX + 1, false));
        held.forget(&1);
        assert_eq!(held.len(), 1);
        held.retain(|_| false);
        assert_eq!((held.len(), held.is_empty()), (0, true));
        held.insert(1, ticket(0, 9));
        held.clear();
        assert_eq!(held.len(), 0);
    }
}
