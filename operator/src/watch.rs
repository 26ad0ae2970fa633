//! Caches of everything that a reconciliation reads, and the requests that their changes cause.

mod follow;
mod workloads;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodSpec, PodStatus,
};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::Store;
use kube::{Api, Client};
use sealane_operator_api::well_known::SIDECAR_CONTAINER;
use sealane_operator_api::{Peer, TransferSession, TrustPolicy};

use self::follow::follow;
pub use self::workloads::Workloads;
use crate::advice::Advice;
use crate::limits::{DEBOUNCE, WORKLOADS_TIME};
use crate::queue::Queue;
use crate::reconcile::choose::is_open;

/// An object that may have been written under another release's schema: one that cannot be read does not hide
/// the others.
pub type Guarded<K> = DeserializeGuard<K>;

/// The caches. Filled by the futures that [`start`] returns with them.
#[derive(Clone)]
pub struct Stores {
    pub peers: Store<Guarded<Peer>>,
    pub sessions: Store<Guarded<TransferSession>>,
    pub policies: Store<Guarded<TrustPolicy>>,
    pub pods: Store<Pod>,
    pub workloads: Workloads,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Stores {
    /// Waits until every cache has been filled once. What makes pods is waited for only so long: a role of an earlier release
    /// does not let the operator list it, and to lead without it is better than not to lead.
    pub async fn ready(&self) {
        // An error means that the watching future was dropped; whoever did that stops this one too.
        let _ = tokio::join!(
            self.peers.wait_until_ready(),
            self.sessions.wait_until_ready(),
            self.policies.wait_until_ready(),
            self.pods.wait_until_ready(),
        );
        if tokio::time::timeout(WORKLOADS_TIME, self.workloads.ready()).await.is_err() {
            tracing::error!(
                "Deployments, ReplicaSets, StatefulSets, DaemonSets and Jobs cannot be listed; until they can, streams of Jobs are not Complete and receivers do not wait for pods that are still to be made: is the ClusterRole of this release in place?"
            );
        }
    }
}

/// The caches, and the future that keeps them current and asks `queue` for reconciliations.
pub fn start(client: &Client, queue: &Arc<Queue>) -> (Stores, impl Future<Output = ()> + Send + use<>) {
    let (peers, peers_watch) = follow(Api::all(client.clone()), queue, |_: &mut Guarded<Peer>| {});
    let (sessions, sessions_watch) =
        follow(Api::all(client.clone()), queue, |_: &mut Guarded<TransferSession>| {});
    let (policies, policies_watch) =
        follow(Api::all(client.clone()), queue, |_: &mut Guarded<TrustPolicy>| {});
    let (pods, pods_watch) = follow(Api::all(client.clone()), queue, trim);
    let (workloads, workloads_watch) = workloads::start(client, queue);
    let watching = async move {
        tokio::join!(peers_watch, sessions_watch, policies_watch, pods_watch, workloads_watch);
    };
    (Stores { peers, sessions, policies, pods, workloads }, watching)
}

/// Asks for the namespaces whose sessions follow advice whenever it changes.
pub async fn advised(
    stores: Stores,
    mut advice: tokio::sync::watch::Receiver<Arc<Advice>>,
    queue: Arc<Queue>,
) {
    // An error means that no advice comes any more.
    while advice.changed().await.is_ok() {
        let sessions = stores.sessions.state();
        let open = sessions.iter().filter_map(|session| session.0.as_ref().ok());
        let open = open.filter(|session| is_open(session.spec.carrier, session.spec.cipher));
        let namespaces: BTreeSet<&str> =
            open.filter_map(|session| session.metadata.namespace.as_deref()).collect();
        namespaces.into_iter().for_each(|namespace| queue.request(namespace, DEBOUNCE));
    }
}

/// Keeps of a pod what [`crate::spec::PodView`] reads: the cache holds every pod of the cluster.
fn trim(pod: &mut Pod) {
    pod.metadata.annotations = None;
    pod.metadata.finalizers = None;
    pod.metadata.owner_references.iter_mut().for_each(|owners| {
        owners.retain(|owner| owner.controller == Some(true));
    });
    if let Some(spec) = pod.spec.take() {
        let sidecar =
            spec.init_containers.into_iter().flatten().find(|container| container.name == SIDECAR_CONTAINER);
        let sidecar = sidecar.map(|container| Container { name: container.name, ..Container::default() });
        pod.spec = Some(PodSpec {
            node_name: spec.node_name,
            init_containers: sidecar.map(|container| vec![container]),
            ..PodSpec::default()
        });
    }
    if let Some(status) = pod.status.take() {
        let containers = status.container_statuses.map(|all| all.into_iter().filter_map(ended).collect());
        pod.status = Some(PodStatus {
            phase: status.phase,
            pod_ips: status.pod_ips,
            container_statuses: containers,
            ..PodStatus::default()
        });
    }
}

/// When a container ended, and nothing else of it.
fn ended(container: ContainerStatus) -> Option<ContainerStatus> {
    let finished_at = container.state?.terminated?.finished_at?;
    let terminated = ContainerStateTerminated { finished_at: Some(finished_at), ..Default::default() };
    let state = ContainerState { terminated: Some(terminated), ..ContainerState::default() };
    Some(ContainerStatus { state: Some(state), ..ContainerStatus::default() })
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;
    use crate::spec::PodView;

    #[test]
    fn trimming_loses_nothing_that_is_read() {
        let pod = json!({
            "metadata": {"name": "p", "uid": "u", "labels": {"a": "b"}, "annotations": {"x": "y"},
                         "deletionTimestamp": "2026-11-20T00:00:00Z",
                         "creationTimestamp": "2026-11-19T00:00:00Z",
                         "ownerReferences": [
                             {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"},
                             {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true},
                         ]},
            "spec": {"nodeName": "n", "containers": [{"name": "app"}],
                     "initContainers": [{"name": "sealane", "image": "i"}, {"name": "other"}]},
            "status": {"phase": "Failed", "podIPs": [{"ip": "10.0.0.7"}], "message": "m", "containerStatuses": [
                {"name": "app", "image": "i", "imageID": "i", "ready": false, "restartCount": 0, "state":
                    {"terminated": {"exitCode": 1, "finishedAt": "2026-11-19T01:00:00Z"}}},
                {"name": "other", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
                 "state": {"running": {}}},
            ]},
        });
        let whole: Pod = serde_json::from_value(pod).unwrap();
        let mut trimmed = whole.clone();
        trim(&mut trimmed);
        let view = PodView::new(&whole).unwrap();
        assert_eq!(PodView::new(&trimmed).as_ref(), Some(&view));
        assert!(view.owner.is_some() && view.made.is_some() && view.ended.is_some());
        assert!(trimmed.spec.unwrap().containers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_advice_asks_for_those_who_follow_it() {
        let (client, _) = crate::testing::cluster(|_| crate::testing::list(json!([])));
        let (mut stores, _) = start(&client, &Arc::default());
        let (sessions, mut writer) = reflector::store();
        let specs =
            [("follows", "Tcp", "Auto"), ("follows-too", "Auto", "Aes256Gcm"), ("chose", "Udp", "Aes256Gcm")];
        for (namespace, carrier, cipher) in specs {
            let session = json!({
                "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession",
                "metadata": {"name": "s", "namespace": namespace},
                "spec": {"from": {"peer": "a"}, "to": [{"peer": "b"}], "stream": {}, "carrier": carrier, "cipher": cipher},
            });
            writer.apply_watcher_event(&Event::Apply(serde_json::from_value(session).unwrap()));
        }
        stores.sessions = sessions;
        let (advise, advice) = tokio::sync::watch::channel(Arc::new(Advice::pending()));
        let queue = Arc::new(Queue::default());
        let following = tokio::spawn(advised(stores, advice, Arc::clone(&queue)));
        advise.send_replace(Arc::default());
        let mut asked = [queue.next(&BTreeSet::new()).await, queue.next(&BTreeSet::new()).await];
        asked.sort();
        assert_eq!(asked, ["follows", "follows-too"]);
        drop(advise);
        following.await.unwrap();
        assert!(
            tokio::time::timeout(3 * DEBOUNCE, queue.next(&BTreeSet::new())).await.is_err(),
            "nobody else"
        );
    }
}
