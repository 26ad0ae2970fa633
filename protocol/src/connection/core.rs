//! What every state of a connection has at hand.

use std::collections::VecDeque;
use std::sync::Arc;

use sealane_attestation::VerifiedPeer;
use sealane_attestation::binding::Role;
use sealane_types::{PeerName, Reason, SessionName};

use super::{ClosedBy, Event, Introduction, Local};
use crate::Moment;
use crate::handshake::Suite;
use crate::record::{Level, Output};

#[derive(Debug)]
pub(super) struct Core {
    pub(super) local: Local,
    pub(super) role: Role,
    /// What an initiator set out for; a responder learns it.
    pub(super) intent: Option<Intent>,
    pub(super) now: Moment,
    /// When the handshake must be over; `None` once established.
    pub(super) deadline: Option<Moment>,
    pub(super) last_input: Moment,
    pub(super) last_output: Moment,
    pub(super) events: VecDeque<Event>,
    over: bool,
    pub(super) output: Output,
    pub(super) level: Level,
    pub(super) suite: Option<Suite>,
    pub(super) introduction: Option<Introduction>,
    /// Tickets share it.
    pub(super) peer: Option<Arc<VerifiedPeer>>,
    /// The remote of the connection that this one resumes: it must be the same replica.
    pub(super) past: Option<Arc<VerifiedPeer>>,
}

/// Whom an initiator wants to reach, and what for.
#[derive(Debug)]
pub(super) struct Intent {
    pub(super) expected: PeerName,
    pub(super) session: SessionName,
}

impl Core {
    pub(super) fn new(local: Local, role: Role, intent: Option<Intent>, now: Moment) -> Self {
        let deadline = Some(now.plus_micros(local.timing.handshake_micros));
        Self {
            local,
            role,
            intent,
            now,
            deadline,
            last_input: now,
            last_output: now,
            events: VecDeque::new(),
            over: false,
            output: Output::default(),
            level: Level::Records,
            suite: None,
            introduction: None,
            peer: None,
            past: None,
        }
    }

    /// Time never runs backwards, whatever the shell hands in.
    pub(super) fn touch(&mut self, now: Moment) {
        self.now = self.now.max(now);
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(super) fn emit_closed(&mut self, by: ClosedBy, reason: Reason) {
        self.deadline = None;
        self.over = true;
        self.emit(Event::Closed { by, reason });
    }

    /// Whether the connection has ended, for whatever reason.
    pub(super) const fn is_over(&self) -> bool {
        self.over
    }
}
