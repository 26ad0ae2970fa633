//! What a connection tells its shell.

use std::fmt;
use std::sync::Arc;

use sealane_attestation::binding::{Leaf, Purpose};
use sealane_attestation::{EvidenceMessage, Expected, TrustConfiguration, VerifiedPeer};
use sealane_types::{Digest, PeerName, PodIdentity, Reason, SessionName};

use crate::handshake::{Kind, Suite};
use crate::keys::TicketId;
use crate::ticket::Ticket;

/// Something the shell has to know or to do. The table in the crate documentation says what.
#[derive(PartialEq)]
pub enum Event {
    /// Keys are shared and confirmed; the remote has said who it claims to be.
    Introduced(Introduction),
    /// The remote holds an older policy than we do: `supply_policy`.
    PolicyWanted,
    /// The remote hands over a newer policy (JSON of `SignedChain`), unverified: verify it, then
    /// `policy_adopted` or `close`.
    PolicyOffered { epoch: u64, chain: Vec<u8> },
    /// The initiator asks for an audit; its static key must be one of the policy's auditors:
    /// `admit_auditor` or `close`.
    AuditorIntroduced,
    /// Quote for `leaf`: `supply_evidence`.
    EvidenceWanted(EvidenceWanted),
    /// The remote's evidence, to be appraised: `judged`.
    EvidenceReceived(Box<EvidenceReceived>),
    /// The initiator presents a ticket: `answer_ticket`.
    TicketPresented(TicketId),
    /// The remote is the one that is named here, with nothing new to show for it: judge again what it showed then, under
    /// the policy of this moment, and `judged`.
    ResumptionOffered(Arc<VerifiedPeer>),
    /// Both sides have their verdict: data may flow.
    Established { suite: Suite },
    /// The initiator attests the connection again: `answer_reattestation` or `close`.
    ReattestationAsked,
    /// Both sides have proved themselves again, and the keys are new.
    Reattested,
    /// The remote gave us a ticket for the next connection.
    TicketReceived(Box<Ticket>),
    /// The connection is over. Output that is still there belongs on the carrier before it is closed.
    Closed { by: ClosedBy, reason: Reason },
}

impl fmt::Debug for Event {
    /// A policy is megabytes, and evidence kilobytes: logs name them, no more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Introduced(introduction) => f.debug_tuple("Introduced").field(introduction).finish(),
            Self::PolicyWanted => f.write_str("PolicyWanted"),
            Self::PolicyOffered { epoch, chain } => f
                .debug_struct("PolicyOffered")
                .field("epoch", epoch)
                .field("chain_bytes", &chain.len())
                .finish(),
            Self::AuditorIntroduced => f.write_str("AuditorIntroduced"),
            Self::EvidenceWanted(wanted) => f.debug_tuple("EvidenceWanted").field(wanted).finish(),
            Self::EvidenceReceived(received) => {
                f.debug_tuple("EvidenceReceived").field(&received.introduction).finish()
            }
            Self::TicketPresented(id) => f.debug_tuple("TicketPresented").field(id).finish(),
            Self::ResumptionOffered(peer) => f.debug_tuple("ResumptionOffered").field(&peer.pod()).finish(),
            Self::TicketReceived(ticket) => f.debug_tuple("TicketReceived").field(&ticket.id()).finish(),
            Self::Established { suite } => f.debug_struct("Established").field("suite", suite).finish(),
            Self::ReattestationAsked => f.write_str("ReattestationAsked"),
            Self::Reattested => f.write_str("Reattested"),
            Self::Closed { by, reason } => {
                f.debug_struct("Closed").field("by", by).field("reason", reason).finish()
            }
        }
    }
}

/// Who ended the connection, and how reliably that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClosedBy {
    /// This side.
    Local,
    /// The remote, authenticated.
    Remote,
    /// Something before keys were shared: the remote, or anyone on the path.
    Unauthenticated,
    /// The carrier ended, or fell silent, without a close frame.
    Cut,
}

/// What the remote claims in its confirm frame. Its static key is proved; the rest only evidence can prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    pub kind: Kind,
    pub peer: PeerName,
    pub session: SessionName,
    pub pod: PodIdentity,
    pub static_key: [u8; 32],
    pub epoch: u64,
    pub digest: Digest,
    /// What decides which policies it follows; its evidence covers this.
    pub trust: Arc<TrustConfiguration>,
}

/// A request for a quote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceWanted {
    pub purpose: Purpose,
    pub leaf: Leaf,
    /// Digest of the trust configuration that this side stated on this connection.
    pub trust: Digest,
}

/// The remote's evidence with everything that its verifier must hold it against.
#[derive(Debug, PartialEq)]
pub struct EvidenceReceived {
    pub message: EvidenceMessage,
    /// The prover's leaf as this side computes it.
    pub leaf: Leaf,
    pub introduction: Introduction,
}

impl EvidenceReceived {
    /// What the appraiser expects, given the policy digests that are acceptable at this moment.
    #[must_use]
    pub const fn expected<'a>(&'a self, policies: &'a [Digest]) -> Expected<'a> {
        Expected {
            leaf: self.leaf,
            prover_static: &self.introduction.static_key,
            pod: &self.introduction.pod,
            trust: &self.introduction.trust,
            policies,
        }
    }
}
