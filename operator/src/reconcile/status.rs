//! Step six, pure up to [`write`]: what each object's status should say, from what was applied and reported.

mod absence;
mod external;
mod freshness;
mod peer;
mod policy;
mod replica;
mod session;
mod summary;
pub mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sealane_operator_api::{PeerStatus, Phase, TransferSessionStatus, TrustPolicyStatus};
use sealane_types::{PeerName, SessionName};

use super::choose::Choices;
use super::resources::{Applied, Resources};
use crate::spec::Valid;

/// The statuses of a namespace, and when they change by the passing of time alone.
#[derive(Debug, Default)]
pub struct Statuses {
    pub peers: Vec<(PeerName, PeerStatus)>,
    pub sessions: Vec<(SessionName, TransferSessionStatus)>,
    pub policies: Vec<(String, TrustPolicyStatus)>,
    pub again_in: Option<Duration>,
}

/// Computes every status.
#[must_use]
pub fn status(valid: &Valid, applied: &Resources<Applied>, choices: &Choices) -> Statuses {
    let replicas = replica::by_peer(valid, applied);
    let met = |peer| Some((peer, external::Replicas::of(valid, peer)?));
    let external: BTreeMap<&PeerName, _> = valid.peers.keys().filter_map(met).collect();
    let standing: BTreeMap<_, _> = replicas
        .iter()
        .map(|(peer, replicas)| {
            let standing = match external.get(peer) {
                Some(external) => external.standing(),
                None => peer::Standing::of(replicas),
            };
            (*peer, standing)
        })
        .collect();
    let mut again_in =
        replicas.values().fold(None, |next, of_peer| earlier(next, peer::next_change(valid, of_peer)));
    let policies = valid
        .policies
        .iter()
        .map(|(name, verdict)| {
            let followers = policy::Followers::of(valid, name, &replicas);
            let (status, change) = policy::status(valid, verdict, &followers);
            again_in = earlier(again_in, change);
            (name.clone(), status)
        })
        .collect();
    let now = valid.snapshot.now;
    let stale = choices.values().filter_map(|choice| choice.until).min();
    // A second more, so that it has come.
    let stale = stale.map(|until| Duration::from_secs(until.0.saturating_sub(now.0).saturating_add(1)));
    again_in = earlier(again_in, stale);
    let sessions: Vec<_> = valid
        .sessions
        .iter()
        .map(|(name, session)| {
            (name.clone(), session::status(valid, name, session, &standing, choices.get(name)))
        })
        .collect();
    let settled = settled(valid, &sessions);
    Statuses {
        peers: replicas
            .iter()
            .map(|(peer, replicas)| {
                let status = match external.get(peer) {
                    Some(external) => external::status(valid, peer, external),
                    None => peer::status(valid, peer, replicas, settled.contains(peer)),
                };
                ((*peer).clone(), status)
            })
            .collect(),
        sessions,
        policies,
        again_in,
    }
}

/// Peers that take part in sessions, all of which are complete.
fn settled<'a>(
    valid: &'a Valid,
    sessions: &[(SessionName, TransferSessionStatus)],
) -> BTreeSet<&'a PeerName> {
    let (mut complete, mut open) = (BTreeSet::new(), BTreeSet::new());
    for (name, status) in sessions {
        let shape = valid.sessions.get(name).and_then(|session| session.shape.as_ref().ok());
        let peers = shape.into_iter().flat_map(|shape| std::iter::once(&shape.from).chain(&shape.to));
        if status.phase == Some(Phase::Complete) { complete.extend(peers) } else { open.extend(peers) }
    }
    &complete - &open
}

/// The earlier of two times that may be absent.
#[must_use]
pub(super) fn earlier(left: Option<Duration>, right: Option<Duration>) -> Option<Duration> {
    left.into_iter().chain(right).min()
}
