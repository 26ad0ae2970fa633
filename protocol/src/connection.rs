//! The encrypted association of two sidecars over one link. See the crate documentation for the contract.

mod assembly;
mod bulk;
mod core;
mod event;
mod fail;
mod flight;
mod keyed;
mod lane;
mod links;
mod opening;
mod outbox;
mod packets;
mod payload;
mod places;
mod proving;
mod renewal;
mod resumption;
mod setup;
mod stage;

use std::sync::Arc;

use sealane_attestation::VerifiedPeer;
use sealane_attestation::binding::Role;
use sealane_types::Reason;

use self::core::{Core, Intent};
use self::keyed::{Closing, Flow, Keyed, blame};
use self::opening::{Opening, Progress, put_refusal};
use crate::Moment;
use crate::frame::Frame;
use crate::handshake::{Kind, Suite};
use crate::keys::Random;
use crate::record::{Level, Rekey, Unread};
use crate::ticket::Ticket;

pub use bulk::{BulkError, BulkOpened, BulkRecord};
pub use event::{ClosedBy, Event, EvidenceReceived, EvidenceWanted, Introduction};
pub use fail::{ApiMisuse, Fail, FillError, IssueError, SendError, StartError};
pub(crate) use flight::HandshakeFlight;
pub use links::{JoinRequest, Joiner, LINK_GREETING_BYTES, LinkReceiver, LinkSender, LinkTerms, joins};
pub use places::Places;
pub use renewal::RenewError;
pub use setup::{AcceptSetup, Local, PolicyView, Setup, Timing};

/// Where frames of streams and pipes go as soon as their record has opened. They borrow from the input buffer.
/// One that does not belong to the session's kind is to be refused.
pub trait Sink {
    /// # Errors
    /// A [`Reason`] ends the connection with it.
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason>;

    /// Takes bytes of an announced tensor that came in a record of their own. Whoever has a place for them opens the record into
    /// it; otherwise they are a [`Frame::Chunk`] like any other.
    ///
    /// # Errors
    /// [`BulkError`] ends the connection.
    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let (chunk, opened) = record.open()?;
        self.on_frame(Frame::Chunk(chunk))?;
        Ok(opened)
    }
}

/// One connection.
pub struct Connection {
    core: Core,
    state: State,
}

enum State {
    Opening(Box<Opening>),
    Keyed(Box<Keyed>),
    /// With the key that seals what is still in the output.
    Closed(Option<Box<Closing>>),
}

impl Connection {
    /// Begins as the side that dials.
    ///
    /// # Errors
    /// [`StartError`] when no suite may be offered, or randomness or cryptography failed.
    pub fn initiate(setup: Setup, random: &mut dyn Random, now: Moment) -> Result<Self, StartError> {
        let Setup { local, kind, expected, session } = setup;
        let mut core = Core::new(local, Role::Initiator, Some(Intent { expected, session }), now);
        let state = State::Opening(Box::new(Opening::initiator(&mut core, kind, random)?));
        Ok(Self { core, state })
    }

    /// Begins as the side that dials and presents a ticket, in place of new evidence. A remote that does not take it
    /// refuses with [`Reason::TicketRefused`]; then, as after every other end before it is established, a full handshake is
    /// the answer.
    ///
    /// # Errors
    /// [`StartError::Ticket`] when the ticket is not good for this; see also [`Self::initiate`].
    pub fn resume(
        setup: Setup,
        ticket: Ticket,
        random: &mut dyn Random,
        now: Moment,
    ) -> Result<Self, StartError> {
        let Setup { local, kind, expected, session } = setup;
        if kind != Kind::Full {
            return Err(StartError::Ticket);
        }
        let mut core = Core::new(local, Role::Initiator, Some(Intent { expected, session }), now);
        let state = State::Opening(Box::new(Opening::resuming(&mut core, ticket, random)?));
        Ok(Self { core, state })
    }

    /// Begins as the side that was dialled.
    ///
    /// # Errors
    /// See [`Self::initiate`].
    pub fn accept(setup: AcceptSetup, random: &mut dyn Random, now: Moment) -> Result<Self, StartError> {
        let AcceptSetup { local, audit } = setup;
        let core = Core::new(local, Role::Responder, None, now);
        let state = State::Opening(Box::new(Opening::responder(&core, audit, random)?));
        Ok(Self { core, state })
    }

