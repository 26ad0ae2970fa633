//! Tickets that this side gave out.

use std::collections::{BTreeMap, VecDeque};

use super::Ticket;
use crate::Moment;
use crate::keys::TicketId;
use crate::limits::{TICKETS_ISSUED_MAX, TICKETS_OF_REMOTE_MAX};

/// The tickets that remotes may present, few of each remote.
#[derive(Debug)]
pub struct Issued {
    tickets: BTreeMap<TicketId, Ticket>,
    /// Of each static key, oldest first.
    remotes: BTreeMap<[u8; 32], VecDeque<TicketId>>,
    tickets_max: usize,
    of_remote_max: usize,
}

impl Default for Issued {
    fn default() -> Self {
        Self::bounded(TICKETS_ISSUED_MAX, TICKETS_OF_REMOTE_MAX)
    }
}

impl Issued {
    const fn bounded(tickets_max: usize, of_remote_max: usize) -> Self {
        Self { tickets: BTreeMap::new(), remotes: BTreeMap::new(), tickets_max, of_remote_max }
    }

    /// Keeps a ticket. A remote's oldest one makes room for its newest, and the one that ends first for that of another
    /// remote.
    pub fn insert(&mut self, ticket: Ticket, now: Moment) {
        if self.tickets.len() >= self.tickets_max {
            self.retain(|ticket| now < ticket.deadline);
        }
        if self.tickets.len() >= self.tickets_max
            && let Some(id) = self.tickets.values().min_by_key(|ticket| ticket.deadline).map(Ticket::id)
        {
            self.remove(id);
        }
        let (id, remote) = (ticket.id, *ticket.remote().static_key());
        let of_remote = self.remotes.entry(remote).or_default();
        of_remote.push_back(id);
        if of_remote.len() > self.of_remote_max
            && let Some(oldest) = of_remote.pop_front()
        {
            self.tickets.remove(&oldest);
        }
        self.tickets.insert(id, ticket);
    }

    /// The ticket that a remote presents, which nobody can present again. None: it was presented before, is over, or was
    /// never given out.
    pub fn take(&mut self, id: TicketId, now: Moment) -> Option<Ticket> {
        self.remove(id).filter(|ticket| now < ticket.deadline)
    }

    /// Forgets all that `keep` refuses.
    pub fn retain(&mut self, keep: impl Fn(&Ticket) -> bool) {
        self.tickets.retain(|_, ticket| keep(ticket));
        let tickets = &self.tickets;
        self.remotes.retain(|_, ids| {
            ids.retain(|id| tickets.contains_key(id));
            !ids.is_empty()
        });
    }

    pub fn clear(&mut self) {
        self.tickets.clear();
        self.remotes.clear();
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    fn remove(&mut self, id: TicketId) -> Option<Ticket> {
        let ticket = self.tickets.remove(&id)?;
        let remote = ticket.remote().static_key();
        if let Some(ids) = self.remotes.get_mut(remote) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.remotes.remove(remote);
            }
        }
        Some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ticket::tests::ticket;

    fn at(seconds: u64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn nobody_has_a_ticket_twice_nor_after_its_end() {
        let mut issued = Issued::default();
        (0..3).for_each(|number| issued.insert(ticket(number, 10), at(0)));
        assert_eq!(issued.take(TicketId([9; 16]), at(0)), None, "never given out");
        assert_eq!(issued.take(TicketId([1; 16]), at(9)), Some(ticket(1, 10)));
        assert_eq!(issued.take(TicketId([1; 16]), at(9)), None, "presented before");
        assert_eq!(issued.take(TicketId([2; 16]), at(10)), None, "over");
        assert_eq!(issued.take(TicketId([2; 16]), at(9)), None, "and gone");
        assert!(!issued.is_empty());
        issued.clear();
        assert_eq!(issued.take(TicketId([0; 16]), at(0)), None);
        assert!(issued.is_empty() && issued.remotes.is_empty());
    }

    #[test]
    fn a_remote_that_collects_tickets_loses_its_own() {
        let mut issued = Issued::default();
        for number in 0..=u8::MAX {
            issued.insert(ticket(number, 10), at(0));
        }
        assert_eq!(issued.len(), TICKETS_OF_REMOTE_MAX);
        assert!(issued.take(TicketId([0xef; 16]), at(0)).is_none());
        assert!(issued.take(TicketId([0xf0; 16]), at(0)).is_some());
    }

    #[test]
    fn there_is_room_for_so_many_and_what_ends_first_goes_first() {
        let mut issued = Issued::bounded(3, 99);
        for (number, seconds) in [(1, 5), (2, 30), (3, 20), (4, 40)] {
            issued.insert(ticket(number, seconds), at(0));
        }
        assert_eq!(issued.take(TicketId([1; 16]), at(0)), None);
        issued.insert(ticket(5, 50), at(25));
        assert_eq!(issued.len(), 3, "one that was over made room");
        for number in [2, 4, 5] {
            assert!(issued.take(TicketId([number; 16]), at(25)).is_some(), "{number}");
        }
    }

    #[test]
    fn all_that_is_over_goes_before_anything_else() {
        let mut issued = Issued::bounded(3, 99);
        for (number, seconds) in [(1, 10), (2, 10), (3, 30)] {
            issued.insert(ticket(number, seconds), at(0));
        }
        issued.insert(ticket(4, 40), at(10));
        assert_eq!(issued.len(), 2);
    }

    #[test]
    fn what_is_refused_is_forgotten_and_nothing_else() {
        let mut issued = Issued::default();
        (0..3).for_each(|number| issued.insert(ticket(number, 10), at(0)));
        issued.retain(|ticket| ticket.id != TicketId([1; 16]));
        assert_eq!(issued.remotes.values().map(VecDeque::len).sum::<usize>(), 2);
        assert_eq!(issued.take(TicketId([1; 16]), at(0)), None);
        assert!(issued.take(TicketId([0; 16]), at(0)).is_some());
        issued.retain(|_| false);
        assert!(issued.is_empty() && issued.remotes.is_empty());
    }

    proptest! {
        /// Whatever comes in whatever order: a ticket is given away at most once, and not after its end.
        #[test]
        fn it_gives_away_what_was_put_once(
            steps in prop::collection::vec((any::<bool>(), 0_u8..24, 0_u64..40), 0..200),
        ) {
            let mut issued = Issued::bounded(8, 6);
            let mut there = std::collections::BTreeMap::new();
            for (now, (puts, number, seconds)) in (0_u64..).map(|step| step / 8).zip(steps) {
                if puts && !there.contains_key(&number) {
                    issued.insert(ticket(number, now + seconds), at(now));
                    there.insert(number, now + seconds);
                } else if !puts {
                    let taken = issued.take(TicketId([number; 16]), at(now));
                    let good = there.remove(&number).is_some_and(|deadline| now < deadline);
                    prop_assert!(taken.is_none() || good);
                }
                prop_assert!(issued.len() <= 6);
                prop_assert_eq!(issued.remotes.values().map(VecDeque::len).sum::<usize>(), issued.len());
            }
        }
    }
}
