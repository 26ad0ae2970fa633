//! The tickets of this process: those that it gave to replicas that dialled it, and those that it got from replicas that it
//! dialled.
//!
//! Connections to one replica begin one after the other as long as there is no ticket: the first is a full handshake, and
//! brings the tickets that the others begin with. So a pair of replicas quotes once, however many sessions it has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sealane_attestation::rejudge;
use sealane_protocol::Moment;
use sealane_protocol::keys::TicketId;
use sealane_protocol::ticket::{Held, Issued, Ticket};
use sealane_types::PeerName;
use tokio::sync::Notify;

use super::clock::Clock;
use crate::policy::{PolicyKeeper, Standing};

/// Longest wait for another connection to bring a ticket: a full handshake of our own is not much slower.
const PATIENCE: Duration = Duration::from_secs(5);

/// A replica as this side dials it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Dialled {
    pub(crate) peer: PeerName,
    /// In the configuration.
    pub(crate) id: String,
}

/// Shared by every connection.
#[derive(Debug)]
pub(crate) struct Tickets {
    issued: Mutex<Issued>,
    outgoing: Mutex<Outgoing>,
    /// Told when a replica may be dialled that others were being connected to.
    told: Notify,
    patience: Duration,
}

impl Default for Tickets {
    fn default() -> Self {
        Self { issued: Mutex::default(), outgoing: Mutex::default(), told: Notify::new(), patience: PATIENCE }
    }
}

#[derive(Debug, Default)]
struct Outgoing {
    held: Held<Dialled>,
    /// Connections on their way to a replica, which may bring tickets.
    under_way: BTreeMap<Dialled, usize>,
    /// This process is about to end.
    closed: bool,
}

impl Tickets {
    /// Keeps one that was given out.
    pub(crate) fn issue(&self, ticket: Ticket, now: Moment) {
        lock(&self.issued).insert(ticket, now);
    }

    /// The one that a replica presents, which nobody can present again.
    pub(crate) fn present(&self, id: TicketId, now: Moment) -> Option<Ticket> {
        lock(&self.issued).take(id, now)
    }

