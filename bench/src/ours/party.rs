//! One side of our connections: who it is, how it proves that, and how it judges the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, bail};
use sealane_attestation::binding::{Leaf, ReportSubject, Tree, report_data};
use sealane_attestation::{Collateral, Evidence, EvidenceMessage, Format, VerifiedPeer, judge, rejudge};
use sealane_protocol::Moment;
use sealane_protocol::connection::{
    AcceptSetup, Connection, Event, EvidenceReceived, Local, Places, Setup, Timing,
};
use sealane_protocol::handshake::{Kind, Suite};
use sealane_protocol::keys::{MlKem768, StaticKey};
use sealane_protocol::limits::LIFE_MICROS;
use sealane_protocol::record::Rekey;
use sealane_protocol::ticket::{Held, Issued};
use sealane_simulated::Platform as Simulation;
use sealane_types::{PodIdentity, Reason};

use crate::random::SystemRandom;
use crate::wire::Side;
use crate::world::{NAMESPACE, SESSION, Who, World};

/// Bytes of the evidence that a null appraiser does not look at: as many as the mock peer's document has.
const NULL_EVIDENCE_BYTES: usize = 112;

/// How evidence is made and judged.
#[derive(Debug)]
pub(super) enum Verdicts {
    /// By the platform and the policy.
    Real,
    /// Not at all: this is the verdict.
    Null(Box<VerifiedPeer>),
}

#[derive(Debug)]
pub(super) struct Party {
    who: Who,
    world: Arc<World>,
    local: Local,
    guest: Simulation,
    verdicts: Verdicts,
    tickets: Tickets,
}

/// Tickets that a party gave out, and those that it got.
#[derive(Debug, Default)]
struct Tickets {
    issued: Mutex<Issued>,
    held: Mutex<Held<()>>,
}

impl Party {
    pub(super) fn new(who: Who, world: &Arc<World>, suite: Suite) -> Result<Self> {
        let local = Local {
            static_key: Arc::new(StaticKey::generate(&mut SystemRandom)?),
            peer: who.peer().parse()?,
            pod: who.pod()?,
            policy: world.view(),
            trust: world.trust(),
            suites: vec![suite],
            rekey: Rekey::default(),
            timing: Timing::default(),
            kem: Arc::new(MlKem768),
            links: false,
            places: Places::new(1),
        };
        let guest = Simulation::new(world.material.clone(), Some(&who.initdata()))?;
        let (world, tickets) = (Arc::clone(world), Tickets::default());
        Ok(Self { who, world, local, guest, verdicts: Verdicts::Real, tickets })
    }

    /// Another replica of the same Peer: another pod, with a key of its own.
    pub(super) fn replica(&self, number: u32, suite: Suite) -> Result<Self> {
        let mut replica = Self::new(self.who, &self.world, suite)?;
        let name = format!("{}-{number}", self.who.peer());
        replica.local.pod = PodIdentity::new(NAMESPACE, &name, "1").context("a pod's name")?;
        Ok(replica)
    }

    /// The same party, which takes the other for `peer` from now on.
    pub(super) fn trusting(&self, peer: Option<VerifiedPeer>) -> Result<Self> {
        let peer = peer.context("nobody was verified")?;
        Ok(Self {
            who: self.who,
            world: Arc::clone(&self.world),
            local: self.local.clone(),
            guest: Simulation::new(self.world.material.clone(), Some(&self.who.initdata()))?,
            verdicts: Verdicts::Null(Box::new(peer)),
            tickets: Tickets::default(),
        })
    }

    /// A new connection.
    pub(super) fn begin(&self, side: Side, now: Moment) -> Result<Connection> {
        self.begin_replacing(Rekey::default(), side, now)
    }

    /// A new connection that replaces its keys as `rekey` says.
    pub(super) fn begin_replacing(&self, rekey: Rekey, side: Side, now: Moment) -> Result<Connection> {
        let local = Local { rekey, ..self.local.clone() };
        let begun = match side {
            Side::Dialler => {
                let setup = Setup { local, ..self.setup()? };
                Connection::initiate(setup, &mut SystemRandom, now)
            }
            Side::Accepter => Connection::accept(AcceptSetup { local, audit: false }, &mut SystemRandom, now),
        };
        begun.context("beginning a connection")
    }

