//! The connection before keys are shared.

use sealane_attestation::binding::Role;
use sealane_types::Reason;

use super::core::Core;
use super::keyed::Keyed;
use super::resumption::admit;
use super::{Event, Fail, StartError};
use crate::codec::CodecError;
use crate::handshake::{
    BeginError, HandshakeError, Hello, Initiator, Kind, Opening as Offer, Responder, ResponderWaiting,
    Resuming, Suite, answer_ticket, capability,
};
use crate::keys::{Random, Secret};
use crate::limits::RECORD_HEADER_BYTES;
use crate::record::{Header, Level, OutputError, RecordError, RecordKind};
use crate::ticket::{Past, Ticket};

/// Which handshake message comes next.
pub(super) enum Opening {
    /// The initiator waits for message 2.
    Initiator(Initiator),
    /// The responder waits for the hello and message 1.
    Responder(Responder),
    /// The responder waits for message 3.
    ResponderWaiting(ResponderWaiting),
    /// The initiator has presented a ticket and waits for message 2.
    Resuming(Resuming, Past),
    /// The shell looks for the ticket that was presented.
    TicketWanted(Box<Presentation>),
}

/// The first flight of an initiator that presents a ticket.
pub(super) struct Presentation {
    responder: Responder,
    hello: Hello,
    hello_bytes: Vec<u8>,
    message: Vec<u8>,
}

/// What became of some input.
pub(super) enum Progress {
    /// Nothing can be said before more bytes arrive.
    Incomplete(Opening),
    Next(Opening, usize),
    Keyed(Box<Keyed>, usize),
}

impl Opening {
    pub(super) fn initiator(
        core: &mut Core,
        kind: Kind,
        random: &mut dyn Random,
    ) -> Result<Self, StartError> {
        let suites = permitted(core)?;
        let (static_key, kem) = (core.local.static_key.clone(), core.local.kem.clone());
        let (initiator, opening) =
            Initiator::begin(kind, suites, capability::of(core.local.links), &static_key, &*kem, random)?;
        put_offer(core, &opening)?;
        Ok(Self::Initiator(initiator))
    }

    pub(super) fn resuming(
        core: &mut Core,
        ticket: Ticket,
        random: &mut dyn Random,
    ) -> Result<Self, StartError> {
        let suites = permitted(core)?;
        let (ticket, past) = admit(ticket, core).ok_or(StartError::Ticket)?;
        if !suites.iter().any(|suite| suite.exchange == ticket.exchange) {
            return Err(StartError::Ticket);
        }
        let (resuming, opening) = Resuming::begin(ticket, suites, capability::of(core.local.links), random)?;
        put_offer(core, &opening)?;
        Ok(Self::Resuming(resuming, past))
    }

    pub(super) fn responder(core: &Core, audit: bool, random: &mut dyn Random) -> Result<Self, StartError> {
        let ephemeral = Secret::random(random)?;
        Ok(Self::Responder(Responder {
            static_key: core.local.static_key.clone(),
            kem: core.local.kem.clone(),
            suites: permitted(core)?,
            audit,
            capabilities: capability::of(core.local.links),
            ephemeral,
        }))
    }

    /// Whether the remote takes a refusal now. Behind message 2 it has keys, and would take one for a record that
    /// somebody made up.
    pub(super) const fn may_refuse(&self) -> bool {
        !matches!(self, Self::ResponderWaiting(_) | Self::Resuming(..))
    }

    pub(super) const fn presents_ticket(&self) -> bool {
        matches!(self, Self::Resuming(..))
    }

    pub(super) const fn wants_ticket(&self) -> bool {
        matches!(self, Self::TicketWanted(_))
    }

    /// The shell has the ticket that was presented, or has it not.
    pub(super) fn on_ticket(self, core: &mut Core, ticket: Option<Ticket>) -> Result<Box<Keyed>, Fail> {
        let Self::TicketWanted(presentation) = self else { return Err(HandshakeError::Ticket.into()) };
        let Presentation { responder, hello, hello_bytes, message } = *presentation;
        let (ticket, past) = ticket.and_then(|ticket| admit(ticket, core)).ok_or(HandshakeError::Ticket)?;
        let (finished, reply) = answer_ticket(responder, &ticket, &hello, &hello_bytes, &message)?;
        put_handshake(core, &reply).map_err(|_| Fail::Order("the output is full"))?;
        Ok(Box::new(Keyed::new(finished, Some(past), core)))
    }

