//! Workloads of the tests: pods that run one Python program each, on a node of their own if wanted.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{Sandbox, until};

/// One pod with one Python program.
#[derive(Debug, Clone)]
pub struct Workload {
    pub name: String,
    pub app: String,
    pub program: String,
    pub node: &'static str,
    /// What lies beside the program.
    files: BTreeMap<String, String>,
    host_network: bool,
    /// The platform that its simulated one resembles, if it says so.
    form: Option<&'static str>,
}

impl Workload {
    #[must_use]
    pub fn new(app: &str, node: &'static str, program: &str) -> Self {
        Self {
            name: app.to_owned(),
            app: app.to_owned(),
            program: program.to_owned(),
            node,
            files: BTreeMap::new(),
            host_network: false,
            form: None,
        }
    }

    /// Puts a file beside the program, which can import it.
    #[must_use]
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.insert(name.to_owned(), text.to_owned());
        self
    }

    /// On the host's network, which needs [`Sandbox::open`].
    #[must_use]
    pub fn on_host_network(mut self) -> Self {
        self.host_network = true;
        self
    }

    /// Evidence in the form of this platform.
    #[must_use]
    pub fn simulating(mut self, form: &'static str) -> Self {
        self.form = Some(form);
        self
    }

    /// The pod and the ConfigMap that holds its program.
    #[must_use]
    pub fn manifests(&self, image: &str) -> Vec<Value> {
        let restricted = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        });
        let form = self.form.map(|form| ("sealane.dev/simulated-form", form));
        let annotations: BTreeMap<_, _> = form.into_iter().collect();
        let mut files = self.files.clone();
        files.insert("program.py".to_owned(), self.program.clone());
        vec![
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{}-program", self.name)},
                "data": files,
            }),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": self.name, "labels": {"app": self.app}, "annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 10,
                    "nodeSelector": {"kubernetes.io/hostname": self.node},
                    "hostNetwork": self.host_network,
                    "dnsPolicy": if self.host_network { "ClusterFirstWithHostNet" } else { "ClusterFirst" },
                    "securityContext": {
                        "runAsNonRoot": true, "runAsUser": 1000,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [{
                        "name": "program", "image": image, "command": ["python3", "-u", "/program/program.py"],
                        "securityContext": restricted,
                        "volumeMounts": [{"name": "program", "mountPath": "/program", "readOnly": true}],
                    }],
                    "volumes": [{"name": "program", "configMap": {"name": format!("{}-program", self.name)}}],
                },
            }),
        ]
    }
}

/// Peers for `from` and `to`, selected by label `app`, and the session `lane` between them: a stream of tensors.
#[must_use]
pub fn session(lane: &str, from: &str, to: &str) -> Vec<Value> {
    declared(lane, from, to, "stream", &json!({}))
}

/// As [`session`], but a TCP port: `to` listens on `target`, and `from` reaches it on `listen`.
#[must_use]
pub fn forward(lane: &str, from: &str, to: &str, listen: u16, target: u16) -> Vec<Value> {
    declared(lane, from, to, "forward", &json!({"listen": listen, "target": target}))
}

/// A Peer of the pods with label `app`, whose evidence is simulated.
#[must_use]
pub fn peer(name: &str) -> Value {
    json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "Peer", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "trustPolicyRef": {"name": "trust"},
            "attestation": {"provider": "Simulated"},
        },
    })
}

/// The session `lane` between two Peers alone: a stream of tensors.
#[must_use]
pub fn flow(lane: &str, from: &str, to: &str) -> Value {
    transfer(lane, from, to, "stream", &json!({}))
}

/// The same objects, whose sessions ask for `carrier`.
#[must_use]
pub fn carried_by(carrier: &str, mut objects: Vec<Value>) -> Vec<Value> {
    for object in objects.iter_mut().filter(|object| object["kind"] == "TransferSession") {
        object["spec"]["carrier"] = carrier.into();
    }
    objects
}

fn transfer(lane: &str, from: &str, to: &str, kind: &str, how: &Value) -> Value {
    json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession", "metadata": {"name": lane},
        "spec": {"from": {"peer": from}, "to": [{"peer": to}], kind: how},
    })
}

fn declared(lane: &str, from: &str, to: &str, kind: &str, how: &Value) -> Vec<Value> {
    vec![peer(from), peer(to), transfer(lane, from, to, kind, how)]
}

impl Sandbox {
    /// Admits pods that the restricted standard forbids, such as those on the host's network.
    ///
    /// # Errors
    /// kubectl's own words.
    pub async fn open(&self) -> Result<()> {
        self.enforce("privileged").await
    }

    /// Holds pods against another level of the Pod Security Standards.
    ///
    /// # Errors
    /// kubectl's own words.
    pub async fn enforce(&self, level: &str) -> Result<()> {
        let label = format!("pod-security.kubernetes.io/enforce={level}");
        self.cluster.kubectl(&["label", "--overwrite", "namespace", &self.name, &label]).await?;
        Ok(())
    }

    /// Starts a workload.
    ///
    /// # Errors
    /// Admission's words.
    pub async fn start(&self, workload: &Workload) -> Result<()> {
        self.apply(workload.manifests(&self.cluster.image)).await?;
        Ok(())
    }

    /// Waits until the pod ended and gives what its program printed.
    ///
    /// # Errors
    /// The pod failed, with its output, or did not end in time.
    pub async fn finish(&self, pod: &str) -> Result<String> {
        let object = format!("pod/{pod}");
        let phase = until(&format!("{object} ends in {}", self.name), || async {
            let seen = self.read(&object).await.map_err(|error| format!("{error:#}"))?;
            let phase = seen["status"]["phase"].as_str().unwrap_or_default().to_owned();
            if matches!(phase.as_str(), "Succeeded" | "Failed") {
                Ok(phase)
            } else {
                Err(seen["status"].to_string())
            }
        })
        .await?;
        let log = self.kubectl(&["logs", pod, "-c", "program"]).await?;
        anyhow::ensure!(phase == "Succeeded", "{object} failed:\n{log}");
        Ok(log)
    }

    /// Waits until the program's output contains `text`.
    ///
    /// # Errors
    /// It did not in time.
    pub async fn printed(&self, pod: &str, text: &str) -> Result<String> {
        until(&format!("{pod} prints {text:?} in {}", self.name), || async {
            let log =
                self.kubectl(&["logs", pod, "-c", "program"]).await.map_err(|error| format!("{error:#}"))?;
            if log.contains(text) { Ok(log) } else { Err(log) }
        })
        .await
    }

    /// The pod as the API server has it.
    ///
    /// # Errors
    /// kubectl's own words.
    pub async fn pod(&self, name: &str) -> Result<Value> {
        self.read(&format!("pod/{name}")).await.with_context(|| format!("pod {name}"))
    }
}
