//! From shared keys to two verdicts: who speaks next, and what the shell is asked.
//!
//! ```text
//!            initiator                              responder
//! Confirming      confirm →            Confirming
//!                            ← confirm
//!            … the side that is behind receives the newer policy first …
//! OwnEvidence     evidence →           EvidenceAwaited
//!                                      EvidenceOffered   (judged by the shell)
//! EvidenceAwaited            ← evidence OwnEvidence
//! EvidenceOffered (judged)             ReadyAwaited
//! Established     ready →              Established
//! ```
//!
//! In an audit the initiator's static key takes the place of its evidence. In a connection that is resumed, what both
//! sides showed earlier does:
//!
//! ```text
//! PastOffered (judged)       ready →    PastOffered (judged)
//!                            ← ready
//! Established                           Established
//! ```

use std::sync::Arc;

use sealane_attestation::EvidenceMessage;
use sealane_attestation::binding::{Leaf, Purpose, Role};

use sealane_types::Digest;

use super::assembly::{Assembly, assemble};
use super::core::Core;
use super::outbox::{Item, Outbox};
use super::places::Place;
use super::{Event, EvidenceReceived, EvidenceWanted, Fail, Introduction};
use crate::frame::control::{Confirm, Control, Fragment};
use crate::handshake::Kind;
use crate::keys::{EvidenceDigests, Secret};
use crate::limits::{EVIDENCE_BYTES_MAX, POLICY_CHAIN_BYTES_MAX};

/// What is waited for.
#[derive(Debug)]
pub(super) enum Stage {
    Confirming,
    /// The remote is behind; the shell is asked for our policy.
    PolicyWanted,
    /// We are behind; the remote's policy is on its way.
    PolicyAwaited(Place, Option<Assembly>),
    /// The shell verifies the remote's policy. Evidence may already follow it.
    PolicyOffered(Box<Early>),
    /// The shell decides whether the initiator is an auditor.
    AuditorWaiting,
    /// The shell is asked for a quote.
    OwnEvidence,
    EvidenceAwaited(Option<Assembly>),
    /// The shell judges.
    EvidenceOffered,
    /// The shell judges again what the remote showed earlier. It may have accepted us meanwhile.
    PastOffered {
        accepted: bool,
    },
    /// The remote's acceptance is awaited.
    ReadyAwaited,
    Established(Option<Assembly>),
    /// The remote broke the protocol: nothing is accepted any more.
    Over,
}

/// What overtook the verification of a policy: evidence, or acceptance where none is shown.
#[derive(Debug)]
pub(super) struct Early {
    /// Of the policy, until it is adopted.
    _place: Place,
    part: Option<Assembly>,
    whole: Option<EvidenceMessage>,
    accepted: bool,
}

/// What the finished handshake says about this connection.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) handshake_hash: [u8; 32],
    pub(super) binding_key: Secret<32>,
    pub(super) remote_static: [u8; 32],
    pub(super) version: u16,
    pub(super) kind: Kind,
    pub(super) capabilities: u32,
    /// What evidence for this handshake is for.
    pub(super) purpose: Purpose,
    /// What both sides have shown for it, as far as they have.
    pub(super) evidence: EvidenceDigests,
    /// The policy that this side confirms. Both sides compare what was confirmed, so that one which adopts
    /// another policy meanwhile does not make them disagree on who is behind.
    pub(super) epoch: u64,
    pub(super) digest: Digest,
}

/// The leaf of `prover` in the tree of handshakes that its evidence is for.
pub(super) fn leaf_of(facts: &Facts, core: &Core, prover: Role) -> Leaf {
    let own = core.local.static_key.public();
    let (prover_static, verifier_static) =
        if prover == core.role { (own, &facts.remote_static) } else { (&facts.remote_static, own) };
    let key = facts.binding_key.expose();
    Leaf::new(facts.purpose, prover, &facts.handshake_hash, key, prover_static, verifier_static)
}

/// Everything that a stage may touch.
pub(super) struct Context<'a> {
    pub(super) core: &'a mut Core,
    pub(super) facts: &'a mut Facts,
    pub(super) outbox: &'a mut Outbox,
}

const UNEXPECTED: Fail = Fail::Order("a frame came out of turn");

