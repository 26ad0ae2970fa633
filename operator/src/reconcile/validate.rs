//! Step two, pure: everything parsed once; what is wrong becomes a problem in its place.

mod crowd;
mod policy;
mod ports;
mod session;
mod work;

use std::collections::BTreeMap;

use sealane_operator_api::Peer;
use sealane_types::{PeerName, PolicyName, SessionName};

use crate::external::External;
use crate::membership::{Membership, PeerSelector};
use crate::spec::{PodView, Problem, Snapshot, Valid, ValidPeer, ValidSession, word};

/// Validates a namespace.
#[must_use]
pub fn validate(snapshot: Snapshot) -> Valid {
    let policies = snapshot
        .policies
        .iter()
        .enumerate()
        .filter_map(|(index, policy)| {
            Some((policy.metadata.name.clone()?, policy::check(index, policy, &snapshot)))
        })
        .collect();
    let selectors = PeerSelector::of(&snapshot.peers);
    let memberships = memberships(&snapshot, &selectors);
    let peers = peers(&snapshot, &selectors, &memberships);
    let mut sessions = BTreeMap::new();
    for (index, session) in snapshot.sessions.iter().enumerate() {
        let Some(name) = session.metadata.name.clone().and_then(|name| SessionName::new(name).ok()) else {
            continue;
        };
        let uid = session.metadata.uid.clone().unwrap_or_default();
        sessions.insert(name, ValidSession { index, uid, shape: session::check(session, &peers) });
    }
    crowd::refuse_surplus(&mut sessions, &snapshot);
    ports::refuse_conflicts(&mut sessions, &snapshot, &memberships);
    let by_uid = |(index, sidecar): (usize, &crate::control::registry::Registered)| {
        (sidecar.identity.uid().to_owned(), index)
    };
    let sidecars = snapshot.sidecars.iter().enumerate().map(by_uid).collect();
    let pods_by_peer = pods_by_peer(&snapshot, &memberships);
    let works = work::by_peer(&snapshot, &peers, &selectors, &memberships);
    Valid { snapshot, policies, peers, sessions, memberships, pods_by_peer, sidecars, works }
}

fn memberships(snapshot: &Snapshot, selectors: &[PeerSelector]) -> BTreeMap<String, PeerName> {
    let peer = |pod: &PodView| Membership::of(&pod.labels, selectors).into_peer();
    snapshot.pods.iter().filter_map(|pod| Some((pod.uid.clone(), peer(pod)?))).collect()
}

fn pods_by_peer(
    snapshot: &Snapshot,
    memberships: &BTreeMap<String, PeerName>,
) -> BTreeMap<PeerName, Vec<usize>> {
    let mut by_peer: BTreeMap<PeerName, Vec<usize>> = BTreeMap::new();
    for (index, pod) in snapshot.pods.iter().enumerate() {
        if let Some(peer) = memberships.get(&pod.uid) {
            by_peer.entry(peer.clone()).or_default().push(index);
        }
    }
    by_peer
}

fn peers(
    snapshot: &Snapshot,
    selectors: &[PeerSelector],
    memberships: &BTreeMap<String, PeerName>,
) -> BTreeMap<PeerName, ValidPeer> {
    let mut peers = BTreeMap::new();
    for (index, peer) in snapshot.peers.iter().enumerate() {
        let Some(name) = peer.metadata.name.clone().and_then(|name| PeerName::new(name).ok()) else {
            continue;
        };
        let Ok(policy) = PolicyName::new(peer.spec.trust_policy_ref.name.clone()) else { continue };
        let (external, unusable) = match external(peer) {
            Ok(external) => (external, None),
            Err(problem) => (None, Some(problem)),
        };
        let conflict = || {
            let own = selectors.iter().find(|selector| selector.peer == name)?;
            conflict(own, snapshot, memberships)
        };
        let problem = unusable.or_else(|| selector_problem(peer)).or_else(conflict);
        peers.insert(name, ValidPeer { index, policy, external, problem });
    }
    peers
}

fn external(peer: &Peer) -> Result<Option<External>, Problem> {
    let read = peer.spec.external.as_ref().map(External::read).transpose();
    read.map_err(|error| Problem { reason: word::SPEC_INVALID, message: error.to_string() })
}

fn selector_problem(peer: &Peer) -> Option<Problem> {
    let error = PeerSelector::read(peer).err()?;
    Some(Problem { reason: word::SELECTOR_INVALID, message: error.to_string() })
}

/// A pod that two Peers select stays with the older one. The younger one says so; of the older one nothing changes.
fn conflict(
    own: &PeerSelector,
    snapshot: &Snapshot,
    memberships: &BTreeMap<String, PeerName>,
) -> Option<Problem> {
    snapshot.pods.iter().filter(|pod| pod.is_wanted() && own.matches(&pod.labels)).find_map(|pod| {
        let older = memberships.get(&pod.uid).filter(|older| **older != own.peer)?;
        Some(Problem {
            reason: word::CONFLICT,
            message: format!(
                "Peers `{older}` and `{}` both select pod `{}`, which stays with `{older}`, the older one; new pods that both select are refused",
                own.peer, pod.name
            ),
        })
    })
}
