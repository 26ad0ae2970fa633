//! The Job that measures one node, and the Secret with its run's key. Pure.
//!
//! The pod has nothing to lose and nobody to talk to: no token, no privilege, a read-only root. It is bound to its node by
//! affinity rather than by name, so that the scheduler judges taints and room as for any other pod.

use serde_json::{Value, json};

use sealane_operator_api::well_known::{
    BENCHMARK_CONTAINER, BENCHMARK_KEY_ENV, BENCHMARK_LABEL, BENCHMARK_NODE_ENV, BENCHMARK_POOL_ENV,
    BENCHMARK_RESULT_ENV, BENCHMARK_RUN_ENV, BENCHMARK_SERVER_ENV, BENCHMARK_SERVER_NODE_ENV,
    BENCHMARK_SERVER_POOL_ENV, RUN_LABEL,
};
use sealane_operator_api::{ActiveNode, ActiveRun, BenchmarkSpec, Suite};

/// Annotations of a Job: what it measures.
pub(super) const POOL_ANNOTATION: &str = "sealane.dev/pool";
pub(super) const NODE_ANNOTATION: &str = "sealane.dev/node";
/// Of a server: the node of its client, which is to begin.
pub(super) const CLIENT_ANNOTATION: &str = "sealane.dev/client-node";
/// Key of the Secret.
const KEY: &str = "key";
/// Where the kubelet reads what a container says at its end.
const TERMINATION_MESSAGE: &str = "/dev/termination-log";

/// Where the server of a pair listens.
pub(super) const SERVER_PORT: u16 = 14_720;

/// What a Job does for its part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Measures its node.
    Alone,
    /// Measures what lies between its node and the server's.
    Client,
    /// Answers a client.
    Server,
}

/// Where the runner comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    pub image: String,
    pub pull_policy: String,
    pub pull_secrets: Vec<String>,
}

/// Who owns what a run is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl Owner<'_> {
    /// The Benchmark as owner: what a run is made of goes when it does.
    pub(super) fn reference(&self) -> Value {
        json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": "Benchmark", "name": self.name, "uid": self.uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    fn labels(&self, run: &str) -> Value {
        json!({
            "app.kubernetes.io/name": "sealane-bench", "app.kubernetes.io/managed-by": "sealane-operator",
            BENCHMARK_LABEL: self.name, RUN_LABEL: run,
        })
    }
}

/// The Secret with the key, in hex, that the results of a run are signed with.
#[must_use]
pub(super) fn secret(owner: Owner<'_>, run: &str, name: &str, key: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "immutable": true,
        "metadata": {
            "name": name, "namespace": owner.namespace, "labels": owner.labels(run),
            "ownerReferences": [owner.reference()],
        },
        "stringData": {KEY: key},
    })
}

/// What the program is told: its arguments.
fn arguments(spec: &BenchmarkSpec, role: Role) -> Vec<String> {
    if role == Role::Server {
        return vec!["serve".to_owned()];
    }
    let suites: Vec<&str> = match role {
        Role::Alone | Role::Server => spec.suites.iter().map(|suite| suite.word()).collect(),
        Role::Client => vec![Suite::Transport.word()],
    };
    let peers: Vec<&str> = spec.compare_with.iter().map(|peer| peer.word()).collect();
    let mut arguments =
        vec!["run".to_owned(), format!("--{}", spec.level.word()), "--suite".to_owned(), suites.join(",")];
    match peers.as_slice() {
        [] => arguments.push("--alone".to_owned()),
        peers => arguments.extend(["--compare-with".to_owned(), peers.join(",")]),
    }
    arguments
}

/// What the program is told that is no argument.
fn environment(spec: &BenchmarkSpec, run: &ActiveRun, node: &ActiveNode, role: Role) -> Vec<Value> {
    let plain = |name: &str, value: &str| json!({"name": name, "value": value});
    let mut environment: Vec<Value> =
        spec.env.iter().map(|setting| plain(&setting.name, &setting.value)).collect();
    // Of two with one name the later counts.
    environment.push(
        json!({"name": BENCHMARK_KEY_ENV, "valueFrom": {"secretKeyRef": {"name": run.secret, "key": KEY}}}),
    );
    if role == Role::Server {
        return environment;
    }
    environment.extend([
        plain(BENCHMARK_RUN_ENV, &run.id),
        plain(BENCHMARK_POOL_ENV, &node.pool),
        plain(BENCHMARK_NODE_ENV, &node.node),
        plain(BENCHMARK_RESULT_ENV, TERMINATION_MESSAGE),
    ]);
    if let Some(server) = &node.server {
        environment.extend([
            plain(BENCHMARK_SERVER_ENV, server.address.as_deref().unwrap_or_default()),
            plain(BENCHMARK_SERVER_POOL_ENV, &server.pool),
            plain(BENCHMARK_SERVER_NODE_ENV, &server.node),
        ]);
    }
    environment
}

/// The Job that plays `role` in a part of a run.
#[must_use]
pub(super) fn job(
    owner: Owner<'_>,
    spec: &BenchmarkSpec,
    (run, node, role): (&ActiveRun, &ActiveNode, Role),
    runner: &Runner,
) -> Value {
    let labels = owner.labels(&run.id);
    let server = node.server.as_ref().filter(|_| role == Role::Server);
    // It begins before its client, and is deleted when that is over.
    let deadline = spec.active_deadline_seconds.saturating_mul(if role == Role::Server { 2 } else { 1 });
    let (name, pool, host) = server
        .map_or((&node.job, &node.pool, &node.node), |server| (&server.job, &server.pool, &server.node));
    let pull_secrets: Vec<Value> = runner.pull_secrets.iter().map(|name| json!({"name": name})).collect();
    let mut annotations = json!({POOL_ANNOTATION: pool, NODE_ANNOTATION: host});
    if role == Role::Server {
        annotations[CLIENT_ANNOTATION] = json!(node.node);
    }
    let container = json!({
        "name": BENCHMARK_CONTAINER,
        "image": runner.image,
        "imagePullPolicy": runner.pull_policy,
        "args": arguments(spec, role),
        "env": environment(spec, run, node, role),
        "resources": {"requests": spec.resources.requests, "limits": spec.resources.limits},
        "terminationMessagePath": TERMINATION_MESSAGE,
        "terminationMessagePolicy": "File",
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "namespace": owner.namespace, "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner.reference()],
        },
        "spec": {
            "activeDeadlineSeconds": deadline,
            // A figure that was taken twice, half of it on a node that was being drained, is no figure.
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [
                {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            ]},
            "template": {
                "metadata": {
                    "labels": labels,
                    // Measuring is what it is there for: a figure that was cut short is lost.
                    "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"},
                },
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "hostNetwork": spec.host_network,
                    "terminationGracePeriodSeconds": 1,
                    "imagePullSecrets": pull_secrets,
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [host]}]},
                    ]}}},
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": spec.node_pools.tolerations,
                    "securityContext": {
                        // As the image's user, or the one that the platform gives the namespace.
                        "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container],
                    "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "256Mi"}}],
                },
            },
        },
    })
}
