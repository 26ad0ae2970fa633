//! What one reconciliation works on: a namespace as it was at one moment, and the same after validation.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodStatus};
use k8s_openapi::jiff::Timestamp;
use sealane_operator_api::well_known::{POD_INDEX_LABEL, SIDECAR_CONTAINER};
pub use sealane_operator_api::word;
use sealane_operator_api::{Peer, TransferSession, TrustPolicy};
use sealane_policy::VerifiedPolicy;
use sealane_types::{PeerName, PolicyName, Reason, SessionName, UnixSeconds};

use crate::advice::Advice;
use crate::control::registry::{Process, Registered, Totals};
use crate::desired::{PolicyWire, Terms};
use crate::external::External;
use crate::workload::{Owner, WorkloadView};

/// A namespace as it was at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub namespace: String,
    pub now: UnixSeconds,
    pub peers: Vec<Peer>,
    pub sessions: Vec<TransferSession>,
    pub policies: Vec<TrustPolicy>,
    /// Objects that cannot be read. Forms of them that were read before are among those above.
    pub unreadable: Vec<Unreadable>,
    pub pods: Vec<PodView>,
    /// What makes pods, in the order of kinds and names.
    pub workloads: Vec<WorkloadView>,
    /// Uids of pods of all namespaces that ran when this operator began to lead.
    pub inherited: Arc<BTreeSet<String>>,
    pub sidecars: Vec<Registered>,
    /// By session uid: processes that are gone.
    pub retired: BTreeMap<String, BTreeMap<Process, Totals>>,
    /// By TrustPolicy uid: the newest document that was verified before.
    pub held: BTreeMap<String, Arc<VerifiedPolicy>>,
    /// What Benchmarks know of the nodes.
    pub advice: Arc<Advice>,
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Unreadable {
    pub reference: ObjectReference,
    pub error: String,
    /// A form of it that was read before stands for it.
    pub kept: bool,
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodPhase {
    /// Pending, running or unknown.
    Live,
    Succeeded,
    Failed,
}

/// The few facts of a pod that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    pub node: Option<String>,
    pub phase: PodPhase,
    pub addresses: Vec<IpAddr>,
    /// Holds a container `sealane`.
    pub injected: bool,
    /// Being deleted.
    pub leaving: bool,
    /// What made it, and makes another one in its place if it is to.
    pub owner: Option<Owner>,
    pub made: Option<Timestamp>,
    /// When the last of its containers ended, of a pod that is finished.
    pub ended: Option<Timestamp>,
}

impl PodView {
    /// `None` for a pod that the API server never returns: one without name or uid.
    #[must_use]
    pub fn new(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref();
        let spec = pod.spec.as_ref();
        let addresses = status.into_iter().flat_map(|status| status.pod_ips.iter().flatten());
        let sidecars = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
        Some(Self {
            name: pod.metadata.name.clone()?,
            uid: pod.metadata.uid.clone()?,
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            node: spec.and_then(|spec| spec.node_name.clone()),
            phase: match status.and_then(|status| status.phase.as_deref()) {
                Some("Succeeded") => PodPhase::Succeeded,
                Some("Failed") => PodPhase::Failed,
                Some(_) | None => PodPhase::Live,
            },
            addresses: addresses.filter_map(|address| address.ip.parse().ok()).collect(),
            injected: sidecars.into_iter().any(|container| container.name == SIDECAR_CONTAINER),
            leaving: pod.metadata.deletion_timestamp.is_some(),
            owner: Owner::of(&pod.metadata),
            made: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            ended: status.and_then(last_end),
        })
    }

    /// The pod's place in its StatefulSet.
    #[must_use]
    pub fn ordinal(&self) -> Option<u32> {
        self.labels.get(POD_INDEX_LABEL)?.parse().ok()
    }

    /// Whether the pod counts as a replica.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.phase == PodPhase::Live && !self.leaving
    }
}

/// When the last container of a pod ended, if it is known of any.
fn last_end(status: &PodStatus) -> Option<Timestamp> {
    let containers = status.container_statuses.iter().flatten();
    let ended = containers.filter_map(|one| one.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref());
    ended.map(|time| time.0).max()
}

/// The pods of one Peer, and of what makes them, as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    pub outcome: Outcome,
    /// What is to make pods that are not there yet.
    pub expected: Vec<Expected>,
}

