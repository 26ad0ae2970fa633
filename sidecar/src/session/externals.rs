//! Replicas outside of the cluster: the operator cannot ask them, so the sidecars that meet them tell it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sealane_attestation::{Statement, VerifiedPeer};
use sealane_protocol::connection::Introduction;
use sealane_types::{Assurance, PeerName, Platform, PodIdentity, PublicKey, Reason, UnixSeconds};
use tokio::sync::Notify;

use super::phase::degraded;
use super::readiness::is_refusal;

/// Replicas of one Peer that are remembered at once. Their names are their own to choose.
const REPLICAS_MAX: usize = 64;
/// How long a refusal is shown although later attempts met nobody.
const REFUSAL_SHOWN: Duration = Duration::from_secs(60);

/// What this process knows of replicas that are no pods. Only Peers that the configuration names by address are followed.
#[derive(Debug)]
pub(crate) struct Externals {
    peers: Mutex<BTreeMap<PeerName, Known>>,
    /// Told when there is something new to report.
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Known {
    met: BTreeMap<PodIdentity, Met>,
    /// Why an attempt came to nothing.
    problem: Option<Problem>,
}

#[derive(Debug)]
struct Problem {
    reason: Reason,
    message: String,
    since: Instant,
}

impl Problem {
    /// What was refused says more than that nobody answered, and is not hidden by it for a while: a session each way has
    /// both at once.
    fn yields_to(&self, reason: Reason, message: &str) -> bool {
        let same = self.reason == reason && self.message == message;
        let hides = is_refusal(self.reason) && !is_refusal(reason) && self.since.elapsed() < REFUSAL_SHOWN;
        !same && !hides
    }
}

#[derive(Debug)]
struct Met {
    connections: usize,
    proof: Proof,
}

/// What a replica proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) platform: Platform,
    pub(crate) assurance: Assurance,
    /// The pinned key that signed.
    pub(crate) key: Option<PublicKey>,
    pub(crate) evidence_time: UnixSeconds,
    pub(crate) degraded: Vec<Reason>,
}

impl Proof {
    fn of(peer: &VerifiedPeer) -> Self {
        Self {
            platform: peer.platform(),
            assurance: peer.assurance(),
            key: match peer.claims().statement() {
                Statement::Key(key) => Some(*key.public_key()),
                _ => None,
            },
            evidence_time: peer.evidence_time(),
            degraded: degraded(peer),
        }
    }
}

/// How it stands with one Peer, or with one of its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Observed {
    Met { peer: PeerName, pod: PodIdentity, proof: Proof },
    Missing { peer: PeerName, reason: Reason, message: String },
}

/// Keeps a replica known while a connection to it is there.
#[derive(Debug)]
pub(crate) struct Meeting {
    externals: Arc<Externals>,
    peer: PeerName,
    pod: PodIdentity,
}

impl Externals {
    pub(crate) fn new(changed: Arc<Notify>) -> Self {
        Self { peers: Mutex::default(), changed }
    }

    /// Follows these Peers and no others.
    pub(crate) fn follow(&self, peers: &BTreeSet<&PeerName>) {
        let mut known = self.lock();
        known.retain(|peer, _| peers.contains(peer));
        for peer in peers {
            known.entry((*peer).clone()).or_default();
        }
    }

    /// A connection to a verified replica begins, or proved itself again.
    pub(crate) fn meet(self: &Arc<Self>, verified: &VerifiedPeer) -> Option<Meeting> {
        let mut peers = self.lock();
        let known = peers.get_mut(verified.peer())?;
        if known.met.len() >= REPLICAS_MAX && !known.met.contains_key(verified.pod()) {
            return None;
        }
        known.problem = None;
        let proof = Proof::of(verified);
        let met = known.met.entry(verified.pod().clone());
        let met = met.or_insert_with(|| Met { connections: 0, proof: proof.clone() });
        met.connections = met.connections.saturating_add(1);
        met.proof = proof;
        drop(peers);
        self.changed.notify_one();
        let (peer, pod) = (verified.peer().clone(), verified.pod().clone());
        Some(Meeting { externals: Arc::clone(self), peer, pod })
    }

    /// No connection to a replica of `peer` came about, or one ended.
    pub(crate) fn miss(&self, peer: &PeerName, reason: Reason, message: &str) {
        let mut peers = self.lock();
        let Some(known) = peers.get_mut(peer) else { return };
        if known.problem.as_ref().is_none_or(|problem| problem.yields_to(reason, message)) {
            known.problem = Some(Problem { reason, message: message.to_owned(), since: Instant::now() });
            drop(peers);
            self.changed.notify_one();
        }
    }

    /// What a remote proves is not accepted, whichever side dialled.
    pub(crate) fn refuse(&self, remote: Option<&Introduction>, reason: Reason) {
        if let Some(introduction) = remote {
            let message = format!("what it proves is not accepted: {reason}");
            self.miss(&introduction.peer, reason, &message);
        }
    }

    pub(crate) fn observe(&self) -> Vec<Observed> {
        let mut observed = Vec::new();
        for (peer, known) in self.lock().iter() {
            observed.extend(known.met.iter().map(|(pod, met)| Observed::Met {
                peer: peer.clone(),
                pod: pod.clone(),
                proof: met.proof.clone(),
            }));
            observed.extend(known.problem.iter().map(|Problem { reason, message, .. }| Observed::Missing {
                peer: peer.clone(),
                reason: *reason,
                message: message.clone(),
            }));
        }
        observed
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PeerName, Known>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let mut peers = self.externals.lock();
        let Some(known) = peers.get_mut(&self.peer) else { return };
        let Some(met) = known.met.get_mut(&self.pod) else { return };
        met.connections = met.connections.saturating_sub(1);
        if met.connections == 0 {
            known.met.remove(&self.pod);
            drop(peers);
            self.externals.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(externals: &Externals) -> Vec<(Reason, String)> {
        let missing = externals.observe().into_iter().filter_map(|observed| match observed {
            Observed::Missing { reason, message, .. } => Some((reason, message)),
            Observed::Met { .. } => None,
        });
        missing.collect()
    }

    #[test]
    fn only_followed_peers_are_remembered_and_refusals_are_not_hidden() {
        let externals = Externals::new(Arc::default());
        let (laptop, other) = ("laptop".parse().unwrap(), "other".parse().unwrap());
        externals.miss(&laptop, Reason::Unreachable, "nobody");
        assert_eq!(problems(&externals), []);
        externals.follow(&[&laptop].into());
        externals.miss(&laptop, Reason::Unreachable, "nobody");
        externals.miss(&other, Reason::Unreachable, "nobody");
        assert_eq!(problems(&externals), [(Reason::Unreachable, "nobody".to_owned())]);
        externals.miss(&laptop, Reason::KeyMismatch, "refused");
        externals.miss(&laptop, Reason::Unreachable, "nobody");
        assert_eq!(problems(&externals), [(Reason::KeyMismatch, "refused".to_owned())]);
        externals.miss(&laptop, Reason::PolicyExpired, "refused again");
        assert_eq!(problems(&externals), [(Reason::PolicyExpired, "refused again".to_owned())]);
        externals.follow(&BTreeSet::new());
        assert_eq!(problems(&externals), []);
    }
}
