//! One cache that follows the API server, and the requests that its changes cause.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use futures::StreamExt;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use crate::causes::Causes;
use crate::limits::DEBOUNCE;
use crate::queue::Queue;

/// A cache of what `api` lists, each object without what `trim` takes off, and the future that keeps it current.
pub(super) fn follow<K>(
    api: Api<K>,
    queue: &Arc<Queue>,
    trim: fn(&mut K),
) -> (Store<K>, impl Future<Output = ()> + Send + use<K>)
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (store, writer) = reflector::store();
    let queue = Arc::clone(queue);
    let events = watcher(api, watcher::Config::default()).default_backoff().modify(move |object| {
        object.meta_mut().managed_fields = None;
        trim(object);
    });
    let watching = async move {
        let mut known = BTreeSet::new();
        let mut events = std::pin::pin!(events.reflect(writer));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(object) | Event::Delete(object)) => touch(&queue, &mut known, &object),
                Ok(Event::InitApply(object)) => touch(&queue, &mut known, &object),
                // What vanished while nobody watched is missed by no other event.
                Ok(Event::InitDone) => {
                    known.iter().for_each(|namespace: &String| queue.request(namespace, DEBOUNCE));
                }
                Ok(Event::Init) => {}
                Err(error) => {
                    let kind = K::kind(&K::DynamicType::default()).into_owned();
                    tracing::warn!(
                        kind,
                        error = %Causes(&error),
                        "watch failed; trying again"
                    );
                }
            }
        }
    };
    (store, watching)
}

fn touch<K: Resource>(queue: &Queue, known: &mut BTreeSet<String>, object: &K) {
    if let Some(namespace) = object.meta().namespace.as_deref() {
        if !known.contains(namespace) {
            known.insert(namespace.to_owned());
        }
        queue.request(namespace, DEBOUNCE);
    }
}
