//! What the operator has to deal with: Peers, sessions, and pods on a node that no machine stands behind.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, Pod, Secret, Service, ServiceAccount};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client};
use sealane_e2e::{Cluster, Sandbox, Signing, until};
use serde_json::{Value, json};

use super::fleet::{Member, Moment, Plan, Seen};

pub(crate) const PEERS: usize = 200;
/// Pods unless [`VARIABLE`] names another number: what FULL=1 has time for.
const PODS: usize = 500;
pub(crate) const VARIABLE: &str = "SEALANE_SCALE_PODS";
/// Each Peer sends to the ten that follow it.
const SESSIONS_OF_PEER: usize = 10;
pub(crate) const SESSIONS: usize = PEERS * SESSIONS_OF_PEER;
const TEST: &str = "scale";
const NODE: &str = "scale-node";
/// Requests to the API server at one time.
const REQUESTS: usize = 16;

pub(crate) struct World<'a> {
    pub(crate) sandbox: Sandbox,
    cluster: &'a Cluster,
    client: Client,
    pub(crate) plan: Plan,
    pub(crate) pods: usize,
    /// Milliseconds until a pod was admitted, injected and stored.
    pub(crate) admissions: Vec<u64>,
    epoch: AtomicU64,
}

/// Takes away what an earlier run left: no kubelet will ever confirm that a pod has ended.
pub(crate) async fn clean(cluster: &Cluster) -> Result<()> {
    let namespace = format!("e2e-{TEST}");
    let pods = ["-n", &namespace, "delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false"];
    // Without the namespace there is nothing to delete.
    let _ = cluster.kubectl(&pods).await;
    cluster.kubectl(&["delete", "namespace", &namespace, "--ignore-not-found", "--wait"]).await?;
    cluster.kubectl(&["delete", "node", NODE, "--ignore-not-found"]).await?;
    Ok(())
}

fn peer(index: usize) -> String {
    format!("p{:03}", index % PEERS)
}

/// How many pods there are, each with a sidecar.
pub(crate) fn pods() -> Result<usize> {
    match std::env::var(VARIABLE) {
        Ok(number) => number.parse().with_context(|| format!("{VARIABLE} is `{number}`, which is no number")),
        Err(_) => Ok(PODS),
    }
}

/// A pod of the Peer with this index, before admission.
pub(crate) fn pod(name: &str, index: usize) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"peer": peer(index)}},
        "spec": {
            "nodeName": NODE, "tolerations": [{"operator": "Exists"}],
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "app", "image": "none",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    }))?)
}

