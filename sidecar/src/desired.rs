//! The desired state of this sidecar, as proposed by the operator or by a file.
//!
//! It is parsed, bounded and typed, and nothing more: whether a session, a peer or an address may be used is decided
//! by the verified policy and by the evidence of whoever answers there.

use std::net::SocketAddr;

use sealane_policy::{Flow, limits};
use sealane_protocol::record;
use sealane_types::{
    Carrier, Cipher, CongestionChoice, Delivery, ForwardPort, PeerName, PolicyName, Provider, Reason, Roots,
    SessionName, SignedChain,
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
/// Replicas that a replica dials for a forward, whose connections go to the one with the fewest.
pub const FORWARD_FANOUT: u32 = 16;
/// What carries sessions that name no carrier, in the order in which it is taken where none is preferred: first what passes
/// every network. AF_XDP takes privileges, which have to be declared, so whoever wants it names it.
pub const OPEN_CARRIERS: [Carrier; 2] = [Carrier::Tcp, Carrier::Udp];

/// Everything that this sidecar should do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Desired {
    pub generation: u64,
    /// The Peer that this pod belongs to; none: `reason` says why.
    pub peer: Option<PeerName>,
    pub reason: Option<Reason>,
    pub provider: Provider,
    /// How often the sides of a session prove themselves again.
    #[serde(default = "reattest_seconds")]
    pub reattest_seconds: u64,
    pub policy: Option<PolicyProposal>,
    pub sessions: Vec<Session>,
}

/// What [`Desired::reattest_seconds`] is unless somebody says otherwise.
pub const REATTEST_SECONDS: u64 = 600;
/// What the seconds of [`Rekey`] are where a file configures a session and does not say: as those of a TransferSession.
pub const REKEY_SECONDS: u64 = 600;
/// More often than this is taken for this: every renewal costs both sides a quote.
pub const REATTEST_SECONDS_MIN: u64 = limits::REATTEST_SECONDS_MIN;
/// More seldom than this is taken for this: whoever configures a sidecar cannot switch it off.
pub const REATTEST_SECONDS_MAX: u64 = limits::REATTEST_SECONDS_MAX;

const _: () = assert!(REATTEST_SECONDS_MIN <= REATTEST_SECONDS && REATTEST_SECONDS <= REATTEST_SECONDS_MAX);

const fn reattest_seconds() -> u64 {
    REATTEST_SECONDS
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
    pub kind: Kind,
    /// None: the sidecar chooses.
    pub carrier: Option<Carrier>,
    /// What decides how much is on the path, over UDP and AF_XDP. It counts from the next connection on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub congestion: CongestionChoice,
    /// None: the sidecar chooses within policy.
    pub cipher: Option<Cipher>,
    /// What to take first where carrier or cipher leave the choice and the policy lists it. It counts from the next
    /// connection on.
    #[serde(default, skip_serializing_if = "Preferred::is_nothing")]
    pub preferred: Preferred,
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

    /// What can carry it, as far as the policy lists it, and the first choice first: what it names and nothing else, or what
    /// it leaves open.
    #[must_use]
    pub fn carriers(&self) -> Vec<Carrier> {
        if let Some(named) = self.carrier {
            return vec![named];
        }
        let mut open = OPEN_CARRIERS.to_vec();
        open.sort_by_key(|carrier| self.preferred.carrier != Some(*carrier));
        open
    }

    /// What its connections are to be carried by, and how.
    #[must_use]
    pub const fn transport(&self) -> TransportChoice {
        TransportChoice { carrier: self.carrier, congestion: self.congestion }
    }

    /// What the policy has to permit. Which port is reached is the receiving side's to ask, which reaches it.
    #[must_use]
    pub fn flow(&self) -> Flow {
        match (self.kind, self.direction) {
            (Kind::Stream { .. }, _) => Flow::Stream,
            (Kind::Forward(_), Direction::Sending) => Flow::Forward { target: None },
            (Kind::Forward(forward), Direction::Receiving) => Flow::Forward { target: Some(forward.target) },
        }
    }

    /// Replicas of each Peer that are dialled.
    #[must_use]
    pub fn fanout(&self) -> u32 {
        match self.kind {
            Kind::Stream { fanout, .. } => fanout,
            // Every replica has a port of its own.
            Kind::Forward(Forward { per_replica: true, .. }) => FANOUT_MAX,
            Kind::Forward(_) => FORWARD_FANOUT,
        }
    }

    /// Whether `other` can take over without a new start.
    #[must_use]
    pub fn continues_as(&self, other: &Self) -> bool {
        let peers = |session: &Self| -> Vec<PeerName> {
            session.remotes.iter().map(|remote| remote.peer.clone()).collect()
        };
        self.uid == other.uid
            && match (self.kind, other.kind) {
                (Kind::Stream { .. }, Kind::Stream { .. }) => true,
                (Kind::Forward(one), Kind::Forward(two)) => one == two && peers(self) == peers(other),
                _ => false,
            }
    }
}

/// What a session asks of the transport of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportChoice {
    /// None: any that the policy lists.
    pub carrier: Option<Carrier>,
    pub congestion: CongestionChoice,
}

impl TransportChoice {
    /// Of a connection that has no session, such as an audit: any carrier that the policy lists. Its handshake goes under CUBIC,
    /// as all do.
    pub const ANY: Self = Self { carrier: None, congestion: CongestionChoice::Auto };
}

