//! What the shell answers: policies, evidence, verdicts and tickets.

use std::sync::Arc;

use sealane_attestation::{EvidenceMessage, VerifiedPeer};
use sealane_types::Reason;

use super::keyed::blame;
use super::opening::put_refusal;
use super::{ApiMisuse, Connection, IssueError, PolicyView, RenewError, State};
use crate::Moment;
use crate::keys::Random;
use crate::limits::POLICY_CHAIN_BYTES_MAX;
use crate::ticket::Ticket;

impl Connection {
    /// Answers [`Event::PolicyWanted`], and hands a newer policy to an established remote at any time: the JSON
    /// of a `SignedChain` whose document has `epoch`.
    ///
    /// # Errors
    /// [`ApiMisuse`] when none is awaited, or above the size limit.
    pub fn supply_policy(&mut self, epoch: u64, chain: &[u8]) -> Result<(), ApiMisuse> {
        if chain.is_empty() || chain.len() > POLICY_CHAIN_BYTES_MAX {
            return Err(ApiMisuse::TooLarge);
        }
        let Self { core, state } = self;
        let State::Keyed(keyed) = state else { return Err(ApiMisuse::NotAwaited) };
        keyed.supply_policy(core, epoch, chain)
    }

    /// Answers [`Event::PolicyOffered`] with the verified result, and tells of a newer policy that arrived by
    /// another way. A suite below its floor closes the connection. An epoch below the remote's is adopted, but
    /// does not answer: evidence waits for one that does.
    pub fn policy_adopted(&mut self, view: PolicyView) {
        let Self { core, state } = self;
        let epoch = view.epoch;
        if epoch < core.local.policy.epoch {
            return;
        }
        core.local.policy = view;
        if let Some(suite) = core.suite
            && !core.local.policy.floor.permits(suite)
        {
            let floor = &core.local.policy.floor;
            let below = !suite.post_quantum() && floor.post_quantum;
            self.close(if below { Reason::PostQuantumRequired } else { Reason::SuiteRefused });
            return;
        }
        let State::Keyed(keyed) = state else { return };
        // An epoch below the one that the remote holds is somebody else's news: its own is still being verified.
        let behind = core.introduction.as_ref().is_some_and(|remote| epoch < remote.epoch);
        if !behind && keyed.verifies_policy() && keyed.policy_adopted(core).is_err() {
            self.close(Reason::PolicyMismatch);
        }
    }

    /// Answers [`Event::EvidenceWanted`].
    ///
    /// # Errors
    /// [`ApiMisuse`] when none is awaited or it is too large.
    pub fn supply_evidence(&mut self, message: &EvidenceMessage) -> Result<(), ApiMisuse> {
        let Self { core, state } = self;
        let State::Keyed(keyed) = state else { return Err(ApiMisuse::NotAwaited) };
        let message = message.encode().map_err(|_| ApiMisuse::TooLarge)?;
        keyed.supply_evidence(core, message)
    }

    /// Attests an established connection again, from the side that dialled: the remote's shell is asked, both sides
    /// prove themselves for a new handshake, and go on under its keys.
    ///
    /// # Errors
    /// [`RenewError`] when this is not the time for it; the connection goes on as it is.
    pub fn reattest(&mut self, now: Moment, random: &mut dyn Random) -> Result<(), RenewError> {
        let Self { core, state } = self;
        core.touch(now);
        let State::Keyed(keyed) = state else { return Err(RenewError::NotNow) };
        keyed.renew(core, random)
    }

    /// Answers [`Event::ReattestationAsked`].
    ///
    /// # Errors
    /// [`ApiMisuse`] when none is asked for. A message that no honest remote sends closes the connection.
    pub fn answer_reattestation(&mut self, random: &mut dyn Random) -> Result<(), ApiMisuse> {
        let Self { core, state } = self;
        match state {
            State::Keyed(keyed) if keyed.answers_renewal() => {
                if let Err(fail) = keyed.answer_renewal(core, random) {
                    self.end(blame(&fail), fail.reason());
                }
                Ok(())
            }
            _ => Err(ApiMisuse::NotAwaited),
        }
    }

