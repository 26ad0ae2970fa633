//! Whether a ticket is good for a connection.

use super::core::Core;
use crate::handshake::Presented;
use crate::ticket::{Past, Ticket};

/// What the handshake and the connection need of `ticket`, if this side may use it now. Whoever presents it must know its
/// secret besides.
pub(super) fn admit(ticket: Ticket, core: &Core) -> Option<(Presented, Past)> {
    let Ticket { id, secret, exchange, role, own_static, epoch, deadline, past } = ticket;
    let policy = &core.local.policy;
    // Between the same two processes, in the same roles.
    if role != core.role || own_static != *core.local.static_key.public() {
        return None;
    }
    // Under a policy that is at least as new: what it says of the remote, the shell asks it.
    if epoch > policy.epoch {
        return None;
    }
    if core.now >= deadline {
        return None;
    }
    // A newer policy may permit a shorter life.
    if core.now >= past.began.plus_micros(policy.life_micros) {
        return None;
    }
    // For the Peer that is dialled; who dials us says its name in the confirm frame.
    if core.intent.as_ref().is_some_and(|intent| intent.expected != *past.remote.peer()) {
        return None;
    }
    let remote_static = *past.remote.static_key();
    Some((Presented { id, secret, exchange, remote_static }, past))
}
