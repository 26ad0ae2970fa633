//! Step one: a namespace as the caches and the registry have it now.

use kube::Resource;
use kube::runtime::reflector::Store;

use super::Context;
use crate::clock;
use crate::spec::{PodView, Snapshot};
use crate::watch::Guarded;

/// Reads everything that the other steps need.
#[must_use]
pub fn gather(context: &Context, namespace: &str) -> Snapshot {
    let peers = objects(&context.stores.peers, namespace);
    let sidecars = context.registry.in_namespace(namespace);
    // Namespaces without Peers and sidecars have nothing to do with pods, and most namespaces are such.
    let concerned = !peers.is_empty() || !sidecars.is_empty();
    let pods = if concerned { pods(context, namespace) } else { Vec::new() };
    let workloads = if concerned { context.stores.workloads.of(namespace) } else { Vec::new() };
    Snapshot {
        namespace: namespace.to_owned(),
        now: clock::now(),
        peers,
        sessions: objects(&context.stores.sessions, namespace),
        policies: objects(&context.stores.policies, namespace),
        pods,
        workloads,
        inherited: context.inherited.pods(),
        sidecars,
        retired: context.registry.retired(namespace),
        held: context.held(namespace),
        advice: context.advice(),
    }
}

/// The readable objects of a namespace in the order of their names.
fn objects<K>(store: &Store<Guarded<K>>, namespace: &str) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let mut objects = Vec::new();
    for guarded in store.state() {
        if guarded.meta().namespace.as_deref() != Some(namespace) {
            continue;
        }
        match &guarded.0 {
            Ok(object) => objects.push(object.clone()),
            Err(error) => tracing::warn!(
                kind = %K::kind(&()), namespace, name = error.metadata.name, %error,
                "an object cannot be read; was it written by a newer release?"
            ),
        }
    }
    objects.sort_by(|left: &K, right| left.meta().name.cmp(&right.meta().name));
    objects
}

fn pods(context: &Context, namespace: &str) -> Vec<PodView> {
    let mut pods: Vec<_> = context
        .stores
        .pods
        .state_filter(|pod| pod.metadata.namespace.as_deref() == Some(namespace))
        .iter()
        .filter_map(|pod| PodView::new(pod))
        .collect();
    pods.sort_by(|left, right| left.name.cmp(&right.name));
    pods
}
