//! A connection whose initiator is an auditor: it proves nothing but its key, gets evidence, and goes.

use std::time::Duration;

use sealane_protocol::Moment;
use sealane_protocol::connection::Connection;
use sealane_types::{PublicKey, Reason};

use crate::context::Context;
use crate::policy::Held;

/// How long an audit may stay after its answer, which is all that there is to it.
const AUDITED: Duration = Duration::from_secs(5);

/// How far the audit is, if it is one.
#[derive(Debug, Default)]
pub(super) struct Auditing {
    /// When the auditor accepted this side's evidence.
    answered: Option<Moment>,
}

impl Auditing {
    /// Lets the auditor ask for evidence: its key must be one that the policy lists, and its turn to have come.
    pub(super) fn admit(context: &Context, held: &Held, connection: &mut Connection) -> Result<(), Reason> {
        let key = connection.introduction().ok_or(Reason::FrameMalformed)?.static_key;
        let listed =
            held.policy.document().auditors.as_ref().is_some_and(|auditors| {
                auditors.public_keys.iter().any(|auditor| *auditor.as_bytes() == key)
            });
        if !listed {
            return Err(Reason::AuditorUnknown);
        }
        if !context.audits.admit(&key, context.clock.moment()) {
            return Err(Reason::LimitExceeded);
        }
        tracing::info!(auditor = %PublicKey::new(key), "an auditor asks for evidence");
        connection.admit_auditor().map_err(|_| Reason::FrameMalformed)
    }

    pub(super) fn answered(&mut self, now: Moment) {
        self.answered = Some(now);
    }

    pub(super) const fn is_answered(&self) -> bool {
        self.answered.is_some()
    }

    /// Ends an audit that its auditor does not end.
    pub(super) fn dismiss(&self, now: Moment, connection: &mut Connection) {
        let stays = |answered| Duration::from_micros(now.micros_since(answered)) >= AUDITED;
        if !connection.is_closed() && self.answered.is_some_and(stays) {
            connection.close(Reason::Finished);
        }
    }
}
