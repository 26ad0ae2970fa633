//! The configuration of one sidecar. It is a proposal: the sidecar checks each session against its own policy.

use sealane_sidecar_api::control::{Configuration, Policy, Remote, Session};
use sealane_types::{PeerName, Reason, SessionName};

use super::replicas::Replicas;
use crate::membership::Membership;
use crate::spec::{SessionShape, Valid, ValidPeer, ValidSession};

/// The complete desired state of the sidecar in the pod `uid`. Its generation is the registry's to give.
pub(super) fn of(valid: &Valid, replicas: &Replicas<'_>, uid: &str) -> Configuration {
    let name = match valid.memberships.get(uid) {
        Some(Membership::One(name)) => name,
        Some(Membership::None | Membership::Conflict(..)) | None => return without_peer(),
    };
    let Some(peer) = valid.peers.get(name) else { return without_peer() };
    let provider = valid.snapshot.peers.get(peer.index).map(|peer| peer.spec.attestation.provider);
    Configuration {
        generation: 0,
        peer: name.to_string(),
        reason: String::new(),
        provider: provider.unwrap_or(sealane_types::Provider::Auto).as_str().to_owned(),
        policy: policy(valid, peer),
        sessions: sessions(valid, replicas, name),
    }
}

fn without_peer() -> Configuration {
    Configuration { reason: Reason::PeerUnknown.as_str().to_owned(), ..Default::default() }
}

fn policy(valid: &Valid, peer: &ValidPeer) -> Option<Policy> {
    let wire = valid.policies.get(peer.policy.as_str())?.wire.as_ref().ok()?;
    Some(Policy { name: peer.policy.to_string(), chain: wire.chain.clone(), roots: wire.roots.clone() })
}

fn sessions(valid: &Valid, replicas: &Replicas<'_>, own: &PeerName) -> Vec<Session> {
    let taking_part = |(name, session): (&SessionName, &ValidSession)| {
        let shape = session.shape.as_ref().ok()?;
        let sending = shape.from == *own;
        let remotes: Vec<&PeerName> = match sending {
            true => shape.to.iter().collect(),
            false if shape.to.contains(own) => vec![&shape.from],
            false => return None,
        };
        Some(describe(valid, name, session, shape, sending, &remotes, replicas))
    };
    valid.sessions.iter().filter_map(taking_part).collect()
}

fn describe(
    valid: &Valid,
    name: &SessionName,
    session: &ValidSession,
    shape: &SessionShape,
    sending: bool,
    remotes: &[&PeerName],
    replicas: &Replicas<'_>,
) -> Session {
    let spec = valid.snapshot.sessions.get(session.index).map(|session| &session.spec);
    let SessionShape {
        from: _,
        to: _,
        policy: _,
        delivery,
        fanout,
        rekey_bytes,
        rekey_messages,
        rekey_seconds,
    } = shape;
    Session {
        name: name.to_string(),
        uid: session.uid.clone(),
        sending,
        delivery: delivery.as_str().to_owned(),
        fanout: *fanout,
        carrier: spec.map(|spec| spec.carrier).unwrap_or_default().as_str().to_owned(),
        cipher: spec.map(|spec| spec.cipher).unwrap_or_default().as_str().to_owned(),
        rekey_bytes: *rekey_bytes,
        rekey_messages: *rekey_messages,
        rekey_seconds: *rekey_seconds,
        suspend: spec.is_some_and(|spec| spec.suspend),
        remotes: remotes
            .iter()
            .map(|peer| Remote {
                peer: peer.to_string(),
                replicas: replicas.get(peer).cloned().unwrap_or_default(),
            })
            .collect(),
    }
}