impl<'a> World<'a> {
    pub(crate) async fn build(cluster: &'a Cluster) -> Result<Self> {
        let sandbox = cluster.sandbox(TEST).await?;
        let client = Client::try_default().await.context("KUBECONFIG does not lead to a cluster")?;
        let plan = Plan { address: String::new(), authorities: String::new(), members: Vec::new() };
        let mut world = Self {
            sandbox,
            cluster,
            client,
            plan,
            pods: pods()?,
            admissions: Vec::new(),
            epoch: AtomicU64::new(1),
        };
        world.declare().await?;
        world.make_node().await?;
        world.make_pods().await?;
        world.find_operator().await?;
        Ok(world)
    }

    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("sealane.dev", "v1alpha1", kind);
        let mut resource = ApiResource::from_gvk(&kind);
        if kind.kind == "TrustPolicy" {
            resource.plural = "trustpolicies".to_owned();
        }
        Api::namespaced_with(self.client.clone(), &self.sandbox.name, &resource)
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.cluster
    }

    async fn create(&self, kind: &str, objects: Vec<(String, Value)>) -> Result<()> {
        let api = &self.api(kind);
        futures::stream::iter(objects)
            .map(|(name, spec)| async move {
                let object = json!({
                    "apiVersion": "sealane.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec,
                });
                api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
                anyhow::Ok(())
            })
            .buffer_unordered(REQUESTS)
            .try_collect::<()>()
            .await
    }

    async fn declare(&self) -> Result<()> {
        let peers = (0..PEERS).map(|index| {
            let name = peer(index);
            let spec = json!({
                "selector": {"matchLabels": {"peer": name}}, "trustPolicyRef": {"name": "trust"},
                "attestation": {"provider": "Simulated"},
            });
            (name, spec)
        });
        self.create("Peer", peers.collect()).await?;
        let sessions = (0..PEERS).flat_map(|from| (1..=SESSIONS_OF_PEER).map(move |step| (from, step)));
        let sessions = sessions.map(|(from, step)| {
            let spec =
                json!({"from": {"peer": peer(from)}, "to": [{"peer": peer(from + step)}], "stream": {}});
            (format!("{}-{step:02}", peer(from)), spec)
        });
        self.create("TransferSession", sessions.collect()).await?;
        let policy = self.sandbox.policy(Signing::Quorum, |_| ()).await?;
        let made = PatchParams::apply(TEST).force();
        self.api("TrustPolicy").patch("trust", &made, &Patch::Apply(policy)).await?;
        Ok(())
    }

    pub(crate) fn next_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Replaces document and signatures at once, as applying the next manifest does.
    pub(crate) async fn replace_policy(&self, manifest: &Value) -> Result<()> {
        let spec = json!({"spec": manifest["spec"]});
        self.api("TrustPolicy").patch("trust", &PatchParams::default(), &Patch::Merge(spec)).await?;
        Ok(())
    }

    async fn make_node(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({
            "metadata": {"name": NODE},
            "spec": {"taints": [{"key": "sealane.dev/scale", "value": "only", "effect": "NoSchedule"}]},
        });
        nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        Ok(())
    }

    async fn make_pods(&mut self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.sandbox.name);
        until("the namespace has its service account", || async {
            accounts.get("default").await.map(|_| ()).map_err(|error| error.to_string())
        })
        .await?;
        let made = futures::stream::iter(0..self.pods)
            .map(|index| self.make_pod(index, &accounts))
            .buffer_unordered(REQUESTS)
            .try_collect::<Vec<(Member, u64)>>()
            .await?;
        (self.plan.members, self.admissions) = made.into_iter().unzip();
        Ok(())
    }

    /// A pod that was admitted and injected, and says that it runs; and its token.
    async fn make_pod(&self, index: usize, accounts: &Api<ServiceAccount>) -> Result<(Member, u64)> {
        let pods = self.pod_api();
        let (name, address) = (format!("pod-{index}"), format!("10.200.{}.{}", index / 250, index % 250 + 1));
        let began = Moment::now();
        let pod = pod(&name, index)?;
        // A busy machine lets a webhook miss its five seconds; controllers try again too.
        let stored = until("a pod is admitted", || async {
            pods.create(&PostParams::default(), &pod).await.map_err(|error| error.to_string())
        })
        .await?;
        let admitted = Moment::now().since(began);
        let uid = stored.metadata.uid.context("a pod without uid")?;
        let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        let request: TokenRequest = serde_json::from_value(json!({
            "metadata": {},
            "spec": {
                "audiences": ["sealane.dev/control"], "expirationSeconds": 3600,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid},
            },
        }))?;
        let granted = accounts.create_token_request("default", &PostParams::default(), &request).await?;
        let token = granted.status.context("a token request without a token")?.token;
        let token = token.context("an empty token")?;
        let namespace = self.sandbox.name.clone();
        Ok((Member { namespace, pod: name, uid, node: NODE.to_owned(), address, token }, admitted))
    }

    pub(crate) fn pod_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.sandbox.name)
    }

    async fn find_operator(&mut self) -> Result<()> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), "sealane-system");
        let service = services.get("sealane-control").await?.spec.context("a Service without spec")?;
        self.plan.address = format!("https://{}:14712", service.cluster_ip.context("no cluster IP")?);
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "sealane-system");
        let secret = secrets.get("sealane-certificates").await?;
        let bundle = secret.data.unwrap_or_default().remove("ca.crt").context("no authorities")?;
        self.plan.authorities = String::from_utf8(bundle.0)?;
        Ok(())
    }

    fn replicas_of(&self, index: usize) -> usize {
        self.pods / PEERS + usize::from(index % PEERS < self.pods % PEERS)
    }

    /// Whether a sidecar was told everything: both sides of its Peer's sessions, and every replica of the other.
    pub(crate) fn is_complete(&self, seen: &Seen) -> bool {
        let Some(index) = seen.pod.strip_prefix("pod-").and_then(|index| index.parse::<usize>().ok()) else {
            return false;
        };
        let others = (1..=SESSIONS_OF_PEER).flat_map(|step| [index + step, index + PEERS - step]);
        let replicas: usize = others.map(|other| self.replicas_of(other)).sum();
        seen.sessions == 2 * SESSIONS_OF_PEER && seen.replicas == replicas && seen.policy.is_some()
    }
}
