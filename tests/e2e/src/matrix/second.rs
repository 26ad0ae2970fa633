//! The webhook of somebody else, which adds a sidecar of its own to pods with label `second`. It is a pod with TLS of its
//! own, asked before ours or after it.

use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::{Cluster, Sandbox, Workload};

const PROGRAM: &str = include_str!("../../programs/second.py");
/// Its pod and its Service.
const NAME: &str = "second";

/// Both configurations of it; [`Second::remove`] takes them away, and so does dropping it.
#[derive(Debug)]
pub struct Second {
    cluster: Cluster,
    configurations: [String; 2],
    is_gone: bool,
}

impl Second {
    /// Starts it in a sandbox, for the pods of that.
    ///
    /// # Errors
    /// No certificate can be made, or something is not accepted.
    pub async fn install(sandbox: &Sandbox) -> Result<Self> {
        let name = format!("{NAME}.{}.svc", sandbox.name);
        let key = rcgen::KeyPair::generate().context("a key")?;
        let certificate =
            rcgen::CertificateParams::new(vec![name])?.self_signed(&key).context("a certificate")?;
        let server = Workload::new(NAME, "node1", PROGRAM)
            .file("certificate.pem", &certificate.pem())
            .file("key.pem", &key.serialize_pem());
        sandbox.start(&server).await?;
        sandbox.printed(NAME, "serving").await?;
        // The API server asks in the order of these names: `sealane-inject` is between them.
        let when = [("a", "before"), ("z", "after")];
        let configurations = when.map(|(letter, _)| format!("{letter}-second-{}", sandbox.name));
        let cluster = sandbox.cluster.clone();
        let second = Self { cluster, configurations: configurations.clone(), is_gone: false };
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME},
            "spec": {"selector": {"app": NAME}, "ports": [{"port": 443, "targetPort": 8443}]},
        });
        sandbox.apply(vec![service]).await?;
        let bundle = BASE64_STANDARD.encode(certificate.pem());
        for (configuration, (_, when)) in configurations.iter().zip(when) {
            second.cluster.apply(&described(configuration, &sandbox.name, when, &bundle)).await?;
        }
        Ok(second)
    }

    /// # Errors
    /// kubectl's own words.
    pub async fn remove(mut self) -> Result<()> {
        let [first, last] = &self.configurations;
        self.cluster.kubectl(&["delete", "mutatingwebhookconfiguration", first, last]).await?;
        self.is_gone = true;
        Ok(())
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        if !self.is_gone {
            let [first, last] = self.configurations.clone();
            let words = ["delete", "mutatingwebhookconfiguration", "--ignore-not-found"].map(str::to_owned);
            self.cluster.kubectl_now(&words.into_iter().chain([first, last]).collect::<Vec<_>>());
        }
    }
}

fn described(name: &str, namespace: &str, when: &str, bundle: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": "second.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": 10,
            "clientConfig": {
                "caBundle": bundle, "service": {"name": NAME, "namespace": namespace, "path": "/", "port": 443},
            },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
            }],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": {"matchLabels": {"second": when}},
        }],
    })
}