impl Stage {
    /// A frame of the remote's connection.
    pub(super) fn on_control(self, frame: Control<'_>, context: &mut Context<'_>) -> Result<Self, Fail> {
        match (self, frame) {
            (Self::Confirming, Control::Confirm(confirm)) => on_confirm(confirm, context),
            (Self::PolicyAwaited(place, slot), Control::Policy(part)) => {
                on_awaited_policy(place, slot, &part, context)
            }
            (Self::PolicyOffered(mut early), Control::Evidence(part)) if proves_first(context) => {
                if early.whole.is_some() {
                    return Err(UNEXPECTED);
                }
                early.whole = received(&mut early.part, &part, context)?;
                Ok(Self::PolicyOffered(early))
            }
            (Self::PolicyOffered(mut early), Control::Ready) if is_resumed(context) && !early.accepted => {
                early.accepted = true;
                Ok(Self::PolicyOffered(early))
            }
            (Self::EvidenceAwaited(mut slot), Control::Evidence(part)) => {
                let whole = received(&mut slot, &part, context)?;
                Ok(whole.map_or(Self::EvidenceAwaited(slot), |message| offer(message, context)))
            }
            (Self::PastOffered { accepted: false }, Control::Ready) => {
                Ok(Self::PastOffered { accepted: true })
            }
            (Self::ReadyAwaited, Control::Ready) => Ok(Self::establish(context)),
            (Self::Established(mut slot), Control::Policy(part)) => {
                if let Some((epoch, chain)) = assemble(&mut slot, &part, POLICY_CHAIN_BYTES_MAX)?
                    && epoch > context.core.local.policy.epoch
                {
                    context.core.emit(Event::PolicyOffered { epoch, chain });
                }
                Ok(Self::Established(slot))
            }
            (Self::Established(slot), Control::Ping(token)) => {
                context.outbox.push_pong(token);
                Ok(Self::Established(slot))
            }
            (Self::Established(slot), Control::Pong(_) | Control::Pad) => Ok(Self::Established(slot)),
            _ => Err(UNEXPECTED),
        }
    }

    /// Both sides hold the same policy, or are about to: evidence begins.
    pub(super) fn settle(early: Option<EvidenceMessage>, context: &mut Context<'_>) -> Self {
        match (context.core.role, context.facts.kind) {
            (Role::Initiator, Kind::Full) => want_evidence(context),
            (Role::Initiator, Kind::Audit) | (Role::Responder, Kind::Full) => {
                early.map_or(Self::EvidenceAwaited(None), |message| offer(message, context))
            }
            (Role::Responder, Kind::Audit) => {
                context.core.emit(Event::AuditorIntroduced);
                Self::AuditorWaiting
            }
            (_, Kind::Resume) => offer_past(false, context),
        }
    }

    /// The shell has adopted a policy at least as new as the remote's.
    pub(super) fn policy_adopted(self, context: &mut Context<'_>) -> Self {
        match self {
            Self::PolicyOffered(early) => match *early {
                Early { part: Some(part), .. } => Self::EvidenceAwaited(Some(part)),
                Early { accepted: true, .. } => offer_past(true, context),
                Early { whole, .. } => Self::settle(whole, context),
            },
            other => other,
        }
    }

    /// The remote was accepted, by its evidence, by what it showed earlier, or as an auditor.
    pub(super) fn accepted(self, context: &mut Context<'_>) -> Self {
        match (self, context.core.role) {
            (Self::PastOffered { accepted }, _) => {
                context.outbox.push(Item::Ready);
                if accepted { Self::establish(context) } else { Self::ReadyAwaited }
            }
            (_, Role::Responder) => want_evidence(context),
            (_, Role::Initiator) => {
                context.outbox.push(Item::Ready);
                Self::establish(context)
            }
        }
    }

    /// Our evidence is on its way.
    pub(super) const fn proved(role: Role) -> Self {
        match role {
            Role::Initiator => Self::EvidenceAwaited(None),
            Role::Responder => Self::ReadyAwaited,
        }
    }

    fn establish(context: &mut Context<'_>) -> Self {
        let core = &mut *context.core;
        core.deadline = None;
        (core.last_input, core.last_output) = (core.now, core.now);
        if let Some(suite) = core.suite {
            core.emit(Event::Established { suite });
        }
        Self::Established(None)
    }
}

/// Whether the remote proves before we do, so that its evidence may come while the shell still verifies the
/// policy that came in front of it.
fn proves_first(context: &Context<'_>) -> bool {
    matches!(
        (context.core.role, context.facts.kind),
        (Role::Responder, Kind::Full) | (Role::Initiator, Kind::Audit)
    )
}

/// Whether what both sides showed earlier takes the place of evidence.
fn is_resumed(context: &Context<'_>) -> bool {
    context.facts.kind == Kind::Resume
}

fn want_evidence(context: &mut Context<'_>) -> Stage {
    let leaf = leaf_of(context.facts, context.core, context.core.role);
    let purpose = context.facts.purpose;
    let trust = context.core.local.trust.digest();
    context.core.emit(Event::EvidenceWanted(EvidenceWanted { purpose, leaf, trust }));
    Stage::OwnEvidence
}

fn offer(message: EvidenceMessage, context: &mut Context<'_>) -> Stage {
    let leaf = leaf_of(context.facts, context.core, context.core.role.peer());
    if let Some(introduction) = context.core.introduction.clone() {
        let received = EvidenceReceived { message, leaf, introduction };
        context.core.emit(Event::EvidenceReceived(Box::new(received)));
    }
    Stage::EvidenceOffered
}

