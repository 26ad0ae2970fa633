//! One side of our connections: who it is, how it proves that, and how it judges the other.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use sealane_attestation::binding::{Leaf, Tree, report_data};
use sealane_attestation::{Collateral, Evidence, EvidenceMessage, Format, VerifiedPeer, judge};
use sealane_protocol::Moment;
use sealane_protocol::connection::{
    AcceptSetup, Connection, Event, EvidenceReceived, Local, Places, Setup, Timing,
};
use sealane_protocol::handshake::{Kind, Suite};
use sealane_protocol::keys::{MlKem768, StaticKey};
use sealane_protocol::record::Rekey;
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
}

impl Party {
    pub(super) fn new(who: Who, world: &Arc<World>, suite: Suite) -> Result<Self> {
        let local = Local {
            static_key: Arc::new(StaticKey::generate(&mut SystemRandom)?),
            peer: who.peer().parse()?,
            pod: who.pod()?,
            policy: world.view(),
            suites: vec![suite],
            rekey: Rekey::default(),
            timing: Timing::default(),
            kem: Arc::new(MlKem768),
            places: Places::new(1),
        };
        let guest = Simulation::new(world.material.clone(), Some(&who.initdata()))?;
        Ok(Self { who, world: Arc::clone(world), local, guest, verdicts: Verdicts::Real })
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
        })
    }

    /// A new connection.
    pub(super) fn begin(&self, side: Side, now: Moment) -> Result<Connection> {
        let local = self.local.clone();
        let begun = match side {
            Side::Dialler => {
                let expected = self.who.other().peer().parse()?;
                let setup = Setup { local, kind: Kind::Full, expected, session: SESSION.parse()? };
                Connection::initiate(setup, &mut SystemRandom, now)
            }
            Side::Accepter => Connection::accept(AcceptSetup { local, audit: false }, &mut SystemRandom, now),
        };
        begun.context("beginning a connection")
    }

    /// Answers what a connection asks, as a sidecar does.
    pub(super) fn answer(&self, event: Event, connection: &mut Connection) -> Result<()> {
        match event {
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
                let (pod, own) = (&self.local.pod, self.local.static_key.public());
                let policy = self.world.policy.digest();
                let data = report_data(format.platform(), pod, own, &policy, tree.leaves(), tree.root());
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
