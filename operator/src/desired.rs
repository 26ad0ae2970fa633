//! What one sidecar is to do. Large parts are shared between sidecars: ten thousand of them hold one policy and
//! one list of replicas, not ten thousand.

use std::net::IpAddr;
use std::sync::Arc;

use sealane_operator_api::{CarrierChoice, CipherChoice};
use sealane_types::{
    Carrier, Cipher, CongestionChoice, Delivery, ForwardPort, PeerName, PolicyName, Provider, SessionName,
};

/// The complete desired state of a sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Desired {
    /// Its pod belongs to no Peer, or to two.
    NoPeer,
    Member(Membership),
}

impl Desired {
    /// Uids of the sessions of which the sidecar is the receiving side.
    pub fn received(&self) -> impl Iterator<Item = &str> {
        let sessions: &[Session] = match self {
            Self::NoPeer => &[],
            Self::Member(membership) => &membership.sessions,
        };
        sessions.iter().filter(|session| !session.sending).map(|session| session.uid.as_str())
    }
}

/// What a replica of a Peer is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    pub peer: PeerName,
    pub provider: Provider,
    /// How often the sides of its sessions prove themselves again.
    pub reattest_seconds: u64,
    /// Absent while there is no TrustPolicy that can be read.
    pub policy: Option<(PolicyName, Arc<PolicyWire>)>,
    /// Shared by all replicas of the Peer.
    pub sessions: Arc<[Session]>,
}

/// A TrustPolicy as it goes to sidecars: JSON of chain and roots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyWire {
    pub chain: String,
    pub roots: String,
}

/// One session from the point of view of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub name: SessionName,
    pub uid: String,
    pub sending: bool,
    pub terms: Terms,
    pub preferred: Preferred,
    pub suspend: bool,
    pub remotes: Vec<(PeerName, Arc<[Replica]>)>,
}

/// What to take first where the terms leave it open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preferred {
    pub carrier: Option<Carrier>,
    pub cipher: Option<Cipher>,
}

/// What both sides of a session are told alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub kind: Kind,
    pub carrier: CarrierChoice,
    pub congestion: CongestionChoice,
    pub cipher: CipherChoice,
    pub rekey_bytes: u64,
    pub rekey_messages: u64,
    pub rekey_seconds: u64,
}

/// What flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Stream { delivery: Delivery, fanout: u32 },
    Forward(Forward),
}

/// Connections to `listen` in pods of `from` reach `target` in a pod of `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    pub listen: ForwardPort,
    pub target: ForwardPort,
    /// `listen` + ordinal reaches the replica of that ordinal.
    pub per_replica: bool,
}

/// A replica that can be dialled, or for which a receiver waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Of a replica outside of the cluster its address and port, and of pods that are still to be made what makes them;
    /// such a one has no uid.
    pub pod: String,
    pub uid: String,
    /// Confirmed by the pod's status. None of a sender that has not registered yet.
    pub addresses: Vec<IpAddr>,
    pub port: u16,
    /// Unknown of one that has not registered: a replica outside of the cluster never does.
    pub incarnation: Option<[u8; 16]>,
    /// Of a StatefulSet's pod.
    pub ordinal: Option<u32>,
}
