//! Attestation again, inside an established connection: a complete new handshake in control frames, evidence of
//! both sides for it, and then the keys of both directions from its root.
//!
//! ```text
//!            initiator                              responder
//! Offered         renew 1 →            Asked           (the shell gives randomness)
//!                            ← renew 2  Answered
//! OwnEvidence     renew 3 →            EvidenceAwaited
//! EvidenceAwaited evidence →           EvidenceOffered  (judged by the shell)
//! EvidenceOffered (judged)   ← evidence OwnEvidence
//! Switching       ready, Renewed →     ReadyAwaited
//!                            ← Renewed  Switching
//! ```
//!
//! Data flows all the while under the old keys. Its prologue is the old handshake's hash, so the new one belongs to
//! this connection and no other; nothing is negotiated, so nothing can be talked down. Whatever goes wrong ends the
//! connection.

use std::sync::Arc;

use sealane_attestation::EvidenceMessage;
use sealane_attestation::binding::{Purpose, Role};

use super::assembly::Assembly;
use super::core::Core;
use super::links::LinkTerms;
use super::opening::direction;
use super::outbox::{Item, Outbox};
use super::stage::{Facts, assembled, leaf_of};
use super::{Event, EvidenceReceived, EvidenceWanted, Fail, StartError};
use crate::frame::control::{Control, Fragment};
use crate::handshake::{Finished, Initiator, Kind, ResponderWaiting, Terms, answer_renewal};
use crate::keys::{EvidenceDigests, LinkSecret, Random, Resumption, Root};

const UNEXPECTED: Fail = Fail::Order("a frame of a renewal came out of turn");

pub(super) enum Renewal {
    /// The initiator's message 1 is out.
    Offered(Box<Initiator>),
    /// The shell is asked for randomness to answer message 1 with.
    Asked(Vec<u8>),
    /// The responder's message 2 is out.
    Answered(Box<ResponderWaiting>),
    Proving(Box<Fresh>, Proof),
    /// Our key is replaced, or about to be; the remote's is not yet.
    Switching(Box<Fresh>),
}

/// What opens the remote's records from now on, what tickets and further links are made from, and what the connection rests on.
pub(super) type Renewed = (LinkSecret, Resumption, Option<Arc<LinkTerms>>, Facts);

/// What the new handshake left behind.
pub(super) struct Fresh {
    root: Root,
    pub(super) facts: Facts,
}

/// What is waited for once the new keys are shared.
#[derive(Debug)]
pub(super) enum Proof {
    OwnEvidence,
    EvidenceAwaited(Option<Assembly>),
    EvidenceOffered,
    /// The initiator's acceptance is awaited.
    ReadyAwaited,
}

impl Fresh {
    pub(super) fn secret(&self, core: &Core, of: Role) -> LinkSecret {
        core.level.secret(&self.root, direction(of))
    }
}

/// What both sides take over from the connection that goes on.
fn terms(facts: &Facts, core: &Core) -> Option<Terms> {
    let Facts { handshake_hash, version, capabilities, .. } = *facts;
    // A connection that was resumed goes on as one that never was.
    Some(Terms { handshake_hash, version, kind: Kind::Full, suite: core.suite?, capabilities })
}

impl Renewal {
    /// The initiator begins.
    pub(super) fn begin(
        core: &Core,
        facts: &Facts,
        outbox: &mut Outbox,
        random: &mut dyn Random,
    ) -> Result<Self, StartError> {
        let terms = terms(facts, core).ok_or(StartError::NoSuite)?;
        let (static_key, kem) = (&core.local.static_key, &*core.local.kem);
        let (initiator, message) = Initiator::again(&terms, static_key, kem, random)?;
        outbox.push(Item::Renew { step: 1, message });
        Ok(Self::Offered(Box::new(initiator)))
    }

    /// The responder's shell gave randomness.
    pub(super) fn answer(
        message: &[u8],
        core: &Core,
        facts: &Facts,
        outbox: &mut Outbox,
        random: &mut dyn Random,
    ) -> Result<Self, Fail> {
        let terms = terms(facts, core).ok_or(UNEXPECTED)?;
        let (static_key, kem) = (core.local.static_key.clone(), core.local.kem.clone());
        let (waiting, message) = answer_renewal(&terms, static_key, kem, message, random)?;
        outbox.push(Item::Renew { step: 2, message });
        Ok(Self::Answered(Box::new(waiting)))
    }

    /// A frame that belongs to a renewal. `None` while there is none under way.
    pub(super) fn on_control(
        current: Option<Self>,
        frame: Control<'_>,
        core: &mut Core,
        facts: &Facts,
        outbox: &mut Outbox,
    ) -> Result<Self, Fail> {
        match (current, frame) {
            (None, Control::Renew { step: 1, message }) if core.role == Role::Responder => {
                core.emit(Event::ReattestationAsked);
                Ok(Self::Asked(message.to_vec()))
            }
            (Some(Self::Offered(initiator)), Control::Renew { step: 2, message }) => {
                let (finished, message) = initiator.on_message2(message)?;
                let fresh = fresh(finished, facts)?;
                outbox.push(Item::Renew { step: 3, message });
                Ok(want_evidence(fresh, core))
            }
            (Some(Self::Answered(responder)), Control::Renew { step: 3, message }) => {
                let fresh = fresh(responder.on_message3(message)?, facts)?;
                Ok(Self::Proving(fresh, Proof::EvidenceAwaited(None)))
            }
            (Some(Self::Proving(fresh, Proof::EvidenceAwaited(slot))), Control::Evidence(part)) => {
                on_evidence(fresh, slot, &part, core)
            }
            (Some(Self::Proving(fresh, Proof::ReadyAwaited)), Control::Ready) => {
                outbox.push(Item::Renewed(Some(fresh.secret(core, core.role))));
                Ok(Self::Switching(fresh))
            }
            _ => Err(UNEXPECTED),
        }
    }