    /// A connection that has just begun, over a carrier that keeps no order: [`Engine`](crate::datagram::Engine) moves
    /// what it says, in packets that are sealed. Its own input and output are closed to everyone else.
    #[must_use]
    pub fn over_datagrams(mut self) -> Self {
        debug_assert!(matches!(self.state, State::Opening(_)), "its keys would be for records");
        self.core.level = Level::Packets;
        self
    }

    /// Takes bytes from the carrier, opens whole records in place, hands their frames to `sink`, and returns
    /// how many bytes it consumed. The rest is the beginning of a record: hand it in again with more behind it.
    /// [`limits::RECORD_WIRE_BYTES_MAX`](crate::limits::RECORD_WIRE_BYTES_MAX) bytes are always enough for one.
    ///
    /// # Errors
    /// [`Fail`] when the connection is over; the close frame that tells the remote is in the output.
    pub fn handle_input(
        &mut self,
        now: Moment,
        input: &mut [u8],
        sink: &mut dyn Sink,
    ) -> Result<usize, Fail> {
        self.begin_input(now)?;
        if self.core.level == Level::Packets {
            return self.ended(Err(Fail::Order("bytes came that were in no packet")));
        }
        let mut used = 0_usize;
        while let Some(rest) = input.get_mut(used..).filter(|rest| !rest.is_empty()) {
            let handled = match &self.state {
                State::Opening(_) => self.on_handshake(rest),
                State::Keyed(_) | State::Closed(_) => self.on_record(Unread::Sealed(rest), sink),
            };
            let Some(consumed) = self.ended(handled)? else { break };
            used = used.saturating_add(consumed);
        }
        Ok(used)
    }

    fn begin_input(&mut self, now: Moment) -> Result<(), Fail> {
        self.core.touch(now);
        if self.is_closed() { Err(Fail::Closed) } else { Ok(()) }
    }

    /// What came of some input: the connection is over if that is an error.
    fn ended<T>(&mut self, handled: Result<T, Fail>) -> Result<T, Fail> {
        handled.inspect_err(|fail| self.end(blame(fail), fail.reason()))
    }

    /// Handles the message at the front of `input`, before there are keys, and returns its length; `None` while it is
    /// incomplete.
    fn on_handshake(&mut self, input: &[u8]) -> Result<Option<usize>, Fail> {
        let State::Opening(opening) = std::mem::replace(&mut self.state, State::Closed(None)) else {
            return Err(Fail::Order("a message of the handshake came after it"));
        };
        let may_refuse = opening.may_refuse();
        let (state, used) = match opening.on_input(&mut self.core, input) {
            Ok(Progress::Incomplete(opening)) => (State::Opening(Box::new(opening)), None),
            Ok(Progress::Next(opening, used)) => (State::Opening(Box::new(opening)), Some(used)),
            Ok(Progress::Keyed(keyed, used)) => (State::Keyed(keyed), Some(used)),
            Err(fail) => {
                // Whatever is said now is unauthenticated: a hint for the operator at the other end.
                if may_refuse && blame(&fail) == ClosedBy::Local {
                    let _ = put_refusal(&mut self.core, fail.reason());
                }
                return Err(fail);
            }
        };
        self.state = state;
        Ok(used)
    }

    /// Handles the record at the front of `input` and returns its length; `None` while it is incomplete.
    fn on_record(&mut self, input: Unread<'_>, sink: &mut dyn Sink) -> Result<Option<usize>, Fail> {
        let length = input.len();
        match &mut self.state {
            State::Opening(_) => Err(Fail::Order("a record came before there were keys")),
            State::Keyed(keyed) => {
                let Some((used, flow)) = keyed.on_input(&mut self.core, input, sink)? else {
                    return Ok(None);
                };
                if let Flow::ClosedByRemote(reason) = flow {
                    self.end(ClosedBy::Remote, reason);
                }
                Ok(Some(used))
            }
            // After the remote's close frame nothing is looked at any more.
            State::Closed(_) => Ok(Some(length)),
        }
    }

