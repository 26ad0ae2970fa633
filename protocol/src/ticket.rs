//! Tickets: what lets two sides that proved themselves to each other begin another connection without proving it again.
//!
//! A ticket is state at both ends and nothing but a name on the wire. The side that accepted makes it up, both sides
//! derive its secret from the keys of the connection that it came from, and both remember what they proved there and when.
//! It is good once, for its two ends, until what was proved is due again: [`Issued`] and [`Held`] give a ticket away when
//! they are asked for it, so nobody has it twice.

mod held;
mod issued;

use std::sync::Arc;

use sealane_attestation::VerifiedPeer;
use sealane_attestation::binding::Role;

use crate::Moment;
use crate::handshake::KeyExchange;
use crate::keys::{EvidenceDigests, Secret, TicketId};

pub use held::Held;
pub use issued::Issued;

/// One end's half of a ticket. It is no copy of anything: whoever has it may use it, once.
#[derive(Debug, PartialEq)]
pub struct Ticket {
    pub(crate) id: TicketId,
    pub(crate) secret: Secret<32>,
    /// Of the connection that it came from: a ticket of classical keys never opens a connection that passes for more.
    pub(crate) exchange: KeyExchange,
    /// This end's part in the connection that it came from, which is its part in the next one.
    pub(crate) role: Role,
    pub(crate) own_static: [u8; 32],
    /// Of the policy that this end held.
    pub(crate) epoch: u64,
    pub(crate) deadline: Moment,
    pub(crate) past: Past,
}

/// What a connection that is resumed takes over.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Past {
    pub(crate) remote: Arc<VerifiedPeer>,
    pub(crate) evidence: EvidenceDigests,
    /// When both sides proved themselves last.
    pub(crate) attested: Moment,
    /// When the first connection of all began: no ticket and no renewal begins its life anew.
    pub(crate) began: Moment,
}

impl Ticket {
    #[must_use]
    pub const fn id(&self) -> TicketId {
        self.id
    }

    /// The replica at the other end, as it was judged last.
    #[must_use]
    pub fn remote(&self) -> &VerifiedPeer {
        &self.past.remote
    }

    /// When it is good no more.
    #[must_use]
    pub const fn deadline(&self) -> Moment {
        self.deadline
    }

    /// When both sides proved themselves last.
    #[must_use]
    pub const fn attested(&self) -> Moment {
        self.past.attested
    }

    /// Makes it end at `deadline`, if that is sooner.
    #[must_use]
    pub fn until(self, deadline: Moment) -> Self {
        Self { deadline: self.deadline.min(deadline), ..self }
    }
}

#[cfg(test)]
mod tests {
    use sealane_support::rehearsal::rehearsed;
    use sealane_support::world::Who;

    use super::*;

    /// A ticket of the ranker that is good for so many seconds.
    pub(super) fn ticket(number: u8, seconds: u64) -> Ticket {
        let start = Moment::from_micros(0);
        let remote = Arc::new(rehearsed(Who::Ranker).verdict.clone());
        Ticket {
            id: TicketId([number; 16]),
            secret: Secret::take(&mut [number; 32]),
            exchange: KeyExchange::Hybrid,
            role: Role::Responder,
            own_static: [1; 32],
            epoch: 1,
            deadline: start.plus_micros(seconds * 1_000_000),
            past: Past { remote, evidence: EvidenceDigests::NONE, attested: start, began: start },
        }
    }

    #[test]
    fn an_end_is_only_brought_forward() {
        assert_eq!(ticket(1, 10).until(ticket(1, 9).deadline()).deadline(), ticket(1, 9).deadline());
        assert_eq!(ticket(1, 10).until(ticket(1, 11).deadline()).deadline(), ticket(1, 10).deadline());
    }

    #[test]
    fn its_secret_is_not_printed() {
        let shown = format!("{:?}", ticket(7, 1));
        assert!(
            shown.contains("redacted")
                && !shown.contains("7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7"),
            "{shown}"
        );
    }
}
