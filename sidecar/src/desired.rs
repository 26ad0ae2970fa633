//! The desired state of this sidecar, as proposed by the operator or by a file.
//!
//! It is parsed, bounded and typed, and nothing more: whether a session, a peer or an address may be used is decided
//! by the verified policy and by the evidence of whoever answers there.

use std::net::SocketAddr;

use sealane_types::{
    Carrier, Cipher, Delivery, PeerName, PolicyName, Provider, Reason, Roots, SessionName, SignedChain,
};
use serde::{Deserialize, Serialize};

use crate::handoff::ReplicaId;

/// Most sessions of one pod.
pub const SESSIONS_MAX: usize = 256;
/// Most peers on the other side of one session.
pub const REMOTES_MAX: usize = 64;
/// Most replicas of one peer that a sidecar is told about.
pub const REPLICAS_MAX: usize = 4096;
/// Most addresses of one replica: dual stack, and room for secondary networks.
pub const ADDRESSES_MAX: usize = 8;
/// Most replicas of one peer that a replica dials.
pub const FANOUT_MAX: u32 = 256;

/// Everything that this sidecar should do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Desired {
    pub generation: u64,
    /// The Peer that this pod belongs to; none: `reason` says why.
    pub peer: Option<PeerName>,
    pub reason: Option<Reason>,
    pub provider: Provider,
    pub policy: Option<PolicyProposal>,
    pub sessions: Vec<Session>,
}

/// A signed policy, and roots that only a sidecar without any may pin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyProposal {
    pub name: PolicyName,
    pub chain: SignedChain,
    pub roots: Option<Roots>,
}

/// Which side of a session this pod is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Direction {
    Sending,
    Receiving,
}

/// Names a session of this sidecar: a Peer may send to itself, so the direction is part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    pub name: SessionName,
    pub direction: Direction,
}

/// One TransferSession as seen from this pod.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Session {
    pub name: SessionName,
    /// Of the TransferSession object; a new object of the same name is another session.
    pub uid: String,
    pub direction: Direction,
    pub delivery: Delivery,
    pub fanout: u32,
    /// None: the sidecar chooses.
    pub carrier: Option<Carrier>,
    /// None: the sidecar chooses within policy.
    pub cipher: Option<Cipher>,
    pub rekey: Rekey,
    pub suspend: bool,
    /// The other side: every `to` Peer for a sender, the `from` Peer for a receiver.
    pub remotes: Vec<Remote>,
}

impl Session {
    #[must_use]
    pub fn key(&self) -> SessionKey {
        SessionKey { name: self.name.clone(), direction: self.direction }
    }
}

/// When keys are updated; zero leaves the protocol's own bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rekey {
    pub bytes: u64,
    pub messages: u64,
    pub seconds: u64,
}

/// A Peer on the other side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Remote {
    pub peer: PeerName,
    pub replicas: Vec<Replica>,
}

/// Where a replica is said to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replica {
    /// `pod/uid` as the operator knows it; with static peers any text that is its own.
    pub id: String,
    pub addresses: Vec<SocketAddr>,
    /// The process that registered, where known.
    pub incarnation: Option<[u8; 16]>,
}

impl Replica {
    #[must_use]
    pub fn process(&self) -> Option<ReplicaId> {
        self.incarnation.map(ReplicaId)
    }
}