    /// The carrier ended. Without an authenticated close before it, this is a cut.
    pub fn handle_cut(&mut self) {
        self.end(ClosedBy::Cut, Reason::LinkLost);
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.core.touch(now);
        let Core { now, deadline, last_input, last_output, .. } = self.core;
        let (timing, life_micros) = (self.core.local.timing, self.core.local.policy.life_micros);
        match &mut self.state {
            State::Closed(_) => {}
            _ if deadline.is_some_and(|deadline| now >= deadline) => self.close(Reason::HandshakeTimeout),
            State::Keyed(keyed) if now >= keyed.life_deadline(life_micros) => {
                self.close(Reason::SessionLifeOver);
            }
            State::Keyed(keyed) if keyed.renewal_deadline().is_some_and(|deadline| now >= deadline) => {
                self.close(Reason::HandshakeTimeout);
            }
            State::Keyed(keyed) if keyed.is_established() => {
                if now >= last_input.plus_micros(timing.silence_micros) {
                    self.end(ClosedBy::Cut, Reason::LinkLost);
                } else if now >= last_output.plus_micros(timing.keepalive_micros) {
                    keyed.ping();
                    self.core.last_output = now;
                }
            }
            State::Keyed(_) | State::Opening(_) => {}
        }
    }

    /// Sealed bytes for the carrier; empty when there are none. Seals what is queued when nothing sealed is
    /// left, so small frames coalesce while the carrier is busy.
    pub fn poll_output(&mut self, now: Moment) -> &[u8] {
        match self.core.level {
            Level::Records => self.poll_bytes(now),
            Level::Packets => &[],
        }
    }

    /// What [`Self::poll_output`] gives, whether it is sealed or goes into packets that are.
    pub(crate) fn poll_bytes(&mut self, now: Moment) -> &[u8] {
        self.core.touch(now);
        let Self { core, state } = self;
        let sealer = match state {
            State::Opening(_) => None,
            State::Keyed(keyed) => {
                // What does not fit yet goes out after the next drain.
                let _ = keyed.flush(core);
                Some(&mut keyed.sealer)
            }
            State::Closed(closing) => closing.as_deref_mut().map(|closing| &mut closing.sealer),
        };
        let bytes = core.output.poll(sealer).unwrap_or_default();
        if !bytes.is_empty() {
            core.last_output = core.now;
        }
        bytes
    }

    /// The carrier took the first `bytes` of [`Self::poll_output`].
    pub fn output_written(&mut self, bytes: usize) {
        self.core.output.written(bytes);
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    /// When [`Self::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Moment> {
        let Core { deadline, last_input, last_output, .. } = self.core;
        let timing = self.core.local.timing;
        if self.is_established() {
            let silence = last_input.plus_micros(timing.silence_micros);
            let next = silence.min(last_output.plus_micros(timing.keepalive_micros));
            let others = [self.renewal_deadline(), self.life_deadline()];
            return Some(others.into_iter().flatten().fold(next, Moment::min));
        }
        [deadline, self.life_deadline()].into_iter().flatten().min()
    }

    /// Queues a frame of a stream or pipe. Only the initiator opens pipes.
    ///
    /// # Errors
    /// [`SendError::NoRoom`] until the output is drained.
    pub fn send(&mut self, frame: &Frame<'_>) -> Result<(), SendError> {
        let Self { core, state } = self;
        let State::Keyed(keyed) = state else { return Err(ApiMisuse::NotEstablished.into()) };
        keyed.send(core, frame)
    }

