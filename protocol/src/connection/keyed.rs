//! The connection once keys are shared: records in, frames out, and back.

mod tickets;

use std::sync::Arc;

use sealane_attestation::binding::{Purpose, Role};
use sealane_types::Reason;

use super::bulk::{BulkArrival, BulkRecord};
use super::core::Core;
use super::lane;
use super::links::LinkTerms;
use super::opening::direction;
use super::outbox::{Item, Outbox};
use super::renewal::{RenewError, Renewal};
use super::stage::{Context, Facts, Stage, own_confirm};
use super::{ApiMisuse, BulkOpened, ClosedBy, Event, Fail, PolicyView, SendError, Sink};
use crate::Moment;
use crate::frame::control::Control;
use crate::frame::{Decoded, Frame, decode, encode};
use crate::handshake::{Finished, Kind};
use crate::keys::{EvidenceDigests, Random, Resumption, public_id};
use crate::limits::{EVIDENCE_BYTES_MAX, REATTEST_INTERVAL_MICROS_MIN, RECORD_HEADER_BYTES};
use crate::record::{
    Header, Lane, Level, LevelOpener, LevelSealer, OutputError, PacketOpener, RecordError, RecordKind, Unread,
};
use crate::ticket::Past;

pub(super) struct Keyed {
    pub(super) sealer: LevelSealer,
    pub(super) opener: LevelOpener,
    facts: Facts,
    stage: Stage,
    outbox: Outbox,
    /// Tensor bytes that come in the next records.
    bulk: Option<BulkArrival>,
    /// Bytes that the remote may still send before it is verified, policy apart.
    allowance: usize,
    pings: u64,
    renewal: Option<Renewal>,
    /// When the connection was attested last, and when a renewal that is under way must be over.
    attested: Moment,
    renewal_deadline: Option<Moment>,
    /// When the first of the connections began that this one resumes.
    began: Moment,
    /// What tickets are made from, and how many there were since the connection was attested.
    resumption: Resumption,
    tickets: u32,
    /// What further links begin with, where both sides have them.
    links: Option<Arc<LinkTerms>>,
}

/// What a connection that is over still has.
pub(super) struct Closing {
    pub(super) sealer: LevelSealer,
    pub(super) opener: Option<Box<PacketOpener>>,
}

/// Whether the remote ended the connection.
pub(super) enum Flow {
    Continue,
    ClosedByRemote(Reason),
}

impl Keyed {
    /// `past` is what a connection takes over from the one that it resumes.
    pub(super) fn new(finished: Finished, past: Option<Past>, core: &mut Core) -> Self {
        let Finished { root, handshake_hash, remote_static, suite, version, kind, capabilities } = finished;
        core.suite = Some(suite);
        core.past = past.as_ref().map(|past| past.remote.clone());
        let (evidence, attested, began) = past.map_or((EvidenceDigests::NONE, core.now, core.now), |past| {
            (past.evidence, past.attested, past.began)
        });
        let level = core.level;
        let secret = |role| level.secret(&root, direction(role));
        let PolicyView { epoch, digest, .. } = core.local.policy;
        let binding_key = root.binding_key();
        let purpose = match kind {
            Kind::Full | Kind::Resume => Purpose::Handshake,
            Kind::Audit => Purpose::Audit,
        };
        let facts = Facts {
            handshake_hash,
            binding_key,
            remote_static,
            version,
            kind,
            capabilities,
            purpose,
            evidence,
            epoch,
            digest,
        };
        let mut keyed = Self {
            sealer: LevelSealer::new(level, secret(core.role), core.local.rekey, core.now),
            opener: LevelOpener::new(level, secret(core.role.peer()), core.now),
            facts,
            stage: Stage::Confirming,
            outbox: Outbox::default(),
            bulk: None,
            allowance: EVIDENCE_BYTES_MAX,
            pings: 0,
            renewal: None,
            attested,
            renewal_deadline: None,
            began,
            resumption: root.resumption(),
            tickets: 0,
            links: LinkTerms::of(&root, kind, capabilities, level),
        };
        if let Some(intent) = &core.intent {
            let (expected, session) = (intent.expected.clone(), intent.session.clone());
            keyed.outbox.push(Item::Confirm(own_confirm(core, &keyed.facts, expected, session)));
        }
        keyed
    }

    /// Gives back memory that an idle connection has no use for.
    pub(super) fn release_memory(&mut self) {
        self.outbox.release();
    }

