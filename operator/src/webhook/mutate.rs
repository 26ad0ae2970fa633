//! `/mutate-pod`: reads what the decision needs, decides, answers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::core::admission::{AdmissionRequest, AdmissionResponse};
use sealane_injection::{Bounds, InjectError, Injected, InjectionContext, has_cluster_dns, inject};
use sealane_operator_api::well_known::INITDATA_ANNOTATION;
use sealane_operator_api::{Attestation, Peer};
use sealane_types::{PeerName, Provider};
use tokio::sync::watch;

use super::af_xdp::{self, POD_SECURITY_LABEL};
use super::cluster::{Cluster, Unread};
use super::decide::{Decision, Refusal, decide, opted_out, reaches_node_agent};
use super::peers::Peers;
use crate::causes::Causes;
use crate::config::Config;
use crate::metrics::{Injection, Metrics};

/// Ports from which one is drawn for each sidecar on the host's network.
const ADMIN_PORT_MIN: u16 = 20_000;
const ADMIN_PORTS: u16 = 10_000;
/// Before the namespace was asked.
static UNBOUNDED: Bounds = Bounds { limit_ranges: Vec::new(), quotas: Vec::new() };
/// A pod with a sidecar and no Peer.
const EARLY: &str = "no Peer selects this pod yet, and what a Peer gives its pods is added when they are made (roots, key, the initdata of a simulated platform): make the pod again once its Peer is there, or its evidence is refused (HostDataMismatch)";

/// Adds the sidecar to pods.
pub struct Mutator {
    cluster: Cluster,
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
        cluster: Cluster,
        config: Arc<Config>,
        authorities: watch::Receiver<Arc<str>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { cluster, config, authorities, metrics }
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
    ) -> Result<(Injection, AdmissionResponse), Unread> {
        let none = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        if opted_out(labels) {
            return Ok((Injection::Left, response));
        }
        let refused =
            |refusal: Refusal| (Injection::Refused, response.clone().deny(format!("sealane: {refusal}")));
        let (decision, found) = self.decided(namespace, labels).await?;
        let peer = match decision {
            Decision::Leave => return Ok((Injection::Left, response)),
            Decision::Refuse(refusal) => return Ok(refused(refusal)),
            Decision::Inject(peer) => peer,
        };
        let found = found.as_ref();
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
        let lost = pod.spec.as_ref().is_some_and(|spec| !has_cluster_dns(spec));
        let authorities = Arc::clone(&self.authorities.borrow());
        let release = self.config.namespace.as_str();
        let context = InjectionContext {
            settings: &self.config.sidecar,
            operator_namespace: release,
            control_ip: if lost { self.cluster.control_ip(release).await } else { None },
            admin_port,
            authorities: &authorities,
            namespace,
            peer: peer.as_ref(),
            initdata: self.config.sidecar.simulation.as_ref().map(|_| INITDATA_ANNOTATION),
            node_agent,
            roots: self.roots(namespace, found).await?,
            key_secret: found.and_then(key_secret),
            af_xdp,
            bounds: &UNBOUNDED,
        };
        match self.injected(pod, context).await {
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

    /// What becomes of a pod with these labels, and its Peer.
    ///
    /// What a cache says counts where it is a Peer, and that Peer is current. Everything else may be news that the cache has
    /// not heard, and is asked of the API server.
    async fn decided(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(Decision, Option<Peer>), Unread> {
        if let Some(peers) = self.cluster.cached_peers(namespace).and_then(Peers::of)
            && let (decision @ Decision::Inject(Some(_)), Some(peer)) = judged(labels, &peers)
            && self.cluster.is_current(&peer).await
        {
            return Ok((decision, Some(peer)));
        }
        Ok(judged(labels, &Peers::read(self.cluster.peers(namespace).await?)))
    }

    /// Injects within what a cache says of the namespace, and again within what the API server says where that refuses.
    async fn injected(&self, pod: &Pod, mut context: InjectionContext<'_>) -> Result<Injected, InjectError> {
        if let Some(bounds) = self.cluster.cached_bounds(context.namespace) {
            let injected = inject(pod, &InjectionContext { bounds: &bounds, ..context.clone() });
            if injected.is_ok() {
                return injected;
            }
        }
        let bounds = self.cluster.bounds(context.namespace).await;
        context.bounds = &bounds;
        inject(pod, &context)
    }

    /// Whether the pod's sidecar gets what AF_XDP takes, or why the pod is refused. A session that cannot be read asks for
    /// nothing.
    async fn af_xdp(
        &self,
        namespace: &str,
        pod: &Pod,
        peer: Option<&PeerName>,
    ) -> Result<Result<bool, Refusal>, Unread> {
        let Some(peer) = peer.filter(|_| pod.spec.as_ref().is_some_and(af_xdp::is_open)) else {
            return Ok(Ok(false));
        };
        let sessions = self.cluster.sessions(namespace).await?;
        let Some(session) = af_xdp::asked_by(peer, &sessions) else { return Ok(Ok(false)) };
        let level = self.cluster.namespace_label(namespace, POD_SECURITY_LABEL).await?;
        let admitted = af_xdp::admits(session, namespace, level.as_deref());
        Ok(admitted.map(|()| true).map_err(Refusal::Forbidden))
    }

    /// The roots that the sidecar starts with. Without a policy it pins the first that the control channel sends.
    async fn roots(&self, namespace: &str, peer: Option<&Peer>) -> Result<Option<String>, Unread> {
        let Some(peer) = peer else { return Ok(None) };
        let policy = &peer.spec.trust_policy_ref.name;
        let Some(found) = self.cluster.policy(namespace, policy).await? else { return Ok(None) };
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

/// What becomes of a pod with these labels in a namespace with these Peers.
fn judged(labels: &BTreeMap<String, String>, peers: &Peers) -> (Decision, Option<Peer>) {
    if let Some(refusal) = peers.claim(labels) {
        return (Decision::Refuse(refusal), None);
    }
    let decision = decide(labels, peers.selectors());
    let peer = match &decision {
        Decision::Inject(Some(name)) => peers.named(name).cloned(),
        _ => None,
    };
    (decision, peer)
}

#[cfg(test)]
mod tests;