/// How the work of a Peer stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is there that says anything: no pod, and no workload that makes or made one.
    #[default]
    Unknown,
    /// A pod runs, or is to.
    Active,
    /// All of it has finished successfully.
    Succeeded,
    /// Part of it has failed for good, nothing runs, and why.
    Failed(String),
}

/// Pods of one workload that are to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// `Kind/name`.
    pub workload: String,
    pub pods: u32,
}

/// Why something does not hold: one word for machines, one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub reason: &'static str,
    pub message: String,
}

impl Problem {
    #[must_use]
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason: reason.as_str(), message: message.into() }
    }
}

/// A namespace after validation: what is wrong is a [`Problem`] in its place, and everything else is parsed.
#[derive(Debug)]
pub struct Valid {
    pub snapshot: Snapshot,
    pub policies: BTreeMap<String, ValidPolicy>,
    pub peers: BTreeMap<PeerName, ValidPeer>,
    pub sessions: BTreeMap<SessionName, ValidSession>,
    /// By pod uid: the Peer that the pod belongs to.
    pub memberships: BTreeMap<String, PeerName>,
    /// Indices into `snapshot.pods`, in the order of names.
    pub pods_by_peer: BTreeMap<PeerName, Vec<usize>>,
    /// By pod uid: index into `snapshot.sidecars`.
    pub sidecars: BTreeMap<String, usize>,
    /// Of every Peer in the cluster.
    pub works: BTreeMap<PeerName, Work>,
}

/// A TrustPolicy as it goes to sidecars, and the operator's own verdict on it, which is advisory.
#[derive(Debug)]
pub struct ValidPolicy {
    /// Index into `snapshot.policies`.
    pub index: usize,
    pub uid: String,
    /// JSON of chain and roots; a problem when a field cannot be read.
    pub wire: Result<Arc<PolicyWire>, Problem>,
    pub verdict: Result<Arc<VerifiedPolicy>, Problem>,
}

#[derive(Debug)]
pub struct ValidPeer {
    /// Index into `snapshot.peers`.
    pub index: usize,
    pub policy: PolicyName,
    /// Its replicas, if they are outside of the cluster.
    pub external: Option<External>,
    pub problem: Option<Problem>,
}

#[derive(Debug)]
pub struct ValidSession {
    /// Index into `snapshot.sessions`.
    pub index: usize,
    pub uid: String,
    /// What is told to sidecars, or why nothing is.
    pub shape: Result<SessionShape, Problem>,
}

/// A session between Peers that exist and share a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionShape {
    pub from: PeerName,
    pub to: Vec<PeerName>,
    pub policy: PolicyName,
    pub terms: Terms,
}

impl Valid {
    /// Pods that belong to `peer`, in the order of names.
    pub fn pods_of(&self, peer: &PeerName) -> impl Iterator<Item = &PodView> {
        let indices = self.pods_by_peer.get(peer).map(Vec::as_slice).unwrap_or_default();
        indices.iter().filter_map(|index| self.snapshot.pods.get(*index))
    }

    /// Whether the replicas of `peer` are outside of the cluster.
    #[must_use]
    pub fn is_external(&self, peer: &PeerName) -> bool {
        self.peers.get(peer).is_some_and(|peer| peer.external.is_some())
    }

    /// The one Peer that a pod belongs to.
    #[must_use]
    pub fn peer_of(&self, uid: &str) -> Option<&PeerName> {
        self.memberships.get(uid)
    }

    /// How the work of `peer` stands; None outside of the cluster.
    #[must_use]
    pub fn work_of(&self, peer: &PeerName) -> Option<&Work> {
        self.works.get(peer)
    }

    #[must_use]
    pub fn sidecar_of(&self, uid: &str) -> Option<&Registered> {
        self.snapshot.sidecars.get(*self.sidecars.get(uid)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_read_for_what_matters() {
        let pod = json!({
            "metadata": {"name": "p", "uid": "u", "labels": {"app": "x"}},
            "spec": {"nodeName": "n", "containers": [], "initContainers": [{"name": "sealane"}]},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.7"}, {"ip": "fd00::7"}]},
        });
        let view = PodView::new(&serde_json::from_value(pod).unwrap()).unwrap();
        assert!(view.injected && view.is_wanted());
        assert_eq!(view.addresses.len(), 2);
        let pod = json!({"metadata": {"name": "p", "uid": "u", "deletionTimestamp": "2026-11-20T00:00:00Z"}});
        assert!(!PodView::new(&serde_json::from_value(pod).unwrap()).unwrap().is_wanted());
        assert!(PodView::new(&Pod::default()).is_none());
    }
}