/// What is advised where a session leaves a choice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preferred {
    /// Which carrier to dial by first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carrier: Option<Carrier>,
    /// Which cipher to offer first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cipher: Option<Cipher>,
}

/// What an older release does not know is written only where somebody asked for it: it may read the file after a rollback.
fn is_default(congestion: &CongestionChoice) -> bool {
    *congestion == CongestionChoice::default()
}

impl Preferred {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What a session carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Kind {
    /// Tensors.
    Stream { delivery: Delivery, fanout: u32 },
    /// TCP connections to one port.
    Forward(Forward),
}

/// A forwarded TCP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Forward {
    /// On loopback of the sending side.
    pub listen: ForwardPort,
    /// On loopback of the receiving side, if the policy permits it.
    pub target: ForwardPort,
    /// `listen` plus the ordinal of a StatefulSet's pod reaches that pod.
    pub per_replica: bool,
}

/// When keys are updated; zero leaves the protocol's own bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rekey {
    pub bytes: u64,
    pub messages: u64,
    pub seconds: u64,
}

impl From<Rekey> for record::Rekey {
    fn from(Rekey { bytes, messages, seconds }: Rekey) -> Self {
        Self::new(bytes, messages, seconds.saturating_mul(1_000_000))
    }
}

/// A Peer on the other side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Remote {
    pub peer: PeerName,
    pub replicas: Vec<Replica>,
    #[serde(default, skip_serializing_if = "Listing::is_whole")]
    pub listing: Listing,
}

/// What the replicas of a [`Remote`] say about those that are not among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Listing {
    /// The operator lists everybody that is expected: nobody else is, and none means that no pod is left.
    #[default]
    Whole,
    /// A file says where to dial: whoever proves to be of the Peer may come, and come back.
    Open,
}

impl Listing {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

impl Remote {
    /// Whether a replica that is not listed may come all the same.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.listing == Listing::Open || self.is_external()
    }

    /// Whether its replicas are known by where they are, and not as pods.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.replicas.iter().any(Replica::is_external)
    }
}

/// Where a replica is said to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replica {
    /// `pod/uid` as the operator knows it; of replicas that are no pods, their address.
    pub id: String,
    pub addresses: Vec<SocketAddr>,
    /// The process that registered, where known.
    pub incarnation: Option<[u8; 16]>,
    /// Of a StatefulSet's pod.
    pub ordinal: Option<u32>,
}

impl Replica {
    /// Whether it is known by its address alone, which says nothing about the pod that it proves to be.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.id.parse::<SocketAddr>().is_ok()
    }

    #[must_use]
    pub fn process(&self) -> Option<ReplicaId> {
        self.incarnation.map(ReplicaId)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use sealane_types::ForwardPort;

    use super::*;

    #[test]
    fn a_preference_is_no_other_session_and_older_configurations_have_none() {
        let (session, _) = served();
        let preferred = Preferred { carrier: Some(Carrier::Udp), cipher: Some(Cipher::Aes128Gcm) };
        let preferring = Session { preferred, ..session.clone() };
        assert!(session.continues_as(&preferring) && preferring.continues_as(&session));
        let kept = serde_json::to_value(&preferring).unwrap();
        assert_eq!(serde_json::from_value::<Session>(kept.clone()).unwrap(), preferring);
        // As an earlier release kept it, and as it can still read it where nothing is preferred.
        let mut older = kept;
        older.as_object_mut().unwrap().remove("preferred");
        assert_eq!(serde_json::to_value(&session).unwrap(), older);
        assert_eq!(serde_json::from_value::<Session>(older).unwrap(), session);
    }

    #[test]
    fn a_preferred_carrier_comes_first_and_is_one_that_needs_no_privilege() {
        let (open, _) = served();
        let preferring = |carrier, named| {
            let preferred = Preferred { carrier, cipher: None };
            Session { preferred, carrier: named, ..open.clone() }.carriers()
        };
        assert_eq!(preferring(None, None), [Carrier::Tcp, Carrier::Udp]);
        assert_eq!(preferring(Some(Carrier::Udp), None), [Carrier::Udp, Carrier::Tcp]);
        assert_eq!(preferring(Some(Carrier::AfXdp), None), [Carrier::Tcp, Carrier::Udp]);
        for named in Carrier::ALL {
            assert_eq!(preferring(Some(Carrier::Udp), Some(*named)), [*named], "what is named is no choice");
        }
    }

    /// The serving side of a forward from `embedder`.
    pub(crate) fn served() -> (Session, Forward) {
        let port = |number| ForwardPort::new(number).unwrap();
        let forward = Forward { listen: port(18_001), target: port(8_001), per_replica: false };
        let session = Session {
            name: "inference".parse().unwrap(),
            uid: "1".to_owned(),
            direction: Direction::Receiving,
            kind: Kind::Forward(forward),
            carrier: None,
            congestion: CongestionChoice::Cubic,
            cipher: None,
            preferred: Preferred::default(),
            rekey: Rekey::default(),
            suspend: false,
            remotes: vec![Remote {
                peer: "embedder".parse().unwrap(),
                replicas: vec![],
                listing: Listing::Open,
            }],
        };
        (session, forward)
    }
}