    /// Waits until `replica` may be dialled: there is a ticket for it, or nobody else is about to bring one.
    pub(crate) async fn turn(self: &Arc<Self>, replica: &Dialled, clock: &Clock) -> Turn {
        let patience = tokio::time::sleep(self.patience);
        tokio::pin!(patience);
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            // Before looking, so that what happens in between is not missed.
            told.as_mut().enable();
            if let Some(turn) = self.begin(replica, clock.moment(), false) {
                return turn;
            }
            tokio::select! {
                () = told => {}
                () = &mut patience => {
                    if let Some(turn) = self.begin(replica, clock.moment(), true) {
                        return turn;
                    }
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, replica: &Dialled, now: Moment, impatient: bool) -> Option<Turn> {
        let mut outgoing = lock(&self.outgoing);
        let ticket = outgoing.held.take(replica, now);
        let under_way = outgoing.under_way.entry(replica.clone()).or_default();
        if ticket.is_none() && *under_way > 0 && !impatient {
            return None;
        }
        *under_way += 1;
        Some(Turn { tickets: Arc::clone(self), replica: replica.clone(), ticket, waited_for: true })
    }

    /// A ticket for `replica` led nowhere: neither will the others.
    pub(crate) fn forget(&self, replica: &Dialled) {
        lock(&self.outgoing).held.forget(replica);
    }

    /// This pod is another one, or its policy is gone: nothing that was proved counts any more.
    pub(crate) fn clear(&self) {
        lock(&self.issued).clear();
        lock(&self.outgoing).held.clear();
    }

    /// The process ends: tickets go, and none comes.
    pub(crate) fn close(&self) {
        lock(&self.outgoing).closed = true;
        self.clear();
    }

    /// How many were given out, and how many are held.
    pub(crate) fn count(&self) -> (usize, usize) {
        (lock(&self.issued).len(), lock(&self.outgoing).held.len())
    }

    /// Forgets the tickets of replicas that a new policy does not accept, as long as the process lives.
    pub(crate) async fn follow(self: Arc<Self>, policy: Arc<PolicyKeeper>, clock: Arc<Clock>) {
        let mut standing = policy.subscribe();
        while standing.changed().await.is_ok() {
            let standing = standing.borrow_and_update().clone();
            self.reconsider(&standing, &clock);
        }
    }

    fn reconsider(&self, standing: &Standing, clock: &Clock) {
        let Ok(held) = standing.held() else {
            self.clear();
            return;
        };
        let now = clock.unix();
        let accepted = |ticket: &Ticket| rejudge(ticket.remote(), &held.policy, now).is_ok();
        lock(&self.issued).retain(accepted);
        lock(&self.outgoing).held.retain(accepted);
    }
}

/// A connection on its way to a replica. Others wait for the tickets that it brings until it has brought one, or is gone.
#[derive(Debug)]
pub(crate) struct Turn {
    tickets: Arc<Tickets>,
    replica: Dialled,
    /// To begin with; one that was not presented goes back.
    ticket: Option<Ticket>,
    waited_for: bool,
}

impl Turn {
    /// Whether there is a ticket to begin with.
    pub(crate) fn has_ticket(&self) -> bool {
        self.ticket.is_some()
    }

    /// The ticket to begin with, from now on spent.
    pub(crate) fn ticket(&mut self) -> Option<Ticket> {
        self.ticket.take()
    }

    /// The connection brought a ticket.
    pub(crate) fn keep(&mut self, ticket: Ticket) {
        let mut outgoing = lock(&self.tickets.outgoing);
        if !outgoing.closed {
            outgoing.held.insert(self.replica.clone(), ticket);
        }
        drop(outgoing);
        self.done();
    }

    /// Nobody need wait for it any longer.
    pub(crate) fn done(&mut self) {
        if !std::mem::take(&mut self.waited_for) {
            return;
        }
        let mut outgoing = lock(&self.tickets.outgoing);
        if let Some(under_way) = outgoing.under_way.get_mut(&self.replica) {
            *under_way = under_way.saturating_sub(1);
            if *under_way == 0 {
                outgoing.under_way.remove(&self.replica);
            }
        }
        drop(outgoing);
        self.tickets.told.notify_waiters();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(unspent) = self.ticket.take() {
            self.keep(unspent);
        }
        self.done();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn replica(id: &str) -> Dialled {
        Dialled { peer: "ranker".parse().unwrap(), id: id.to_owned() }
    }

    #[tokio::test]
    async fn a_replica_is_dialled_by_one_until_that_one_is_done() {
        let (tickets, clock) = (Arc::new(Tickets::default()), Clock::new());
        let mut first = tickets.turn(&replica("a"), &clock).await;
        assert!(first.ticket().is_none());
        let second_replica = replica("a");
        let mut second = Box::pin(tickets.turn(&second_replica, &clock));
        assert!((&mut second).now_or_never().is_none(), "the first may bring a ticket");
        let _other = tickets.turn(&replica("b"), &clock).now_or_never().expect("another replica");
        first.done();
        let second = second.now_or_never().expect("the first is done");
        drop(second);
        drop(first);
        assert!(lock(&tickets.outgoing).under_way.keys().eq([&replica("b")]));
    }

    #[tokio::test(start_paused = true)]
    async fn patience_has_an_end() {
        let patience = Duration::from_millis(20);
        let (tickets, clock) = (Arc::new(Tickets { patience, ..Tickets::default() }), Clock::new());
        let _stuck = tickets.turn(&replica("a"), &clock).await;
        let began = tokio::time::Instant::now();
        let _second = tickets.turn(&replica("a"), &clock).await;
        assert!(began.elapsed() >= patience);
    }
}
