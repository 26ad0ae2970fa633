//! Caches of what runs are made of, and the requests that their changes cause.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, watcher::Result as Watched};
use kube::{Api, Client, Resource, ResourceExt};
use sealane_operator_api::Benchmark;
use sealane_operator_api::well_known::BENCHMARK_LABEL;

use super::pool::NodeView;
use crate::causes::Causes;
use crate::limits::DEBOUNCE;
use crate::queue::Queue;

/// How long the first look at a namespace may keep all Benchmarks waiting.
const PATIENCE: Duration = Duration::from_secs(20);

/// The caches. Filled by the future that [`start`] returns with them.
#[derive(Clone)]
pub(super) struct Stores {
    /// Which Benchmarks there are; what they say is read when it is needed, so that no step is taken twice for a cache that
    /// is behind.
    pub(super) benchmarks: Store<PartialObjectMeta<Benchmark>>,
    /// For each namespace in which Jobs may be made, they and their pods.
    runs: BTreeMap<String, (Store<Job>, Store<Pod>)>,
    pub(super) nodes: Store<Node>,
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Stores {
    /// Waits until nodes and Benchmarks are known, and for a while for the Jobs of each namespace: one that is gone, or has
    /// no rights for the operator, must not keep the others waiting.
    pub(super) async fn ready(&self) {
        // An error means that the watching future was dropped; whoever did that stops this one too.
        let _ = tokio::join!(
            self.benchmarks.wait_until_ready(),
            self.nodes.wait_until_ready(),
            join_all(self.runs.values().map(|runs| tokio::time::timeout(PATIENCE, filled(runs)))),
        );
    }

    /// Every Benchmark, as the queue names it.
    pub(super) fn keys(&self) -> impl Iterator<Item = String> + use<> {
        let named =
            |object: Arc<PartialObjectMeta<Benchmark>>| Some(key(&object.namespace()?, &object.name_any()));
        self.benchmarks.state().into_iter().filter_map(named)
    }

    /// Whether the Jobs of a namespace are known.
    pub(super) fn follows(&self, namespace: &str) -> bool {
        self.runs.get(namespace).is_some_and(|runs| filled(runs).now_or_never().is_some())
    }

    /// Every Job of a run.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Arc<Job>> {
        self.runs.values().flat_map(|(jobs, _)| jobs.state())
    }

    /// Every pod of a run.
    #[must_use]
    pub(super) fn pods(&self) -> Vec<Arc<Pod>> {
        self.runs.values().flat_map(|(_, pods)| pods.state()).collect()
    }
}

/// Waits until both caches of a namespace have been filled once.
async fn filled((jobs, pods): &(Store<Job>, Store<Pod>)) {
    // As above.
    let _ = tokio::join!(jobs.wait_until_ready(), pods.wait_until_ready());
}

/// How a Benchmark is named in the queue.
#[must_use]
pub(super) fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The caches, and the future that keeps them current and asks `queue` for reconciliations.
pub(super) fn start(
    client: &Client,
    namespaces: &[String],
    queue: &Arc<Queue>,
) -> (Stores, impl Future<Output = ()> + Send + use<>) {
    let (benchmarks, writer) = reflector::store();
    let own =
        |object: &PartialObjectMeta<Benchmark>| Some(vec![key(&object.namespace()?, &object.name_any())]);
    let events =
        watcher(Api::<PartialObjectMeta<Benchmark>>::all(client.clone()), watcher::Config::default());
    let benchmarks_watch =
        follow(events.default_backoff().reflect(writer), queue, move |object, _| own(object));

    let labelled = || watcher::Config::default().labels(BENCHMARK_LABEL);
    let (mut runs, mut watches) = (BTreeMap::new(), Vec::new());
    for namespace in namespaces {
        let (jobs, writer) = reflector::store();
        let events = watcher(Api::<Job>::namespaced(client.clone(), namespace), labelled()).default_backoff();
        let events = events.modify(|job| job.metadata.managed_fields = None).reflect(writer);
        watches.push(follow(events, queue, |object, _| of_label(object)).boxed());
        let (pods, writer) = reflector::store();
        let events = watcher(Api::<Pod>::namespaced(client.clone(), namespace), labelled()).default_backoff();
        let events = events.modify(trim_pod).reflect(writer);
        watches.push(follow(events, queue, |object, _| of_label(object)).boxed());
        runs.insert(namespace.clone(), (jobs, pods));
    }

    let (nodes, writer) = reflector::store();
    let known = benchmarks.clone();
    let mut seen: BTreeMap<String, NodeView> = BTreeMap::new();
    let all = move |node: &Node, gone: bool| {
        // A heartbeat changes nothing that matters here.
        let view = NodeView::new(node)?;
        let known_already = seen.insert(view.name.clone(), view.clone()) == Some(view);
        (!known_already || gone)
            .then(|| known.state().iter().filter_map(|object| own(object)).flatten().collect())
    };
    let events = watcher(Api::<Node>::all(client.clone()), watcher::Config::default()).default_backoff();
    let nodes_watch = follow(events.modify(trim_node).reflect(writer), queue, all);

    let watching = async move {
        tokio::join!(benchmarks_watch, join_all(watches), nodes_watch);
    };
    (Stores { benchmarks, runs, nodes }, watching)
}

/// Asks for the reconciliation of whatever an object concerns, which is told whether the object is gone.
fn follow<K, S, F>(
    events: S,
    queue: &Arc<Queue>,
    mut concerned: F,
) -> impl Future<Output = ()> + Send + use<K, S, F>
where
    K: Resource + Send + 'static,
    K::DynamicType: Default + Eq + Hash + Clone,
    S: futures::Stream<Item = Watched<Event<K>>> + Send + 'static,
    F: FnMut(&K, bool) -> Option<Vec<String>> + Send + 'static,
{
    let queue = Arc::clone(queue);
    async move {
        let ask = |keys: Option<Vec<String>>| {
            keys.iter().flatten().for_each(|key| queue.request(key, DEBOUNCE));
        };
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => ask(concerned(&object, false)),
                Ok(Event::Delete(object)) => ask(concerned(&object, true)),
                Ok(Event::Init | Event::InitDone) => {}
                Err(error) => {
                    let kind = K::kind(&K::DynamicType::default()).into_owned();
                    tracing::warn!(kind, error = %Causes(&error), "watch failed; trying again");
                }
            }
        }
    }
}

/// The Benchmark that a label names.
fn of_label(object: &impl ResourceExt) -> Option<Vec<String>> {
    let benchmark = object.labels().get(BENCHMARK_LABEL)?;
    Some(vec![key(&object.namespace()?, benchmark)])
}

/// Keeps of a pod what [`super::view`] reads.
fn trim_pod(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    pod.spec = None;
}

/// Keeps of a node what [`super::pool`] reads: images and volumes are most of it.
fn trim_node(node: &mut Node) {
    node.metadata.managed_fields = None;
    node.metadata.annotations = None;
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_in_use = None;
        status.volumes_attached = None;
    }
}
