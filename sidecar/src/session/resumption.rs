//! What one connection has to do with tickets, and with the attestation that they rest on.

use std::time::Duration;

use sealane_protocol::Moment;
use sealane_protocol::connection::Connection;
use sealane_protocol::keys::TicketId;
use sealane_protocol::ticket::Ticket;
use sealane_types::Reason;

use super::tickets::Turn;
use crate::context::{Context, SystemRandom};
use crate::desired::REATTEST_SECONDS_MIN;
use crate::metrics::labels::HandshakeLabels;
use crate::policy::Held;

/// Tickets that the side which accepted hands over for every attestation: one for the next connection, and one more, so that
/// the connections of a pair which has many come about in ever larger steps.
const TICKETS: usize = 2;
/// How long after its establishment a connection is waited for to bring a ticket. Where the remote gives any, it comes at
/// once.
const TICKET_WAIT: Duration = Duration::from_secs(1);
/// Tickets tell to the second when a remote wants to be attested again, and sooner on one connection than on another. In
/// steps of this, connections of one attestation agree on it and share a quote; a remote is more patient than this.
const DUE_STEP: Duration = Duration::from_secs(5);

pub(super) struct Resumption<'a> {
    context: &'a Context,
    /// Of a connection that was dialled: others to the same replica wait for its tickets.
    turn: Option<Turn>,
    /// It began with a ticket.
    pub(super) resumes: bool,
    /// When both sides proved themselves last, here or on the connection that this one resumes; once established.
    attested: Option<Moment>,
    /// When nobody waits for its tickets any longer; once established, until one came.
    awaited: Option<Moment>,
    /// When the remote wants to be attested again, as far as its tickets tell.
    wanted: Option<Moment>,
}

impl<'a> Resumption<'a> {
    pub(super) fn new(context: &'a Context, turn: Option<Turn>, resumes: bool) -> Self {
        Self { context, turn, resumes, attested: None, awaited: None, wanted: None }
    }

    pub(super) fn is_dialled(&self) -> bool {
        self.turn.is_some()
    }

    /// The remote presents a ticket.
    pub(super) fn presented(&mut self, id: TicketId, connection: &mut Connection) -> Result<(), Reason> {
        self.resumes = true;
        let ticket = self.context.tickets.present(id, self.context.clock.moment());
        connection.answer_ticket(ticket).map_err(|_| Reason::FrameMalformed)
    }

    /// The remote gives us a ticket.
    pub(super) fn received(&mut self, ticket: Ticket, held: &Held, connection: &Connection) {
        let Some(turn) = &mut self.turn else { return };
        (self.awaited, self.wanted) = (None, Some(ticket.deadline()));
        if let Some(deadline) = good_until(self.context, held, connection) {
            turn.keep(ticket.until(deadline));
        }
    }

    /// How long ago both sides proved themselves.
    pub(super) fn age(&self, now: Moment) -> Option<Duration> {
        self.attested.map(|attested| since(now, attested))
    }

    /// The age at which this side begins to attest the connection again: as it wants it, or the remote if that is sooner. A
    /// remote whose time is long over gives the connection up.
    pub(super) fn reattest_after(&self) -> Duration {
        let remote = self.wanted.zip(self.attested).map(|(wanted, attested)| since(wanted, attested));
        sooner(self.context.reattest_after(), remote)
    }

    /// The connection was attested again: tickets of before say nothing of the next time.
    pub(super) fn reattested(&mut self, attested: Option<Moment>) {
        (self.attested, self.wanted) = (attested, None);
    }

    /// How long until there is something to do about it: others have waited long enough, or it is to be attested again,
    /// unless that has begun or is not ours to begin.
    pub(super) fn due(&self, now: Moment) -> Option<Duration> {
        let patience = self.awaited.map(|until| since(until, now));
        let age = self.age(now).filter(|_| self.is_dialled());
        let reattest = age.and_then(|age| self.reattest_after().checked_sub(age));
        patience.into_iter().chain(reattest).min()
    }

    /// Lets others begin once they have waited long enough.
    pub(super) fn give_up(&mut self, now: Moment) {
        if let (Some(turn), Some(until)) = (&mut self.turn, self.awaited)
            && now >= until
        {
            turn.done();
            self.awaited = None;
        }
    }

