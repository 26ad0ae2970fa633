//! What one connection has to do with tickets.

use sealane_protocol::Moment;
use sealane_protocol::connection::Connection;
use sealane_protocol::keys::TicketId;
use sealane_protocol::ticket::Ticket;
use sealane_types::Reason;

use super::tickets::Turn;
use crate::context::{Context, SystemRandom};
use crate::metrics::labels::HandshakeLabels;
use crate::policy::Held;

/// Tickets that the side which accepted hands over for every attestation: one for the next connection, and one more, so that
/// the connections of a pair which has many come about in ever larger steps.
const TICKETS: usize = 2;

pub(super) struct Resumption<'a> {
    context: &'a Context,
    /// Of a connection that was dialled: others to the same replica wait for its tickets.
    turn: Option<Turn>,
    /// It began with a ticket.
    pub(super) resumes: bool,
}

impl<'a> Resumption<'a> {
    pub(super) fn new(context: &'a Context, turn: Option<Turn>, resumes: bool) -> Self {
        Self { context, turn, resumes }
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
        if let (Some(turn), Some(deadline)) = (&mut self.turn, good_until(self.context, held, connection)) {
            turn.keep(ticket.until(deadline));
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

    pub(super) fn established(&self, role: &'static str) {
        if self.resumes {
            let resumed = &self.context.metrics.handshakes.resumed;
            resumed.get_or_create(&HandshakeLabels::established(role)).inc();
        }
    }

    /// The connection is over, established or not: nobody need wait for it.
    pub(super) fn over(&mut self, role: &'static str, refused: Option<Reason>) {
        self.turn = None;
        if let Some(reason) = refused.filter(|_| self.resumes) {
            let resumed = &self.context.metrics.handshakes.resumed;
            resumed.get_or_create(&HandshakeLabels::refused(role, reason)).inc();
        }
    }
}

/// How long a ticket of this connection is good: it outlives nothing of what the connection rests on.
fn good_until(context: &Context, held: &Held, connection: &Connection) -> Option<Moment> {
    let (now, unix) = (context.clock.moment(), context.clock.unix());
    let expires = connection.peer()?.expires().min(held.policy.document().expires.unix());
    let left = expires.0.saturating_sub(unix.0).saturating_mul(1_000_000);
    let after = u64::try_from(context.reattest_after().as_micros()).unwrap_or(u64::MAX);
    let due = connection.attested()?.plus_micros(after);
    Some(now.plus_micros(left).min(due))
}