    /// Answers [`Event::EvidenceReceived`] and [`Event::ResumptionOffered`]. A refusal closes the connection and tells the
    /// remote why.
    ///
    /// # Errors
    /// [`ApiMisuse`] when there is nothing to judge, or the verdict is about another replica than the one at
    /// the other end (which also closes the connection).
    pub fn judged(&mut self, verdict: Result<VerifiedPeer, Reason>) -> Result<(), ApiMisuse> {
        let State::Keyed(keyed) = &self.state else { return Err(ApiMisuse::NotAwaited) };
        let (first, again) = (keyed.awaits_verdict(), keyed.judges_renewal());
        if !first && !again {
            return Err(ApiMisuse::NotAwaited);
        }
        if !self.take_verdict(verdict)? {
            return Ok(());
        }
        let Self { core, state: State::Keyed(keyed) } = self else { return Err(ApiMisuse::NotAwaited) };
        if again {
            keyed.accept_renewal(core);
            return Ok(());
        }
        keyed.accept(core).map_err(|_| ApiMisuse::NotAwaited)
    }

    /// Replaces the verdict on an established remote: the same claims under a new epoch, or at a later time. A
    /// refusal closes the connection and tells the remote why.
    ///
    /// # Errors
    /// See [`Self::judged`].
    pub fn reconsidered(&mut self, verdict: Result<VerifiedPeer, Reason>) -> Result<(), ApiMisuse> {
        if !self.is_established() || self.core.peer.is_none() {
            return Err(ApiMisuse::NotAwaited);
        }
        self.take_verdict(verdict).map(drop)
    }

    /// Whether the verdict lets the connection go on.
    fn take_verdict(&mut self, verdict: Result<VerifiedPeer, Reason>) -> Result<bool, ApiMisuse> {
        let peer = match verdict {
            Ok(peer) => peer,
            Err(reason) => {
                self.close(reason);
                return Ok(false);
            }
        };
        let core = &mut self.core;
        let about_remote = core.introduction.as_ref().is_some_and(|remote| {
            peer.peer() == &remote.peer
                && peer.pod() == &remote.pod
                && peer.static_key() == &remote.static_key
        });
        if !about_remote {
            self.close(Reason::PeerUnknown);
            return Err(ApiMisuse::OtherPeer);
        }
        // As a rule nothing has changed since the verdict before, which tickets share.
        let known = [&core.peer, &core.past].into_iter().flatten().find(|known| ***known == peer);
        core.peer = Some(known.map_or_else(|| Arc::new(peer), Arc::clone));
        Ok(true)
    }

    /// Answers [`Event::AuditorIntroduced`]: the static key is one of the policy's auditors.
    ///
    /// # Errors
    /// [`ApiMisuse`] when no auditor is waiting.
    pub fn admit_auditor(&mut self) -> Result<(), ApiMisuse> {
        let Self { core, state } = self;
        match state {
            State::Keyed(keyed) if keyed.awaits_auditor() => {
                keyed.accept(core).map_err(|_| ApiMisuse::NotAwaited)
            }
            _ => Err(ApiMisuse::NotAwaited),
        }
    }

    /// Answers [`Event::TicketPresented`] with the ticket of that name, which nobody else can have any more, or with none.
    /// One that is not good for this connection is refused in clear: the remote begins a full handshake.
    ///
    /// # Errors
    /// [`ApiMisuse`] when none is presented.
    pub fn answer_ticket(&mut self, ticket: Option<Ticket>) -> Result<(), ApiMisuse> {
        let Self { core, state } = self;
        match std::mem::replace(state, State::Closed(None)) {
            State::Opening(opening) if opening.wants_ticket() => match opening.on_ticket(core, ticket) {
                Ok(keyed) => *state = State::Keyed(keyed),
                Err(fail) => {
                    // Unauthenticated, as every refusal before keys are shared.
                    let _ = put_refusal(core, fail.reason());
                    self.end(blame(&fail), fail.reason());
                }
            },
            other => {
                *state = other;
                return Err(ApiMisuse::NotAwaited);
            }
        }
        Ok(())
    }

    /// Gives the remote a ticket that is good until `deadline` at the latest, and returns this side's half of it, to be
    /// kept in [`Issued`](crate::ticket::Issued). Only the side that accepted issues tickets.
    ///
    /// # Errors
    /// [`IssueError`]; the connection goes on without it.
    pub fn issue_ticket(&mut self, deadline: Moment, random: &mut dyn Random) -> Result<Ticket, IssueError> {
        let Self { core, state } = self;
        let State::Keyed(keyed) = state else { return Err(IssueError::NotNow) };
        keyed.issue_ticket(core, deadline, random)
    }
}