    /// Gives the remote the tickets of an attestation, if it is the side that dialled and takes any.
    pub(super) fn issue(&self, held: &Held, connection: &mut Connection) {
        let Some(deadline) = good_until(self.context, held, connection) else { return };
        for _ in 0..TICKETS {
            match connection.issue_ticket(deadline, &mut SystemRandom) {
                Ok(ticket) => self.context.tickets.issue(ticket, self.context.clock.moment()),
                Err(error) => {
                    tracing::trace!(%error, "no ticket");
                    return;
                }
            }
        }
    }

    pub(super) fn established(&mut self, role: &'static str, attested: Option<Moment>, now: Moment) {
        self.attested = attested;
        let wait = u64::try_from(TICKET_WAIT.as_micros()).unwrap_or(u64::MAX);
        self.awaited = self.is_dialled().then(|| now.plus_micros(wait));
        if self.resumes {
            let resumed = &self.context.metrics.handshakes.resumed;
            resumed.get_or_create(&HandshakeLabels::established(role)).inc();
        }
    }

    /// The connection is over, established or not: nobody need wait for it.
    pub(super) fn over(&mut self, role: &'static str, refused: Option<Reason>) {
        (self.turn, self.awaited) = (None, None);
        if let Some(reason) = refused.filter(|_| self.resumes) {
            let resumed = &self.context.metrics.handshakes.resumed;
            resumed.get_or_create(&HandshakeLabels::refused(role, reason)).inc();
        }
    }
}

/// How long a ticket of this connection is good: it outlives nothing of what the connection rests on.
fn good_until(context: &Context, held: &Held, connection: &Connection) -> Option<Moment> {
    let (now, unix) = (context.clock.moment(), context.clock.unix());
    let document = held.policy.document();
    let lasts = connection.peer()?.claims().lasts(&document.collateral);
    let expires = lasts.min(document.expires.unix());
    let left = expires.0.saturating_sub(unix.0).saturating_mul(1_000_000);
    let after = u64::try_from(context.reattest_after().as_micros()).unwrap_or(u64::MAX);
    let due = connection.attested()?.plus_micros(after);
    Some(now.plus_micros(left).min(due))
}

fn since(now: Moment, earlier: Moment) -> Duration {
    Duration::from_micros(now.micros_since(earlier))
}

/// The sooner of what two sides want, unless they mean the same.
fn sooner(own: Duration, remote: Option<Duration>) -> Duration {
    let Some(remote) = remote else { return own };
    let step = DUE_STEP.as_secs();
    let steps = (remote + DUE_STEP / 2).as_secs() / step;
    let remote = Duration::from_secs((steps * step).max(REATTEST_SECONDS_MIN));
    if remote + DUE_STEP > own { own } else { remote }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;

    use super::*;
    use crate::context::tests::context;
    use crate::session::tickets::Dialled;

    #[test]
    fn the_sooner_of_two_intervals_counts_and_connections_of_one_attestation_agree() {
        let (seconds, millis) = (Duration::from_secs, Duration::from_millis);
        assert_eq!(sooner(seconds(600), None), seconds(600));
        for (told, counts) in [
            // As late as a ticket is, and as early as whole seconds make it.
            (millis(60_200), 60),
            (millis(59_001), 60),
            (millis(300_050), 300),
            (millis(299_000), 300),
            (millis(599_001), 600),
            (millis(600_300), 600),
            (seconds(86_400), 600),
            (seconds(0), REATTEST_SECONDS_MIN),
        ] {
            assert_eq!(sooner(seconds(600), Some(told)), seconds(counts), "{told:?}");
        }
        assert_eq!(sooner(seconds(603), Some(millis(602_100))), seconds(603), "they mean the same");
    }

    #[tokio::test]
    async fn nobody_waits_long_for_a_connection_that_brings_no_ticket() {
        let context = context(Some("embedder"));
        let replica = Dialled { peer: "ranker".parse().unwrap(), id: "a".to_owned() };
        let tickets = Arc::clone(&context.tickets);
        let turn = || tickets.turn(&replica, &context.clock);
        let mut resumption = Resumption::new(&context, Some(turn().await), false);
        let now = context.clock.moment();
        assert_eq!(resumption.due(now), None, "it may take its time until then");
        resumption.established("initiator", Some(now), now);
        assert_eq!(resumption.due(now), Some(TICKET_WAIT));
        resumption.give_up(now);
        assert!(turn().now_or_never().is_none(), "a ticket may be on its way");
        let late = now.plus_micros(1_000_000);
        assert_eq!(resumption.due(late), Some(Duration::ZERO));
        resumption.give_up(late);
        assert!(turn().now_or_never().is_some());
        assert_eq!(resumption.due(late), Some(Duration::from_secs(599)), "until it is attested again");
    }
}
