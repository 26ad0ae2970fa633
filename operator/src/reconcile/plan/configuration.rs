//! The desired state of sidecars. It is a proposal: the sidecar checks each session against its own policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealane_types::{PeerName, PolicyName, Provider, SessionName};

use super::replicas::Replicas;
use crate::desired::{Desired, Kind, Membership, PolicyWire, Preferred, Replica, Session};
use crate::reconcile::choose::Choices;
use crate::spec::{SessionShape, Valid, ValidPeer, ValidSession};

/// The replicas of each Peer, as the two sides of a session are told of them.
pub(super) struct Remotes<'a> {
    pub(super) dialable: Replicas<'a>,
    pub(super) senders: Replicas<'a>,
}

impl Remotes<'_> {
    /// Those of `peer` that the other side of a session is told of. A forward has no end that anybody waits for.
    fn told(&self, peer: &PeerName, sending: bool, kind: Kind) -> Arc<[Replica]> {
        let replicas = match kind {
            Kind::Stream { .. } if !sending => &self.senders,
            Kind::Stream { .. } | Kind::Forward(_) => &self.dialable,
        };
        replicas.get(peer).cloned().unwrap_or_default()
    }
}

/// What the replicas of each Peer are to do. It is the same for all of them, so it is made once.
pub(super) fn by_peer<'a>(
    valid: &'a Valid,
    remotes: &Remotes<'_>,
    choices: &Choices,
) -> BTreeMap<&'a PeerName, Desired> {
    let mut sessions: BTreeMap<&PeerName, Vec<Session>> = BTreeMap::new();
    for (name, session) in &valid.sessions {
        let Ok(shape) = &session.shape else { continue };
        for peer in std::iter::once(&shape.from).chain(shape.to.iter().filter(|to| **to != shape.from)) {
            let mut side = side_of(name, session, shape, valid, remotes, peer);
            side.preferred =
                choices.get(name).map(|choice| choice.preferred(&shape.terms)).unwrap_or_default();
            sessions.entry(peer).or_default().push(side);
        }
    }
    let reattest_seconds = reattest_seconds(valid);
    valid
        .peers
        .iter()
        .map(|(name, peer)| {
            let object = valid.snapshot.peers.get(peer.index);
            let membership = Membership {
                peer: name.clone(),
                provider: object.map_or(Provider::Auto, |object| object.spec.attestation.provider),
                // Zero, a sidecar's own default, where no Peer says what can be read: the schema sees to it that none does.
                reattest_seconds: reattest_seconds.get(name).copied().unwrap_or_default(),
                policy: policy(valid, peer),
                sessions: sessions.remove(name).unwrap_or_default().into(),
            };
            (name, Desired::Member(membership))
        })
        .collect()
}

/// For each Peer the shortest of its own and of those that it has sessions with.
fn reattest_seconds(valid: &Valid) -> BTreeMap<&PeerName, u64> {
    let own = |(name, peer): (_, &ValidPeer)| {
        let object = valid.snapshot.peers.get(peer.index)?;
        Some((name, object.spec.attestation.reattest_after.seconds().ok()?))
    };
    let own: BTreeMap<&PeerName, u64> = valid.peers.iter().filter_map(own).collect();
    let mut shortest = own.clone();
    for shape in valid.sessions.values().filter_map(|session| session.shape.as_ref().ok()) {
        let peers = || std::iter::once(&shape.from).chain(&shape.to);
        let Some(least) = peers().filter_map(|peer| own.get(peer)).min() else { continue };
        for peer in peers() {
            let seconds = shortest.entry(peer).or_insert(*least);
            *seconds = (*seconds).min(*least);
        }
    }
    shortest
}

fn policy(valid: &Valid, peer: &ValidPeer) -> Option<(PolicyName, Arc<PolicyWire>)> {
    let wire = valid.policies.get(peer.policy.as_str())?.wire.as_ref().ok()?;
    Some((peer.policy.clone(), Arc::clone(wire)))
}

/// The session as the Peer `own` sees it, which takes part in it.
fn side_of(
    name: &SessionName,
    session: &ValidSession,
    shape: &SessionShape,
    valid: &Valid,
    remotes: &Remotes<'_>,
    own: &PeerName,
) -> Session {
    let sending = shape.from == *own;
    let others: Vec<&PeerName> = if sending { shape.to.iter().collect() } else { vec![&shape.from] };
    let object = valid.snapshot.sessions.get(session.index);
    Session {
        name: name.clone(),
        uid: session.uid.clone(),
        sending,
        terms: shape.terms.clone(),
        preferred: Preferred::default(),
        suspend: object.is_some_and(|object| object.spec.suspend),
        remotes: others
            .into_iter()
            .map(|peer| (peer.clone(), remotes.told(peer, sending, shape.terms.kind)))
            .collect(),
    }
}
