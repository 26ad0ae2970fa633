//! Tickets of a connection: who gives them out and takes them, and how many there may be.

use sealane_attestation::binding::Role;

use super::Keyed;
use crate::Moment;
use crate::connection::core::Core;
use crate::connection::outbox::Item;
use crate::connection::{Event, Fail, IssueError};
use crate::handshake::capability;
use crate::keys::{Random, TicketId};
use crate::limits::TICKETS_OF_ATTESTATION_MAX;
use crate::ticket::{Past, Ticket};

const MICROS_PER_SECOND: u64 = 1_000_000;

impl Keyed {
    /// Whether both sides speak of tickets, which only a connection with data has.
    const fn resumes(&self) -> bool {
        self.carries_data() && self.facts.capabilities & capability::TICKETS != 0
    }

    /// Gives the remote a ticket. Between two attestations there are few, so that neither side can be made to collect
    /// them without end.
    pub(in crate::connection) fn issue_ticket(
        &mut self,
        core: &Core,
        deadline: Moment,
        random: &mut dyn Random,
    ) -> Result<Ticket, IssueError> {
        let may = self.resumes() && self.renewal.is_none() && core.role == Role::Responder;
        if !may || self.tickets >= TICKETS_OF_ATTESTATION_MAX {
            return Err(IssueError::NotNow);
        }
        let deadline = deadline.min(self.life_deadline(core.local.policy.life_micros));
        let seconds = deadline.micros_since(core.now) / MICROS_PER_SECOND;
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        if seconds == 0 {
            return Err(IssueError::TooShort);
        }
        let mut id = TicketId([0; 16]);
        random.fill(&mut id.0)?;
        let ticket = self.ticket(core, id, deadline).ok_or(IssueError::NotNow)?;
        self.tickets = self.tickets.saturating_add(1);
        self.outbox.push(Item::Ticket { id, seconds });
        Ok(ticket)
    }

    /// The remote gives us a ticket.
    pub(super) fn on_ticket(&mut self, core: &mut Core, id: TicketId, seconds: u32) -> Result<(), Fail> {
        if !self.resumes() || core.role != Role::Initiator {
            return Err(Fail::Order("a ticket came out of turn"));
        }
        if self.tickets >= TICKETS_OF_ATTESTATION_MAX {
            return Err(Fail::Limit("tickets"));
        }
        self.tickets = self.tickets.saturating_add(1);
        let lasts = core.now.plus_micros(u64::from(seconds).saturating_mul(MICROS_PER_SECOND));
        let deadline = lasts.min(self.life_deadline(core.local.policy.life_micros));
        if let Some(ticket) = self.ticket(core, id, deadline) {
            core.emit(Event::TicketReceived(Box::new(ticket)));
        }
        Ok(())
    }

    /// This side's half of a ticket.
    fn ticket(&self, core: &Core, id: TicketId, deadline: Moment) -> Option<Ticket> {
        let evidence = self.facts.evidence;
        let (attested, began) = (self.attested, self.began);
        let remote = core.peer.clone()?;
        Some(Ticket {
            id,
            secret: self.resumption.ticket(id, &evidence),
            exchange: core.suite?.exchange,
            role: core.role,
            own_static: *core.local.static_key.public(),
            epoch: core.local.policy.epoch,
            deadline,
            past: Past { remote, evidence, attested, began },
        })
    }
}
