//! One end of a connection with an honest shell that has rehearsed its answers: cheap enough for thousands of
//! handshakes.

use sealane_policy::VerifiedPolicy;
use sealane_protocol::Moment;
use sealane_protocol::connection::{AcceptSetup, ClosedBy, Connection, Event, Fail, Local, Setup, Sink};
use sealane_protocol::handshake::Kind;
use sealane_types::Reason;

use crate::rehearsal::{first_policy, rehearsed};
use crate::world::{Counter, Who, session, verified, view};

pub struct End {
    pub who: Who,
    pub connection: Connection,
    /// Bytes that arrived and were not consumed yet.
    pub inbox: Vec<u8>,
    /// Bytes that were consumed and looked at: what stands behind a close frame is not.
    pub consumed: usize,
    pub fail: Option<Fail>,
    pub events: Vec<Event>,
    /// What it holds: handed to a remote that is behind, replaced by a newer one that verifies.
    pub policy: VerifiedPolicy,
}

impl End {
    /// The side that dials.
    pub fn dial(local: Local, random: &mut Counter, now: Moment) -> Self {
        let setup = Setup { local, kind: Kind::Full, expected: Who::Ranker.peer(), session: session() };
        Self::new(Who::Embedder, Connection::initiate(setup, random, now).unwrap())
    }

    /// The side that is dialled.
    pub fn accept(local: Local, random: &mut Counter, now: Moment) -> Self {
        let setup = AcceptSetup { local, audit: true };
        Self::new(Who::Ranker, Connection::accept(setup, random, now).unwrap())
    }

    fn new(who: Who, connection: Connection) -> Self {
        let policy = first_policy().clone();
        Self { who, connection, inbox: Vec::new(), consumed: 0, fail: None, events: Vec::new(), policy }
    }

    /// The same end, which holds `policy`: that of its local side.
    #[must_use]
    pub fn holding(self, policy: VerifiedPolicy) -> Self {
        Self { policy, ..self }
    }

    const fn other(&self) -> Who {
        match self.who {
            Who::Embedder => Who::Ranker,
            Who::Ranker => Who::Embedder,
        }
    }

    /// Takes bytes from the carrier, and answers what they make the connection ask.
    pub fn feed(&mut self, now: Moment, bytes: &[u8], sink: &mut dyn Sink) {
        if self.connection.is_closed() {
            return;
        }
        self.inbox.extend_from_slice(bytes);
        match self.connection.handle_input(now, &mut self.inbox, sink) {
            Ok(used) => {
                self.inbox.drain(..used);
                if !self.connection.is_closed() {
                    self.consumed += used;
                }
            }
            Err(fail) => self.fail = Some(fail),
        }
        self.answer();
    }

    /// Answers events as an honest shell does, with what was rehearsed.
    pub fn answer(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            // An answer that comes too late is refused, and changes nothing.
            let _ = match &event {
                Event::EvidenceWanted(_) => self.connection.supply_evidence(&rehearsed(self.who).evidence),
                Event::EvidenceReceived(received) => {
                    let known = &rehearsed(self.other()).verdict;
                    let remote = &received.introduction;
                    let same = known.peer() == &remote.peer
                        && known.pod() == &remote.pod
                        && known.static_key() == &remote.static_key;
                    let verdict = if same { Ok(known.clone()) } else { Err(Reason::PeerUnknown) };
                    self.connection.judged(verdict)
                }
                Event::PolicyWanted => {
                    let chain = serde_json::to_vec(self.policy.chain()).unwrap();
                    self.connection.supply_policy(self.policy.epoch(), &chain)
                }
                Event::PolicyOffered { chain, .. } => {
                    self.adopt(chain);
                    Ok(())
                }
                Event::ReattestationAsked => self.connection.answer_reattestation(&mut Counter(7)),
                _ => Ok(()),
            };
            self.events.push(event);
        }
    }

    fn adopt(&mut self, chain: &[u8]) {
        match serde_json::from_slice(chain).ok().and_then(|chain| verified(&chain).ok()) {
            Some(policy) => {
                self.connection.policy_adopted(view(&policy));
                if policy.epoch() > self.policy.epoch() {
                    self.policy = policy;
                }
            }
            None => self.connection.close(Reason::PolicyUnsigned),
        }
    }

    /// All sealed bytes that are ready to leave.
    pub fn drain(&mut self, now: Moment) -> Vec<u8> {
        crate::rogue::drain(&mut self.connection, now)
    }

    pub fn was_established(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Established { .. }))
    }

    /// Who ended the connection, and why.
    pub fn closed(&self) -> Option<(ClosedBy, Reason)> {
        self.events.iter().find_map(|event| match event {
            Event::Closed { by, reason } => Some((*by, *reason)),
            _ => None,
        })
    }
}
