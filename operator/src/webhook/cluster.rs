//! What reviews of pods read of the cluster: from caches, held against the API server.
//!
//! A cache is behind by as long as a watch takes. What is found in one counts only if the API server, asked for metadata
//! alone, still has the same version; what is not found is asked for there. So a pod that is made a moment after its Peer is
//! injected, and a review costs the API server two small requests instead of a list.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{LimitRange, Namespace, ResourceQuota, Service};
use kube::api::ListParams;
use kube::core::{ApiResource, DeserializeGuard, DynamicObject};
use kube::{Api, Client, Resource};
use sealane_operator_api::{Peer, TransferSession, TrustPolicy};
use serde::de::DeserializeOwned;

use super::caches::{self, Caches};
use crate::causes::Causes;
use sealane_injection::Bounds;
use sealane_operator_api::well_known::CONTROL_SERVICE;

/// Peers of one namespace that a review considers.
const PEERS_MAX: u32 = 1024;
/// TransferSessions of one namespace that a review considers; those beyond them get no capabilities, and say so later.
const SESSIONS_MAX: u32 = 4096;

/// Something that a review needs could not be read.
pub(super) type Unread = Box<dyn Error + Send + Sync>;

/// The cluster as reviews of pods see it.
pub struct Cluster {
    client: Client,
    caches: Caches,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// With its caches, and the future that keeps them current. Until they are filled everything is read from the API server.
    pub fn new(client: Client) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (caches, watching) = caches::start(&client);
        (Self { client, caches }, watching)
    }

    #[cfg(test)]
    pub(super) const fn holding(client: Client, caches: Caches) -> Self {
        Self { client, caches }
    }

    fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The Peers of a namespace as a cache has them, if one is filled and each of them can be read.
    pub(super) fn cached_peers(&self, namespace: &str) -> Option<Vec<Peer>> {
        let cached = self.caches.peers(namespace)?.into_iter();
        cached.map(|DeserializeGuard(peer)| peer.ok()).collect()
    }

    /// The Peers of a namespace as the API server has them: one that cannot be read still selects pods.
    ///
    /// # Errors
    /// The API server's, and more Peers than a review looks at.
    pub(super) async fn peers(&self, namespace: &str) -> Result<Vec<DynamicObject>, Unread> {
        let kind = ApiResource::erase::<Peer>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind);
        let listed = api.list(&ListParams::default().limit(PEERS_MAX)).await?;
        if listed.metadata.continue_.is_some_and(|more| !more.is_empty()) {
            return Err(format!("namespace {namespace} has more than {PEERS_MAX} Peers").into());
        }
        Ok(listed.items)
    }

    /// Whether the API server has this very version of an object. Where it cannot say so the answer is no.
    pub(super) async fn is_current<K>(&self, object: &K) -> bool
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + DeserializeOwned + fmt::Debug,
        K::DynamicType: Default,
    {
        let held = object.meta();
        let (Some(name), Some(namespace)) = (&held.name, &held.namespace) else { return false };
        let api: Api<K> = self.namespaced(namespace);
        let found = api.get_metadata(name).await.map(|found| found.metadata);
        found.is_ok_and(|found| {
            held.resource_version.is_some()
                && found.resource_version == held.resource_version
                && found.uid == held.uid
        })
    }

    /// # Errors
    /// The API server's.
    pub(super) async fn policy(&self, namespace: &str, name: &str) -> Result<Option<TrustPolicy>, Unread> {
        if let Some(cached) = self.caches.policy(namespace, name)
            && self.is_current(&cached).await
        {
            return Ok(Some(cached));
        }
        Ok(self.namespaced::<TrustPolicy>(namespace).get_opt(name).await?)
    }

    /// Always of the API server: a pod gets capabilities for what they say. Those that cannot be read are left out.
    ///
    /// # Errors
    /// The API server's.
    pub(super) async fn sessions(&self, namespace: &str) -> Result<Vec<TransferSession>, Unread> {
        let api: Api<DeserializeGuard<TransferSession>> = self.namespaced(namespace);
        let listed = api.list(&ListParams::default().limit(SESSIONS_MAX)).await?;
        Ok(listed.into_iter().filter_map(|DeserializeGuard(session)| session.ok()).collect())
    }

    /// # Errors
    /// The API server's.
    pub(super) async fn namespace_label(&self, namespace: &str, key: &str) -> Result<Option<String>, Unread> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        Ok(api.get_metadata(namespace).await?.metadata.labels.and_then(|mut labels| labels.remove(key)))
    }

    /// What the namespace demands of containers, as a cache has it if one is filled.
    pub(super) fn cached_bounds(&self, namespace: &str) -> Option<Bounds> {
        self.caches.bounds(namespace)
    }

    /// What the namespace demands of containers. A sidecar that does not fit is refused by the API server, so that a release
    /// whose role does not let the operator read this refuses nobody.
    pub(super) async fn bounds(&self, namespace: &str) -> Bounds {
        let ranges: Api<LimitRange> = self.namespaced(namespace);
        let quotas: Api<ResourceQuota> = self.namespaced(namespace);
        let all = ListParams::default();
        let (limit_ranges, quotas) = tokio::join!(ranges.list(&all), quotas.list(&all));
        let unread = |what, error: &kube::Error| {
            tracing::warn!(namespace, error = %Causes(error), "{what} could not be read, so that a sidecar may not fit");
        };
        let limit_ranges = limit_ranges.inspect_err(|error| unread("LimitRanges", error));
        let quotas = quotas.inspect_err(|error| unread("ResourceQuotas", error));
        Bounds {
            limit_ranges: limit_ranges.map(|list| list.items).unwrap_or_default(),
            quotas: quotas.map(|list| list.items).unwrap_or_default(),
        }
    }

    /// Where the control channel is, for pods that cannot look it up. Nothing is a warning to whoever makes the pod.
    pub(super) async fn control_ip(&self, release: &str) -> Option<IpAddr> {
        match self.namespaced::<Service>(release).get(CONTROL_SERVICE).await {
            // A Service without an address says so by a word.
            Ok(service) => service.spec?.cluster_ip?.parse().ok(),
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "Service {CONTROL_SERVICE} could not be read");
                None
            }
        }
    }
}