    pub(super) fn on_input(self, core: &mut Core, input: &[u8]) -> Result<Progress, Fail> {
        match self {
            Self::Responder(responder) => on_hello(responder, core, input),
            Self::Initiator(initiator) => {
                let Some((message, used)) = handshake_message(core.level, input)? else {
                    return Ok(Progress::Incomplete(Self::Initiator(initiator)));
                };
                let (finished, reply) = initiator.on_message2(message)?;
                put_handshake(core, &reply).map_err(|_| Fail::Order("the output is full"))?;
                Ok(Progress::Keyed(Box::new(Keyed::new(finished, None, core)), used))
            }
            Self::Resuming(resuming, past) => {
                let Some((message, used)) = handshake_message(core.level, input)? else {
                    return Ok(Progress::Incomplete(Self::Resuming(resuming, past)));
                };
                let finished = resuming.on_message2(message)?;
                Ok(Progress::Keyed(Box::new(Keyed::new(finished, Some(past), core)), used))
            }
            // Nobody has reason to say more before message 2.
            waiting @ Self::TicketWanted(_) => Ok(Progress::Incomplete(waiting)),
            Self::ResponderWaiting(responder) => {
                let Some((message, used)) = handshake_message(core.level, input)? else {
                    return Ok(Progress::Incomplete(Self::ResponderWaiting(responder)));
                };
                let finished = responder.on_message3(message)?;
                Ok(Progress::Keyed(Box::new(Keyed::new(finished, None, core)), used))
            }
        }
    }
}

fn on_hello(responder: Responder, core: &mut Core, input: &[u8]) -> Result<Progress, Fail> {
    let Some((hello, hello_length)) = Hello::parse(input)? else {
        return Ok(Progress::Incomplete(Opening::Responder(responder)));
    };
    // A hello that leads nowhere is refused before anything is computed for it.
    responder.choose(&hello)?;
    let (hello_bytes, rest) = input.split_at_checked(hello_length).ok_or(Fail::Order("hello length"))?;
    let Some((message, used)) = handshake_message(core.level, rest)? else {
        return Ok(Progress::Incomplete(Opening::Responder(responder)));
    };
    let used = hello_length.saturating_add(used);
    if let Some(id) = hello.ticket {
        core.emit(Event::TicketPresented(id));
        let (hello_bytes, message) = (hello_bytes.to_vec(), message.to_vec());
        let presentation = Presentation { responder, hello, hello_bytes, message };
        return Ok(Progress::Next(Opening::TicketWanted(Box::new(presentation)), used));
    }
    let (waiting, reply) = responder.on_message1(&hello, hello_bytes, message)?;
    put_handshake(core, &reply).map_err(|_| Fail::Order("the output is full"))?;
    Ok(Progress::Next(Opening::ResponderWaiting(waiting), used))
}

/// The handshake message at the front of `input`, and its length with header; a refusal in its place is an
/// error.
pub(super) fn handshake_message(level: Level, input: &[u8]) -> Result<Option<(&[u8], usize)>, Fail> {
    let Some((head, rest)) = input.split_first_chunk::<RECORD_HEADER_BYTES>() else { return Ok(None) };
    let header = Header::parse(*head, level)?;
    let Some(body) = rest.get(..header.length) else { return Ok(None) };
    match header.kind {
        RecordKind::Handshake => Ok(Some((body, header.length.saturating_add(RECORD_HEADER_BYTES)))),
        RecordKind::Refusal => {
            let code = body.try_into().map(u16::from_be_bytes).map_err(|_| CodecError::Truncated);
            let reason = Reason::from_code(code.map_err(HandshakeError::from)?);
            Err(HandshakeError::Refused(reason).into())
        }
        RecordKind::Data | RecordKind::KeyUpdate | RecordKind::Renewed | RecordKind::Bulk => {
            Err(RecordError::Kind.into())
        }
    }
}

fn put_offer(core: &mut Core, offer: &Offer) -> Result<(), StartError> {
    let put = core.output.put_clear(&offer.hello).and_then(|()| put_handshake(core, &offer.message));
    put.map_err(|_| StartError::Crypto)
}

fn put_handshake(core: &mut Core, message: &[u8]) -> Result<(), OutputError> {
    put_clear(core, RecordKind::Handshake, message)
}

/// Tells the other side, unauthenticated, why there will be no handshake.
pub(super) fn put_refusal(core: &mut Core, reason: Reason) -> Result<(), OutputError> {
    put_clear(core, RecordKind::Refusal, &reason.code().to_be_bytes())
}

fn put_clear(core: &mut Core, kind: RecordKind, body: &[u8]) -> Result<(), OutputError> {
    let header = Header { kind, length: body.len() }.encode()?;
    core.output.put_clear(&header)?;
    core.output.put_clear(body)
}

fn permitted(core: &Core) -> Result<Vec<Suite>, StartError> {
    let floor = &core.local.policy.floor;
    let suites: Vec<_> = core.local.suites.iter().copied().filter(|suite| floor.permits(*suite)).collect();
    if suites.is_empty() { Err(StartError::NoSuite) } else { Ok(suites) }
}

/// The name under which the direction of `role` derives its secrets.
pub(super) const fn direction(role: Role) -> crate::keys::Label {
    match role {
        Role::Initiator => crate::keys::Label::Initiator,
        Role::Responder => crate::keys::Label::Responder,
    }
}

impl From<BeginError> for StartError {
    fn from(error: BeginError) -> Self {
        match error {
            BeginError::Random(error) => Self::Random(error),
            BeginError::Kem(error) => Self::Kem(error),
            BeginError::Crypto => Self::Crypto,
        }
    }
}
