//! Caches of what reviews of pods read: no pod among them, and of every object only what injection uses.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use kube::core::DeserializeGuard;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, Resource};
use sealane_operator_api::{Peer, TrustPolicy};
use serde::de::DeserializeOwned;

use crate::causes::Causes;
use sealane_injection::Bounds;

/// What the caches hold, once each was filled. Whatever is read of it may be as old as a watch is slow.
pub(super) struct Caches {
    filled: Arc<AtomicBool>,
    peers: Store<DeserializeGuard<Peer>>,
    policies: Store<DeserializeGuard<TrustPolicy>>,
    limit_ranges: Store<LimitRange>,
    quotas: Store<ResourceQuota>,
}

impl fmt::Debug for Caches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caches").finish_non_exhaustive()
    }
}

/// The caches, and the future that keeps them current.
pub(super) fn start(client: &Client) -> (Caches, impl Future<Output = ()> + Send + use<>) {
    let (peers, peers_watch) = follow(Api::all(client.clone()), |peer: &mut DeserializeGuard<Peer>| {
        let _ = peer.0.as_mut().map(|peer| peer.status = None);
    });
    let (policies, policies_watch) =
        follow(Api::all(client.clone()), |policy: &mut DeserializeGuard<TrustPolicy>| {
            let _ = policy.0.as_mut().map(roots_alone);
        });
    let (limit_ranges, ranges_watch) = follow(Api::all(client.clone()), |_: &mut LimitRange| {});
    let (quotas, quotas_watch) = follow(Api::all(client.clone()), |_: &mut ResourceQuota| {});
    let filled = Arc::new(AtomicBool::new(false));
    let caches = Caches { filled: Arc::clone(&filled), peers, policies, limit_ranges, quotas };
    let (peers, policies) = (caches.peers.clone(), caches.policies.clone());
    let (limit_ranges, quotas) = (caches.limit_ranges.clone(), caches.quotas.clone());
    let ready = async move {
        let all = tokio::try_join!(
            peers.wait_until_ready(),
            policies.wait_until_ready(),
            limit_ranges.wait_until_ready(),
            quotas.wait_until_ready(),
        );
        // An error means that the watches were dropped, with this.
        if all.is_ok() {
            tracing::info!("the caches of admission are filled");
            filled.store(true, Ordering::Release);
        }
    };
    let watching = async move {
        tokio::join!(peers_watch, policies_watch, ranges_watch, quotas_watch, ready);
    };
    (caches, watching)
}

/// A document of hundreds of kilobytes is nothing that a pod is given.
fn roots_alone(policy: &mut TrustPolicy) {
    policy.status = None;
    policy.spec.document = String::new();
    policy.spec.signatures = Vec::new();
    policy.spec.rotations = Vec::new();
}

fn follow<K>(api: Api<K>, trim: fn(&mut K)) -> (Store<K>, impl Future<Output = ()> + Send + use<K>)
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (store, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default()).default_backoff().modify(move |object| {
        object.meta_mut().managed_fields = None;
        trim(object);
    });
    let watching = async move {
        let mut events = std::pin::pin!(events.reflect(writer));
        while let Some(event) = events.next().await {
            if let Err(error) = event {
                let kind = K::kind(&K::DynamicType::default()).into_owned();
                tracing::warn!(kind, error = %Causes(&error), "watch failed; trying again");
            }
        }
    };
    (store, watching)
}

/// Those of `store` in a namespace.
fn of<K>(store: &Store<K>, namespace: &str) -> Vec<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    let own = |object: &Arc<K>| object.meta().namespace.as_deref() == Some(namespace);
    store.state().iter().filter(|object| own(object)).map(|object| K::clone(object)).collect()
}

impl Caches {
    fn filled(&self) -> Option<&Self> {
        Some(self).filter(|caches| caches.filled.load(Ordering::Acquire))
    }

    pub(super) fn peers(&self, namespace: &str) -> Option<Vec<DeserializeGuard<Peer>>> {
        self.filled().map(|caches| of(&caches.peers, namespace))
    }

    /// Its roots alone. Nothing for one that cannot be read.
    pub(super) fn policy(&self, namespace: &str, name: &str) -> Option<TrustPolicy> {
        let policies = of(&self.filled()?.policies, namespace).into_iter();
        let mut readable = policies.filter_map(|DeserializeGuard(policy)| policy.ok());
        readable.find(|policy| policy.metadata.name.as_deref() == Some(name))
    }

    pub(super) fn bounds(&self, namespace: &str) -> Option<Bounds> {
        let caches = self.filled()?;
        Some(Bounds {
            limit_ranges: of(&caches.limit_ranges, namespace),
            quotas: of(&caches.quotas, namespace),
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn store<K>(objects: Vec<K>) -> Store<K>
    where
        K: Resource + Clone + 'static,
        K::DynamicType: Default + Eq + Hash + Clone,
    {
        let (store, mut writer) = reflector::store();
        writer.apply_watcher_event(&watcher::Event::Init);
        objects.into_iter().for_each(|object| writer.apply_watcher_event(&watcher::Event::InitApply(object)));
        writer.apply_watcher_event(&watcher::Event::InitDone);
        store
    }

    /// Caches that hold this.
    pub(in crate::webhook) fn holding(
        peers: Vec<Peer>,
        policies: Vec<TrustPolicy>,
        bounds: Bounds,
    ) -> Caches {
        let Bounds { limit_ranges, quotas } = bounds;
        Caches {
            filled: Arc::new(AtomicBool::new(true)),
            peers: store(peers.into_iter().map(|peer| DeserializeGuard(Ok(peer))).collect()),
            policies: store(policies.into_iter().map(|policy| DeserializeGuard(Ok(policy))).collect()),
            limit_ranges: store(limit_ranges),
            quotas: store(quotas),
        }
    }

    /// Caches that are not filled yet.
    pub(in crate::webhook) fn empty() -> Caches {
        Caches { filled: Arc::default(), ..holding(vec![], vec![], Bounds::default()) }
    }

    #[test]
    fn nothing_is_told_before_all_are_filled_and_only_of_the_namespace_that_is_asked_for() {
        let peer: Peer =
            serde_json::from_value(serde_json::json!(crate::reconcile::fixture::peer("embedder"))).unwrap();
        let namespace = peer.metadata.namespace.clone().unwrap();
        let caches = holding(vec![peer], vec![], Bounds::default());
        assert_eq!(caches.peers(&namespace).unwrap().len(), 1);
        assert_eq!(caches.peers("another").unwrap().len(), 0);
        caches.filled.store(false, Ordering::Release);
        assert!(caches.peers(&namespace).is_none() && caches.bounds(&namespace).is_none());
    }

    #[test]
    fn a_policy_is_held_without_its_document() {
        let document = crate::reconcile::fixture::document(1, |_| ());
        let mut policy: TrustPolicy = crate::reconcile::fixture::policy(&document);
        let before = policy.spec.roots("demo", "demo").unwrap();
        roots_alone(&mut policy);
        assert_eq!(policy.spec.roots("demo", "demo").unwrap(), before);
        assert!(policy.spec.document.is_empty() && policy.spec.signatures.is_empty());
    }
}
