//! The desired state of one sidecar. It is a proposal: the sidecar checks each session against its own policy.

use std::sync::Arc;

use sealane_types::{PeerName, PolicyName, Provider, SessionName};

use super::replicas::Replicas;
use crate::desired::{Desired, Membership, PolicyWire, Session};
use crate::spec::{Valid, ValidPeer, ValidSession};

/// The desired state of the sidecar in the pod `uid`.
pub(super) fn of(valid: &Valid, replicas: &Replicas<'_>, uid: &str) -> Desired {
    let Some((name, peer)) = valid.peer_of(uid).and_then(|name| Some((name, valid.peers.get(name)?))) else {
        return Desired::NoPeer;
    };
    let object = valid.snapshot.peers.get(peer.index);
    Desired::Member(Membership {
        peer: name.clone(),
        provider: object.map_or(Provider::Auto, |object| object.spec.attestation.provider),
        policy: policy(valid, peer),
        sessions: valid
            .sessions
            .iter()
            .filter_map(|(session, found)| part_in(session, found, valid, replicas, name))
            .collect(),
    })
}

fn policy(valid: &Valid, peer: &ValidPeer) -> Option<(PolicyName, Arc<PolicyWire>)> {
    let wire = valid.policies.get(peer.policy.as_str())?.wire.as_ref().ok()?;
    Some((peer.policy.clone(), Arc::clone(wire)))
}

/// The session as the Peer `own` sees it, if it takes part.
fn part_in(
    name: &SessionName,
    session: &ValidSession,
    valid: &Valid,
    replicas: &Replicas<'_>,
    own: &PeerName,
) -> Option<Session> {
    let shape = session.shape.as_ref().ok()?;
    let sending = shape.from == *own;
    let remotes: Vec<&PeerName> = match sending {
        true => shape.to.iter().collect(),
        false if shape.to.contains(own) => vec![&shape.from],
        false => return None,
    };
    let object = valid.snapshot.sessions.get(session.index);
    Some(Session {
        name: name.clone(),
        uid: session.uid.clone(),
        sending,
        terms: shape.terms.clone(),
        suspend: object.is_some_and(|object| object.spec.suspend),
        remotes: remotes
            .into_iter()
            .map(|peer| (peer.clone(), replicas.get(peer).cloned().unwrap_or_default()))
            .collect(),
    })
}
