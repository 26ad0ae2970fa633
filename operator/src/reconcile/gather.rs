//! Step one: a namespace as the caches and the registry have it now.

use std::sync::Arc;

use kube::Resource;
use kube::runtime::reflector::Store;

use super::Context;
use super::readable::Declared;
use crate::clock;
use crate::spec::{PodView, Snapshot};
use crate::watch::{Guarded, Stores};

/// Reads everything that the other steps need.
#[must_use]
pub fn gather(context: &Context, namespace: &str) -> Snapshot {
    let Stores { peers, sessions, policies, .. } = &context.stores;
    let Declared { peers, sessions, policies, unreadable } = context.readable.declared(
        namespace,
        objects(peers, namespace),
        objects(sessions, namespace),
        objects(policies, namespace),
    );
    let sidecars = context.registry.in_namespace(namespace);
    // Namespaces without Peers and sidecars have nothing to do with pods, and most namespaces are such.
    let concerned = !peers.is_empty() || !sidecars.is_empty();
    let pods = if concerned { pods(context, namespace) } else { Vec::new() };
    let workloads = if concerned { context.stores.workloads.of(namespace) } else { Vec::new() };
    Snapshot {
        namespace: namespace.to_owned(),
        now: clock::now(),
        peers,
        sessions,
        policies,
        unreadable,
        pods,
        workloads,
        inherited: context.inherited.pods(),
        sidecars,
        retired: context.registry.retired(namespace),
        held: context.held(namespace),
        advice: context.advice(),
    }
}

/// The objects of a namespace, readable or not.
fn objects<K>(store: &Store<Guarded<K>>, namespace: &str) -> Vec<Arc<Guarded<K>>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    store.state_filter(|guarded| guarded.meta().namespace.as_deref() == Some(namespace))
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