    /// A new connection by the newest ticket.
    pub(super) fn resume(&self, now: Moment) -> Result<Connection> {
        let ticket = lock(&self.tickets.held).take(&(), now).context("there is no ticket left")?;
        Connection::resume(self.setup()?, ticket, &mut SystemRandom, now).context("resuming a connection")
    }

    pub(super) fn tickets(&self) -> usize {
        lock(&self.tickets.held).len()
    }

    /// Gives the other party a ticket.
    pub(super) fn issue(&self, connection: &mut Connection, now: Moment) -> Result<()> {
        let deadline = now.plus_micros(LIFE_MICROS);
        let ticket = connection.issue_ticket(deadline, &mut SystemRandom)?;
        lock(&self.tickets.issued).insert(ticket, now);
        Ok(())
    }

    fn setup(&self) -> Result<Setup> {
        let (local, expected) = (self.local.clone(), self.who.other().peer().parse()?);
        Ok(Setup { local, kind: Kind::Full, expected, session: SESSION.parse()? })
    }

    /// Answers what a connection asks, as a sidecar does.
    pub(super) fn answer(&self, event: Event, connection: &mut Connection, now: Moment) -> Result<()> {
        match event {
            Event::TicketPresented(id) => {
                connection.answer_ticket(lock(&self.tickets.issued).take(id, now))?;
            }
            Event::ResumptionOffered(past) => {
                let verdict = rejudge(&past, &self.world.policy, self.world.now);
                connection.judged(verdict.map_err(|rejection| rejection.reason()))?;
            }
            Event::TicketReceived(ticket) => lock(&self.tickets.held).insert((), *ticket),
            Event::EvidenceWanted(wanted) => {
                connection.supply_evidence(&self.evidence(wanted.leaf)?)?;
            }
            Event::EvidenceReceived(received) => connection.judged(self.judge(&received))?,
            Event::Introduced(_) | Event::Established { .. } => {}
            Event::Closed { by, reason } => bail!("closed by {by:?}: {reason}"),
            other => bail!("unexpected in a measurement: {other:?}"),
        }
        Ok(())
    }

    fn evidence(&self, leaf: Leaf) -> Result<EvidenceMessage> {
        let tree = Tree::new(&[leaf])?;
        let format = Format::SimulatedSevSnp;
        let evidence = match self.verdicts {
            Verdicts::Real => {
                let subject = ReportSubject {
                    platform: format.platform(),
                    pod: &self.local.pod,
                    own_static: self.local.static_key.public(),
                    policy: &self.world.policy.digest(),
                    trust: &self.local.trust.digest(),
                    workload: None,
                };
                let data = report_data(&subject, tree.leaves(), tree.root());
                let quote = self.guest.quote(data)?;
                Evidence { format, report: quote.report, certificates: quote.certificates }
            }
            Verdicts::Null(_) => {
                Evidence { format, report: vec![0; NULL_EVIDENCE_BYTES], certificates: Vec::new() }
            }
        };
        Ok(EvidenceMessage {
            pod: self.local.pod.clone(),
            policy: self.world.policy.digest(),
            path: tree.path(0).context("the only path of a tree")?,
            evidence,
            workload: None,
        })
    }

    fn judge(&self, received: &EvidenceReceived) -> Result<VerifiedPeer, Reason> {
        match &self.verdicts {
            Verdicts::Null(peer) => Ok((**peer).clone()),
            Verdicts::Real => {
                let policy = &self.world.policy;
                let digests = [policy.digest()];
                let collateral = Collateral::empty().allowing_simulated();
                let expected = received.expected(&digests);
                let peer = &received.introduction.peer;
                judge(&received.message, &expected, peer, policy, &collateral, self.world.now)
                    .map_err(|rejection| rejection.reason())
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