/// The remote's earlier evidence takes the place of new one.
fn offer_past(accepted: bool, context: &mut Context<'_>) -> Stage {
    if let Some(past) = context.core.past.clone() {
        context.core.emit(Event::ResumptionOffered(past));
    }
    Stage::PastOffered { accepted }
}

/// The remote's message once its last part is there, which `facts` then know of.
pub(super) fn assembled(
    slot: &mut Option<Assembly>,
    part: &Fragment<'_>,
    prover: Role,
    facts: &mut Facts,
) -> Result<Option<EvidenceMessage>, Fail> {
    let Some((_, bytes)) = assemble(slot, part, EVIDENCE_BYTES_MAX)? else { return Ok(None) };
    facts.evidence.shown(prover, &bytes);
    EvidenceMessage::decode(&bytes).map(Some).map_err(|_| Fail::Evidence)
}

fn received(
    slot: &mut Option<Assembly>,
    part: &Fragment<'_>,
    context: &mut Context<'_>,
) -> Result<Option<EvidenceMessage>, Fail> {
    assembled(slot, part, context.core.role.peer(), context.facts)
}

fn on_awaited_policy(
    place: Place,
    mut slot: Option<Assembly>,
    part: &Fragment<'_>,
    context: &mut Context<'_>,
) -> Result<Stage, Fail> {
    let promised = context.core.introduction.as_ref().map(|remote| remote.epoch);
    // It may have adopted a newer one meanwhile.
    if promised.is_none_or(|promised| part.epoch < promised) {
        return Err(Fail::Order("the policy is older than the one that was confirmed"));
    }
    Ok(match assemble(&mut slot, part, POLICY_CHAIN_BYTES_MAX)? {
        None => Stage::PolicyAwaited(place, slot),
        Some((epoch, chain)) => {
            context.core.emit(Event::PolicyOffered { epoch, chain });
            Stage::PolicyOffered(Box::new(Early { _place: place, part: None, whole: None, accepted: false }))
        }
    })
}

fn on_confirm(confirm: Confirm, context: &mut Context<'_>) -> Result<Stage, Fail> {
    let Confirm { version, peer, expected, session, pod, epoch, digest, trust } = confirm;
    let core = &mut *context.core;
    if version != context.facts.version {
        return Err(Fail::Order("the confirmed version is not the chosen one"));
    }
    if expected != core.local.peer {
        return Err(Fail::Identity("it expects another Peer than this one"));
    }
    if let Some(intent) = &core.intent {
        if peer != intent.expected {
            return Err(Fail::Identity("it claims another Peer than the expected one"));
        }
        if session != intent.session {
            return Err(Fail::Identity("it speaks of another session"));
        }
    }
    if let Some(past) = &core.past
        && (peer != *past.peer() || pod != *past.pod())
    {
        return Err(Fail::Identity("it is not the replica that its ticket is of"));
    }
    let static_key = context.facts.remote_static;
    let introduction =
        Introduction { kind: context.facts.kind, peer, session, pod, static_key, epoch, digest, trust };
    if core.role == Role::Responder {
        let own = own_confirm(core, context.facts, introduction.peer.clone(), introduction.session.clone());
        context.outbox.push(Item::Confirm(own));
    }
    core.emit(Event::Introduced(introduction.clone()));
    core.introduction = Some(introduction);
    compare_policies(context)
}

fn compare_policies(context: &mut Context<'_>) -> Result<Stage, Fail> {
    let core = &mut *context.core;
    let Some(remote) = &core.introduction else { return Err(UNEXPECTED) };
    let own = &*context.facts;
    match remote.epoch.cmp(&own.epoch) {
        // Anyone may claim a newer policy, and memory for it is given before anything is proved.
        std::cmp::Ordering::Greater => {
            core.local.places.take().map(|place| Stage::PolicyAwaited(place, None)).ok_or(Fail::Busy)
        }
        std::cmp::Ordering::Less => {
            core.emit(Event::PolicyWanted);
            Ok(Stage::PolicyWanted)
        }
        std::cmp::Ordering::Equal if own.epoch == 0 => Err(Fail::PolicyMissing),
        std::cmp::Ordering::Equal if remote.digest != own.digest => Err(Fail::PolicyConflict),
        std::cmp::Ordering::Equal => Ok(Stage::settle(None, context)),
    }
}

/// What this side says about itself.
pub(super) fn own_confirm(
    core: &Core,
    facts: &Facts,
    expected: sealane_types::PeerName,
    session: sealane_types::SessionName,
) -> Confirm {
    Confirm {
        version: facts.version,
        peer: core.local.peer.clone(),
        expected,
        session,
        pod: core.local.pod.clone(),
        epoch: facts.epoch,
        digest: facts.digest,
        trust: Arc::clone(&core.local.trust),
    }
}
