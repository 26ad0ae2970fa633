//! `/mutate-pod`: reads what the decision needs, decides, answers.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{LimitRange, Namespace, Pod, ResourceQuota, Service};
use kube::api::ListParams;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use kube::core::{ApiResource, DeserializeGuard, DynamicObject};
use kube::{Api, Client};
use sealane_operator_api::{Attestation, Peer, TransferSession, TrustPolicy};
use sealane_types::{PeerName, Provider};
use tokio::sync::watch;

use super::af_xdp::{self, POD_SECURITY_LABEL};
use super::bounds::Bounds;
use super::context::InjectionContext;
use super::decide::{Decision, Refusal, decide, opted_out, reaches_node_agent};
use super::inject::{Injected, inject};
use super::peers::Peers;
use super::pod_shape::has_cluster_dns;
use crate::causes::Causes;
use crate::config::Config;
use crate::metrics::{Injection, Metrics};
use crate::names::CONTROL_SERVICE;

/// Peers of one namespace that a review considers.
const PEERS_MAX: u32 = 1024;
/// TransferSessions of one namespace that a review considers; those beyond them get no capabilities, and say so later.
const SESSIONS_MAX: u32 = 4096;
/// Ports from which one is drawn for each sidecar on the host's network.
const ADMIN_PORT_MIN: u16 = 20_000;
const ADMIN_PORTS: u16 = 10_000;
/// A pod with a sidecar and no Peer.
const EARLY: &str = "no Peer selects this pod yet, and what a Peer gives its pods is added when they are made (roots, key, the initdata of a simulated platform): make the pod again once its Peer is there, or its evidence is refused (HostDataMismatch)";

/// Adds the sidecar to pods.
pub struct Mutator {
    client: Client,
    config: Arc<Config>,
    authorities: watch::Receiver<Arc<str>>,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for Mutator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutator").finish_non_exhaustive()
    }
}