    /// What the new handshake left behind, when it has just been finished: nothing was proved for it yet.
    pub(super) fn just_shared(&self) -> Option<&Fresh> {
        match self {
            Self::Proving(fresh, Proof::OwnEvidence | Proof::EvidenceAwaited(None)) => Some(fresh),
            _ => None,
        }
    }

    pub(super) const fn wants_evidence(&self) -> bool {
        matches!(self, Self::Proving(_, Proof::OwnEvidence))
    }

    pub(super) const fn awaits_verdict(&self) -> bool {
        matches!(self, Self::Proving(_, Proof::EvidenceOffered))
    }

    /// Our evidence is on its way.
    pub(super) fn proved(self, role: Role, message: &[u8]) -> Self {
        match self {
            Self::Proving(mut fresh, Proof::OwnEvidence) => {
                fresh.facts.evidence.shown(role, message);
                let next = match role {
                    Role::Initiator => Proof::EvidenceAwaited(None),
                    Role::Responder => Proof::ReadyAwaited,
                };
                Self::Proving(fresh, next)
            }
            other => other,
        }
    }

    /// The remote's evidence was accepted.
    pub(super) fn accepted(self, core: &mut Core, outbox: &mut Outbox) -> Self {
        match (self, core.role) {
            (Self::Proving(fresh, Proof::EvidenceOffered), Role::Responder) => want_evidence(fresh, core),
            (Self::Proving(fresh, Proof::EvidenceOffered), Role::Initiator) => {
                outbox.push(Item::Ready);
                outbox.push(Item::Renewed(Some(fresh.secret(core, core.role))));
                Self::Switching(fresh)
            }
            (other, _) => other,
        }
    }

    /// The remote replaced its key.
    pub(super) fn finish(self, core: &Core) -> Result<Renewed, Fail> {
        match self {
            Self::Switching(fresh) => {
                let Facts { kind, capabilities, .. } = fresh.facts;
                let links = LinkTerms::of(&fresh.root, kind, capabilities, core.level);
                Ok((fresh.secret(core, core.role.peer()), fresh.root.resumption(), links, fresh.facts))
            }
            _ => Err(Fail::Order("the keys were replaced out of turn")),
        }
    }
}

/// Holds the new handshake against the connection that it happened in.
fn fresh(finished: Finished, before: &Facts) -> Result<Box<Fresh>, Fail> {
    let Finished { root, handshake_hash, remote_static, suite: _, version, kind, capabilities } = finished;
    if remote_static != before.remote_static {
        return Err(Fail::Identity("its static key is not that of the connection"));
    }
    let binding_key = root.binding_key();
    let Facts { epoch, digest, .. } = *before;
    let facts = Facts {
        handshake_hash,
        binding_key,
        remote_static,
        version,
        kind,
        capabilities,
        purpose: Purpose::Reattest,
        evidence: EvidenceDigests::NONE,
        epoch,
        digest,
    };
    Ok(Box::new(Fresh { root, facts }))
}

fn want_evidence(fresh: Box<Fresh>, core: &mut Core) -> Renewal {
    let leaf = leaf_of(&fresh.facts, core, core.role);
    let (purpose, trust) = (fresh.facts.purpose, core.local.trust.digest());
    core.emit(Event::EvidenceWanted(EvidenceWanted { purpose, leaf, trust }));
    Renewal::Proving(fresh, Proof::OwnEvidence)
}

fn on_evidence(
    mut fresh: Box<Fresh>,
    mut slot: Option<Assembly>,
    part: &Fragment<'_>,
    core: &mut Core,
) -> Result<Renewal, Fail> {
    let prover = core.role.peer();
    let whole: Option<EvidenceMessage> = assembled(&mut slot, part, prover, &mut fresh.facts)?;
    let Some(message) = whole else { return Ok(Renewal::Proving(fresh, Proof::EvidenceAwaited(slot))) };
    let leaf = leaf_of(&fresh.facts, core, prover);
    let introduction = core.introduction.clone().ok_or(UNEXPECTED)?;
    core.emit(Event::EvidenceReceived(Box::new(EvidenceReceived { message, leaf, introduction })));
    Ok(Renewal::Proving(fresh, Proof::EvidenceOffered))
}

/// Why a renewal cannot begin; the connection is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RenewError {
    #[error("only the initiator of an established full connection renews it, and one renewal at a time")]
    NotNow,
    #[error(transparent)]
    Start(#[from] StartError),
}