    /// Opens the record at the front of `input` and handles its frames. `None`: it is not complete yet.
    pub(super) fn on_input(
        &mut self,
        core: &mut Core,
        input: Unread<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<(usize, Flow)>, Fail> {
        let Some((header, body)) = input.into_record()? else { return Ok(None) };
        let used = header.length.saturating_add(RECORD_HEADER_BYTES);
        // Between bulk records nothing comes but a key update.
        if self.bulk.is_some() != (header.kind == RecordKind::Bulk) && header.kind != RecordKind::KeyUpdate {
            return Err(RecordError::Kind.into());
        }
        if let Some(arrival) = self.bulk.take_if(|_| header.kind == RecordKind::Bulk) {
            self.bulk = self.on_bulk(core, arrival, header, body, sink)?;
            return Ok(Some((used, Flow::Continue)));
        }
        let plaintext = self.opener.open(header, body, core.now)?;
        core.last_input = core.now;
        match header.kind {
            RecordKind::KeyUpdate => return Ok(Some((used, Flow::Continue))),
            RecordKind::Renewed => {
                self.renewed(core)?;
                return Ok(Some((used, Flow::Continue)));
            }
            RecordKind::Data | RecordKind::Handshake | RecordKind::Refusal | RecordKind::Bulk => {}
        }
        if plaintext.is_empty() {
            return Err(Fail::Order("a record holds no frame"));
        }
        self.on_frames(core, plaintext, sink).map(|flow| Some((used, flow)))
    }

    /// Has the sink open a bulk record. Gives what still follows of its bytes.
    fn on_bulk(
        &mut self,
        core: &mut Core,
        arrival: BulkArrival,
        header: Header,
        body: Unread<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Option<BulkArrival>, Fail> {
        let range = arrival.next(header)?;
        let (LevelOpener::Records(opener), Unread::Sealed(body)) = (&mut self.opener, body) else {
            return Err(RecordError::Kind.into());
        };
        let BulkOpened { .. } = sink.on_bulk(BulkRecord::new(range, opener, header, body, core.now))?;
        core.last_input = core.now;
        Ok(arrival.advance(range))
    }

    fn on_frames(&mut self, core: &mut Core, mut rest: &[u8], sink: &mut dyn Sink) -> Result<Flow, Fail> {
        while !rest.is_empty() {
            let before = rest.len();
            let (frame, after) = decode(rest)?;
            rest = after;
            match frame {
                Decoded::Data(frame) => {
                    if !self.carries_data() {
                        return Err(Fail::Order("data came before both sides were verified"));
                    }
                    if matches!(frame, Frame::PipeOpen(_)) && core.role == Role::Initiator {
                        return Err(Fail::Order("the responder opened a pipe"));
                    }
                    sink.on_frame(frame).map_err(Fail::Sink)?;
                }
                Decoded::Bulk(range) => {
                    if !self.carries_data() || core.level != Level::Records {
                        return Err(Fail::Order("bulk records were announced where there are none"));
                    }
                    if !rest.is_empty() {
                        return Err(Fail::Order("a frame came between bulk records and what they are"));
                    }
                    self.bulk = Some(BulkArrival::new(range));
                }
                Decoded::Control(Control::Close(reason)) => return Ok(Flow::ClosedByRemote(reason)),
                Decoded::Control(Control::Ticket { id, seconds }) => self.on_ticket(core, id, seconds)?,
                Decoded::Control(frame) => {
                    if self.is_established()
                        && matches!(frame, Control::Renew { .. } | Control::Evidence(_) | Control::Ready)
                    {
                        self.on_renewal(core, frame)?;
                        continue;
                    }
                    let bytes = before.saturating_sub(after.len());
                    self.charge(&frame, bytes)?;
                    self.step(core, |stage, context| stage.on_control(frame, context))?;
                }
            }
        }
        Ok(Flow::Continue)
    }

    fn charge(&mut self, frame: &Control<'_>, bytes: usize) -> Result<(), Fail> {
        if matches!(self.stage, Stage::Established(_)) || matches!(frame, Control::Policy(_)) {
            return Ok(());
        }
        self.allowance = self.allowance.checked_sub(bytes).ok_or(Fail::Limit("evidence"))?;
        Ok(())
    }

    /// Lets the stage consume itself. After an error the connection ends, and nothing stands in its place.
    fn step(
        &mut self,
        core: &mut Core,
        advance: impl FnOnce(Stage, &mut Context<'_>) -> Result<Stage, Fail>,
    ) -> Result<(), Fail> {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let mut context = Context { core, facts: &mut self.facts, outbox: &mut self.outbox };
        self.stage = advance(stage, &mut context)?;
        Ok(())
    }

    pub(super) const fn is_established(&self) -> bool {
        matches!(self.stage, Stage::Established(_))
    }

    pub(super) const fn carries_data(&self) -> bool {
        self.is_established() && matches!(self.facts.kind, Kind::Full | Kind::Resume)
    }

    pub(super) fn supply_policy(
        &mut self,
        core: &mut Core,
        epoch: u64,
        chain: &[u8],
    ) -> Result<(), ApiMisuse> {
        match self.stage {
            Stage::PolicyWanted => {
                self.outbox.push_policy(epoch, chain.to_vec());
                self.step(core, |_, context| Ok(Stage::settle(None, context)))
                    .map_err(|_| ApiMisuse::NotAwaited)
            }
            Stage::Established(_) => {
                self.outbox.push_policy(epoch, chain.to_vec());
                Ok(())
            }
            _ => Err(ApiMisuse::NotAwaited),
        }
    }

    pub(super) fn policy_adopted(&mut self, core: &mut Core) -> Result<(), Fail> {
        self.step(core, |stage, context| Ok(stage.policy_adopted(context)))
    }

    /// Whether the shell was asked to verify the remote's policy.
    pub(super) const fn verifies_policy(&self) -> bool {
        matches!(self.stage, Stage::PolicyOffered(_))
    }

    /// Begins to attest the connection again.
    pub(super) fn renew(&mut self, core: &Core, random: &mut dyn Random) -> Result<(), RenewError> {
        let idle = self.carries_data() && self.renewal.is_none() && core.role == Role::Initiator;
        if !idle || core.now.micros_since(self.attested) < REATTEST_INTERVAL_MICROS_MIN {
            return Err(RenewError::NotNow);
        }
        self.renewal = Some(Renewal::begin(core, &self.facts, &mut self.outbox, random)?);
        self.sealer.renewal_begun();
        self.renewal_deadline = Some(core.now.plus_micros(core.local.timing.handshake_micros));
        Ok(())
    }

    /// Answers the remote that attests the connection again.
    pub(super) fn answer_renewal(&mut self, core: &Core, random: &mut dyn Random) -> Result<(), Fail> {
        if let Some(Renewal::Asked(message)) = &self.renewal {
            let answered = Renewal::answer(message, core, &self.facts, &mut self.outbox, random)?;
            self.renewal = Some(answered);
        }
        Ok(())
    }

    /// Whether the shell was asked to answer a renewal.
    pub(super) const fn answers_renewal(&self) -> bool {
        matches!(self.renewal, Some(Renewal::Asked(_)))
    }

    fn on_renewal(&mut self, core: &mut Core, frame: Control<'_>) -> Result<(), Fail> {
        if !self.carries_data() {
            return Err(Fail::Order("an audit is not renewed"));
        }
        if self.renewal.is_none() {
            // Each costs both sides a quote. This side may have heard later of the end of the last one than the remote.
            if core.now.micros_since(self.attested) < REATTEST_INTERVAL_MICROS_MIN / 2 {
                return Err(Fail::Limit("renewals"));
            }
            self.renewal_deadline = Some(core.now.plus_micros(core.local.timing.handshake_micros));
        }
        let renewal = Renewal::on_control(self.renewal.take(), frame, core, &self.facts, &mut self.outbox)?;
        self.sealer.renewal_begun();
        if let Some(fresh) = renewal.just_shared() {
            self.opener.expect(|| fresh.secret(core, core.role.peer()));
        }
        self.renewal = Some(renewal);
        Ok(())
    }

    /// The remote's next record is under the new keys.
    fn renewed(&mut self, core: &mut Core) -> Result<(), Fail> {
        let renewal = self.renewal.take().ok_or(Fail::Order("keys were replaced without a renewal"))?;
        let (secret, resumption, links, facts) = renewal.finish(core)?;
        self.opener.replace(secret, core.now)?;
        (self.facts, self.resumption, self.tickets, self.links) = (facts, resumption, 0, links);
        (self.attested, self.renewal_deadline) = (core.now, None);
        core.emit(Event::Reattested);
        Ok(())
    }

    /// What further links begin with, once the connection carries data.
    pub(super) fn link_terms(&self) -> Option<Arc<LinkTerms>> {
        self.links.clone().filter(|_| self.carries_data())
    }

    pub(super) const fn is_resumed(&self) -> bool {
        matches!(self.facts.kind, Kind::Resume)
    }

    pub(super) const fn attested(&self) -> Moment {
        self.attested
    }

    /// When the connection must end. Neither renewals nor tickets put it off.
    pub(super) const fn life_deadline(&self, life_micros: u64) -> Moment {
        self.began.plus_micros(life_micros)
    }

    pub(super) const fn renewal_deadline(&self) -> Option<Moment> {
        self.renewal_deadline
    }

    /// Whether the remote's evidence for a renewal is being judged.
    pub(super) fn judges_renewal(&self) -> bool {
        self.renewal.as_ref().is_some_and(Renewal::awaits_verdict)
    }

    pub(super) fn accept_renewal(&mut self, core: &mut Core) {
        self.renewal = self.renewal.take().map(|renewal| renewal.accepted(core, &mut self.outbox));
    }

    pub(super) fn supply_evidence(&mut self, core: &Core, message: Vec<u8>) -> Result<(), ApiMisuse> {
        if self.renewal.as_ref().is_some_and(Renewal::wants_evidence) {
            self.renewal = self.renewal.take().map(|renewal| renewal.proved(core.role, &message));
            self.outbox.push(Item::Evidence { message, sent: 0 });
            return Ok(());
        }
        if !matches!(self.stage, Stage::OwnEvidence) {
            return Err(ApiMisuse::NotAwaited);
        }
        self.facts.evidence.shown(core.role, &message);
        self.outbox.push(Item::Evidence { message, sent: 0 });
        self.stage = Stage::proved(core.role);
        Ok(())
    }

    pub(super) const fn awaits_verdict(&self) -> bool {
        matches!(self.stage, Stage::EvidenceOffered | Stage::PastOffered { .. })
    }

    pub(super) const fn awaits_auditor(&self) -> bool {
        matches!(self.stage, Stage::AuditorWaiting)
    }

    pub(super) fn accept(&mut self, core: &mut Core) -> Result<(), Fail> {
        self.step(core, |stage, context| Ok(stage.accepted(context)))
    }

    pub(super) fn send(&mut self, core: &mut Core, frame: &Frame<'_>) -> Result<(), SendError> {
        if !self.carries_data() {
            return Err(ApiMisuse::NotEstablished.into());
        }
        if matches!(frame, Frame::PipeOpen(_)) && core.role == Role::Responder {
            return Err(ApiMisuse::InvalidFrame.into());
        }
        self.flush(core)?;
        let (sealer, lane) = (&mut self.sealer, lane::of(frame));
        let put = core.output.put_frame(sealer, lane, core.now, |space| encode(frame, space));
        put.map_err(refused)
    }

    /// Moves what the connection itself has to say into the output; data must not overtake it.
    pub(super) fn flush(&mut self, core: &mut Core) -> Result<(), SendError> {
        self.outbox.flush(&mut core.output, &mut self.sealer, core.now).map_err(refused)?;
        if self.outbox.is_empty() { Ok(()) } else { Err(SendError::NoRoom) }
    }

    pub(super) fn ping(&mut self) {
        self.pings = self.pings.wrapping_add(1);
        self.outbox.push_ping(self.pings);
    }

    /// Puts the close frame behind everything that is already in the output.
    pub(super) fn put_close(&mut self, core: &mut Core, reason: Reason) -> Result<(), OutputError> {
        let frame = Control::Close(reason);
        core.output.put_frame(&mut self.sealer, Lane::Close, core.now, |space| encode(&frame, space))
    }

    /// Keeps what seals the rest of the output, and what opens the packets that acknowledge it; every other secret is
    /// wiped.
    pub(super) fn into_closing(self) -> Closing {
        let opener = match self.opener {
            LevelOpener::Records(_) => None,
            LevelOpener::Packets(opener) => Some(opener),
        };
        Closing { sealer: self.sealer, opener }
    }

    pub(super) fn public_id(&self) -> [u8; 32] {
        public_id(&self.facts.handshake_hash)
    }

    pub(super) const fn key_updates(&self) -> (u64, u64) {
        (self.sealer.updates(), self.opener.updates())
    }
}

pub(super) fn refused(error: OutputError) -> SendError {
    match error {
        OutputError::Full => SendError::NoRoom,
        OutputError::Frame(_) => ApiMisuse::InvalidFrame.into(),
        // The sequence numbers of a link last for centuries; a new connection is the only answer.
        OutputError::Record(_) => ApiMisuse::NotEstablished.into(),
    }
}

/// Who is to be named when the connection ends by `fail`.
pub(super) const fn blame(fail: &Fail) -> ClosedBy {
    match fail {
        Fail::Handshake(crate::handshake::HandshakeError::Refused(_)) => ClosedBy::Unauthenticated,
        _ => ClosedBy::Local,
    }
}
