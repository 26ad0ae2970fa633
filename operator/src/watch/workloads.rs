//! Caches of what makes pods.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use kube::runtime::reflector::Store;
use kube::{Api, Client, Resource};

use super::follow::follow;
use crate::queue::Queue;
use crate::workload::{WorkloadView, trim_metadata, trim_template};

/// Everything of the cluster that makes pods and is known here.
#[derive(Clone)]
pub struct Workloads {
    deployments: Store<Deployment>,
    replica_sets: Store<ReplicaSet>,
    stateful_sets: Store<StatefulSet>,
    daemon_sets: Store<DaemonSet>,
    jobs: Store<Job>,
}

impl fmt::Debug for Workloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workloads").finish_non_exhaustive()
    }
}

impl Workloads {
    /// Waits until every cache has been filled once: before that, a sender that is to come could be taken for none.
    pub async fn ready(&self) {
        // As with the other caches, an error means that nobody waits any more.
        let _ = tokio::join!(
            self.deployments.wait_until_ready(),
            self.replica_sets.wait_until_ready(),
            self.stateful_sets.wait_until_ready(),
            self.daemon_sets.wait_until_ready(),
            self.jobs.wait_until_ready(),
        );
    }

    /// Those of a namespace, in the order of kinds and names.
    #[must_use]
    pub fn of(&self, namespace: &str) -> Vec<WorkloadView> {
        let Self { deployments, replica_sets, stateful_sets, daemon_sets, jobs } = self;
        let mut views = Vec::new();
        views.extend(read(deployments, namespace, WorkloadView::of_deployment));
        views.extend(read(replica_sets, namespace, WorkloadView::of_replica_set));
        views.extend(read(stateful_sets, namespace, WorkloadView::of_stateful_set));
        views.extend(read(daemon_sets, namespace, WorkloadView::of_daemon_set));
        views.extend(read(jobs, namespace, WorkloadView::of_job));
        views
    }
}

fn read<K>(store: &Store<K>, namespace: &str, view: fn(&K) -> Option<WorkloadView>) -> Vec<WorkloadView>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let here = store.state_filter(|object| object.meta().namespace.as_deref() == Some(namespace));
    let mut views: Vec<_> = here.iter().filter_map(|object| view(object)).collect();
    views.sort_by(|left, right| left.name.cmp(&right.name));
    views
}

/// The caches, and the future that keeps them current and asks `queue` for reconciliations.
pub(super) fn start(
    client: &Client,
    queue: &Arc<Queue>,
) -> (Workloads, impl Future<Output = ()> + Send + use<>) {
    let (deployments, one) = follow(Api::all(client.clone()), queue, |object: &mut Deployment| {
        trim_metadata(object);
        object.status = None;
        trim_template(&mut object.spec.template);
    });
    let (replica_sets, two) = follow(Api::all(client.clone()), queue, |object: &mut ReplicaSet| {
        trim_metadata(object);
        object.status = None;
        object.spec.template.iter_mut().for_each(trim_template);
    });
    let (stateful_sets, three) = follow(Api::all(client.clone()), queue, |object: &mut StatefulSet| {
        trim_metadata(object);
        object.status = None;
        object.spec.volume_claim_templates = None;
        trim_template(&mut object.spec.template);
    });
    let (daemon_sets, four) = follow(Api::all(client.clone()), queue, |object: &mut DaemonSet| {
        trim_metadata(object);
        trim_template(&mut object.spec.template);
    });
    let (jobs, five) = follow(Api::all(client.clone()), queue, |object: &mut Job| {
        trim_metadata(object);
        object.spec.iter_mut().for_each(|spec| trim_template(&mut spec.template));
    });
    let watching = async move {
        tokio::join!(one, two, three, four, five);
    };
    (Workloads { deployments, replica_sets, stateful_sets, daemon_sets, jobs }, watching)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Asked, cluster};

    #[tokio::test]
    async fn those_of_a_namespace_are_read_and_no_others() {
        let object = |namespace: &str, name: &str| {
            let template =
                json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "app"}]}});
            json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "annotations": {"a": "b"}},
                   "spec": {"replicas": 2, "completions": 2, "selector": {}, "serviceName": "s", "template": template}})
        };
        let objects = json!([object("demo", "b"), object("demo", "a"), object("other", "c")]);
        let answer = move |asked: &Asked| match asked.path.contains("watch=") {
            // The watch that follows the list ends at once; it is tried again after a while.
            true => (200, json!({})),
            false => (
                200,
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": objects}),
            ),
        };
        let (client, _) = cluster(answer);
        let (workloads, watching) = start(&client, &Arc::default());
        tokio::select! {
            () = watching => panic!("a watch never ends"),
            () = workloads.ready() => {}
        }
        let names: Vec<_> = workloads.of("demo").iter().map(WorkloadView::reference).collect();
        let kinds = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"];
        let expected: Vec<_> =
            kinds.iter().flat_map(|kind| ["a", "b"].map(|name| format!("{kind}/{name}"))).collect();
        assert_eq!(names, expected);
        assert!(workloads.of("demo").iter().all(|view| view.labels["app"] == "x"));
        assert!(workloads.of("none").is_empty());
    }
}