    /// Whether data may begin another record. Control frames have some more room.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.core.output.has_room()
    }

    /// Gives back memory that an idle connection has no use for. What is queued stays, and what is sent next takes
    /// memory anew.
    pub fn release_memory(&mut self) {
        let Self { core, state } = self;
        core.output.release();
        core.events.shrink_to_fit();
        if let State::Keyed(keyed) = state {
            keyed.release_memory();
        }
    }

    /// Ends the connection and tells the remote why. Drain the output afterwards.
    pub fn close(&mut self, reason: Reason) {
        self.end(ClosedBy::Local, reason);
    }

    /// The one way a connection ends. Every secret is wiped but the key that seals what is still in the output.
    fn end(&mut self, by: ClosedBy, reason: Reason) {
        let Self { core, state } = self;
        if core.is_over() {
            return;
        }
        let closing = match std::mem::replace(state, State::Closed(None)) {
            State::Opening(opening) if by == ClosedBy::Local && opening.may_refuse() => {
                let _ = put_refusal(core, reason);
                None
            }
            State::Opening(_) | State::Closed(_) => None,
            State::Keyed(mut keyed) => {
                if by == ClosedBy::Local {
                    // Evidence that is still queued is of no use to a remote that we leave.
                    let _ = keyed.put_close(core, reason);
                }
                Some(Box::new(keyed.into_closing()))
            }
        };
        *state = State::Closed(closing);
        core.emit_closed(by, reason);
    }

    /// Ends it because of what its carrier brought.
    pub(crate) fn fail(&mut self, fail: &Fail) {
        self.end(blame(fail), fail.reason());
    }

    #[must_use]
    pub const fn is_established(&self) -> bool {
        matches!(&self.state, State::Keyed(keyed) if keyed.is_established())
    }

    const fn renewal_deadline(&self) -> Option<Moment> {
        match &self.state {
            State::Keyed(keyed) => keyed.renewal_deadline(),
            _ => None,
        }
    }

    const fn life_deadline(&self) -> Option<Moment> {
        match &self.state {
            State::Keyed(keyed) => Some(keyed.life_deadline(self.core.local.policy.life_micros)),
            _ => None,
        }
    }

    /// When both sides proved themselves last, on this connection or on the one that it resumes; once keys are shared.
    #[must_use]
    pub const fn attested(&self) -> Option<Moment> {
        match &self.state {
            State::Keyed(keyed) => Some(keyed.attested()),
            _ => None,
        }
    }

    /// Whether it began with a ticket, on the side that presents it from the beginning on.
    #[must_use]
    pub const fn is_resumed(&self) -> bool {
        match &self.state {
            State::Opening(opening) => opening.presents_ticket(),
            State::Keyed(keyed) => keyed.is_resumed(),
            State::Closed(_) => false,
        }
    }

    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.core.is_over()
    }

    /// What the remote claims, once it has.
    #[must_use]
    pub const fn introduction(&self) -> Option<&Introduction> {
        self.core.introduction.as_ref()
    }

    /// The verdict on the remote, once there is one.
    #[must_use]
    pub fn peer(&self) -> Option<&VerifiedPeer> {
        self.core.peer.as_deref()
    }

    /// The suite in use, once keys are shared.
    #[must_use]
    pub const fn suite(&self) -> Option<Suite> {
        self.core.suite
    }

    /// What both sides call this connection while it is open, once keys are shared: SHA-256 over the handshake hash,
    /// for logs and traces. It is no secret and proves nothing.
    #[must_use]
    pub fn public_id(&self) -> Option<[u8; 32]> {
        match &self.state {
            State::Keyed(keyed) => Some(keyed.public_id()),
            _ => None,
        }
    }

    /// What further links of this connection begin with, where it carries tensors over a stream and both sides have such
    /// links. After a renewal it is another: links of the one before are to end.
    #[must_use]
    pub fn link_terms(&self) -> Option<Arc<LinkTerms>> {
        match &self.state {
            State::Keyed(keyed) => keyed.link_terms(),
            _ => None,
        }
    }

    /// Replaces keys as the session asks, from now on, and refuses keys of the remote that are older than twice its
    /// interval. The side that was dialled learns only now which session it is; nothing: as this side began.
    pub fn rotate(&mut self, rekey: Option<Rekey>) {
        let rekey = rekey.unwrap_or(self.core.local.rekey);
        if let State::Keyed(keyed) = &mut self.state {
            keyed.sealer.rotate(rekey);
            keyed.opener.rotate(rekey);
        }
    }

    /// How often the keys of this side and of the remote were replaced.
    #[must_use]
    pub const fn key_updates(&self) -> (u64, u64) {
        match &self.state {
            State::Keyed(keyed) => keyed.key_updates(),
            _ => (0, 0),
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Core { role, suite, introduction, .. } = &self.core;
        let state = match &self.state {
            State::Opening(_) => "opening",
            State::Keyed(keyed) if keyed.is_established() => "established",
            State::Keyed(_) => "proving",
            State::Closed(_) => "closed",
        };
        f.debug_struct("Connection")
            .field("role", role)
            .field("state", &state)
            .field("suite", suite)
            .field("introduction", introduction)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