impl Mutator {
    #[must_use]
    pub const fn new(
        client: Client,
        config: Arc<Config>,
        authorities: watch::Receiver<Arc<str>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { client, config, authorities, metrics }
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Answers one review. A failure to read what it needs is a refusal: the API server's client tries again.
    pub async fn review(&self, request: &AdmissionRequest<Pod>) -> AdmissionResponse {
        let response = AdmissionResponse::from(request);
        let Some(pod) = &request.object else {
            return response.deny("the review holds no pod");
        };
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let admin_port = admin_port(&request.uid);
        let (outcome, response) = match self.answer(namespace, pod, admin_port, response.clone()).await {
            Ok(answered) => answered,
            Err(error) => {
                tracing::warn!(namespace, error = %Causes(&*error), "a pod was refused because its injection failed");
                (Injection::Failed, response.deny(format!("sealane: {error}; try again")))
            }
        };
        self.metrics.injected(outcome);
        response
    }

    async fn answer(
        &self,
        namespace: &str,
        pod: &Pod,
        admin_port: u16,
        response: AdmissionResponse,
    ) -> Result<(Injection, AdmissionResponse), Box<dyn Error + Send + Sync>> {
        let none = std::collections::BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        if opted_out(labels) {
            return Ok((Injection::Left, response));
        }
        let refused =
            |refusal: Refusal| (Injection::Refused, response.clone().deny(format!("sealane: {refusal}")));
        let peers = Peers::read(self.peers(namespace).await?);
        if let Some(refusal) = peers.claim(labels) {
            return Ok(refused(refusal));
        }
        let peer = match decide(labels, peers.selectors()) {
            Decision::Leave => return Ok((Injection::Left, response)),
            Decision::Refuse(refusal) => return Ok(refused(refusal)),
            Decision::Inject(peer) => peer,
        };
        let found = peer.as_ref().and_then(|name| peers.named(name));
        let installed = self.config.sidecar.node_agent;
        let reached = peer
            .as_ref()
            .zip(found)
            .map(|(name, found)| reaches_node_agent(name, found.spec.attestation.provider, installed));
        let node_agent = match reached.transpose() {
            Ok(reached) => reached.unwrap_or(false),
            Err(refusal) => return Ok(refused(refusal)),
        };
        let af_xdp = match self.af_xdp(namespace, pod, peer.as_ref()).await? {
            Ok(af_xdp) => af_xdp,
            Err(refusal) => return Ok(refused(refusal)),
        };
        let bounds = self.bounds(namespace).await;
        let authorities = Arc::clone(&self.authorities.borrow());
        let context = InjectionContext {
            settings: &self.config.sidecar,
            operator_namespace: self.config.namespace.as_str(),
            control_ip: self.control_ip(pod).await,
            admin_port,
            authorities: &authorities,
            namespace,
            peer: peer.as_ref(),
            node_agent,
            roots: self.roots(namespace, found).await?,
            key_secret: found.and_then(key_secret),
            af_xdp,
            bounds: &bounds,
        };
        match inject(pod, &context) {
            Ok(Injected { patch, warnings }) => {
                let mut response = response.with_patch(patch)?;
                let early = peer.is_none().then(|| EARLY.to_owned());
                let warnings: Vec<_> =
                    warnings.into_iter().chain(early).map(|warning| format!("sealane: {warning}")).collect();
                response.warnings = (!warnings.is_empty()).then_some(warnings);
                Ok((Injection::Injected, response))
            }
            Err(error) => Ok((Injection::Refused, response.deny(format!("sealane: {error}")))),
        }
    }

    /// What the namespace demands of containers. A sidecar that does not fit is refused by the API server, so that a release
    /// whose role does not let the operator read this refuses nobody.
    async fn bounds(&self, namespace: &str) -> Bounds {
        let ranges: Api<LimitRange> = Api::namespaced(self.client.clone(), namespace);
        let quotas: Api<ResourceQuota> = Api::namespaced(self.client.clone(), namespace);
        let all = ListParams::default();
        let (limit_ranges, quotas) = tokio::join!(ranges.list(&all), quotas.list(&all));
        let unread = |what, error: &kube::Error| {
            tracing::warn!(namespace, error = %Causes(error), "{what} could not be read, so that a sidecar may not fit");
        };
        Bounds {
            limit_ranges: limit_ranges
                .inspect_err(|error| unread("LimitRanges", error))
                .map(|list| list.items)
                .unwrap_or_default(),
            quotas: quotas
                .inspect_err(|error| unread("ResourceQuotas", error))
                .map(|list| list.items)
                .unwrap_or_default(),
        }
    }

    /// Where the control channel is, for a pod that cannot look it up. Nothing is a warning to whoever makes the pod.
    async fn control_ip(&self, pod: &Pod) -> Option<IpAddr> {
        pod.spec.as_ref().filter(|spec| !has_cluster_dns(spec))?;
        let api: Api<Service> = Api::namespaced(self.client.clone(), self.config.namespace.as_str());
        match api.get(CONTROL_SERVICE).await {
            // A Service without an address says so by a word.
            Ok(service) => service.spec?.cluster_ip?.parse().ok(),
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "Service {CONTROL_SERVICE} could not be read");
                None
            }
        }
    }

    async fn peers(&self, namespace: &str) -> Result<Vec<DynamicObject>, Box<dyn Error + Send + Sync>> {
        let kind = ApiResource::erase::<Peer>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind);
        let listed = api.list(&ListParams::default().limit(PEERS_MAX)).await?;
        if listed.metadata.continue_.is_some_and(|more| !more.is_empty()) {
            return Err(format!("namespace {namespace} has more than {PEERS_MAX} Peers").into());
        }
        Ok(listed.items)
    }

    /// Whether the pod's sidecar gets what AF_XDP takes, or why the pod is refused. A session that cannot be read asks for
    /// nothing.
    async fn af_xdp(
        &self,
        namespace: &str,
        pod: &Pod,
        peer: Option<&PeerName>,
    ) -> Result<Result<bool, Refusal>, Box<dyn Error + Send + Sync>> {
        let Some(peer) = peer.filter(|_| pod.spec.as_ref().is_some_and(af_xdp::is_open)) else {
            return Ok(Ok(false));
        };
        let api: Api<DeserializeGuard<TransferSession>> = Api::namespaced(self.client.clone(), namespace);
        let listed = api.list(&ListParams::default().limit(SESSIONS_MAX)).await?;
        let sessions: Vec<_> =
            listed.into_iter().filter_map(|DeserializeGuard(session)| session.ok()).collect();
        let Some(session) = af_xdp::asked_by(peer, &sessions) else { return Ok(Ok(false)) };
        let api: Api<Namespace> = Api::all(self.client.clone());
        let labels = api.get_metadata(namespace).await?.metadata.labels.unwrap_or_default();
        let level = labels.get(POD_SECURITY_LABEL).map(String::as_str);
        Ok(af_xdp::admits(session, namespace, level).map(|()| true).map_err(Refusal::Forbidden))
    }

    /// The roots that the sidecar starts with. Without a policy it pins the first that the control channel sends.
    async fn roots(
        &self,
        namespace: &str,
        peer: Option<&Peer>,
    ) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
        let Some(peer) = peer else { return Ok(None) };
        let policy = &peer.spec.trust_policy_ref.name;
        let api: Api<TrustPolicy> = Api::namespaced(self.client.clone(), namespace);
        let Some(found) = api.get_opt(policy).await? else { return Ok(None) };
        let roots = found.spec.roots(namespace, policy)?;
        Ok(Some(serde_json::to_string(&[roots])?))
    }
}

/// A port for the metrics of a sidecar on the host's network: below those that kernels and Services give away, and another
/// for each review, so that pods on one node seldom have the same.
fn admin_port(review: &str) -> u16 {
    let hash = review.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let offset = u16::try_from(hash % u32::from(ADMIN_PORTS)).unwrap_or_default();
    ADMIN_PORT_MIN + offset
}

/// The Secret with the key of a Peer that proves itself by one.
fn key_secret(peer: &Peer) -> Option<&str> {
    let Attestation { provider, key_secret_ref, reattest_after: _ } = &peer.spec.attestation;
    key_secret_ref.as_ref().filter(|_| *provider == Provider::Key).map(|secret| secret.name.as_str())
}

#[cfg(test)]
mod tests;
