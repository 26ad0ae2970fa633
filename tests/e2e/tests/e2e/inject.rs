//! What admission does to pods on the real API server.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Workload, session};
use serde_json::{Value, json};

const SLEEP: &str = "import time\ntime.sleep(600)\n";

fn sidecar(pod: &Value) -> Option<&Value> {
    pod["spec"]["initContainers"].as_array()?.iter().find(|container| container["name"] == "sealane")
}

#[tokio::test]
async fn inject_matching_pod_gets_the_sidecar() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("inject").await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    sandbox.start(&Workload::new("left", "node1", SLEEP)).await?;
    let pod = sandbox.pod("left").await?;
    let container = sidecar(&pod).expect("the webhook injects a matching pod");
    assert_eq!(container["restartPolicy"], "Always", "a native sidecar");
    assert_eq!(pod["metadata"]["labels"]["sealane.dev/injected"], "true");
    let first = &pod["spec"]["initContainers"][0]["name"];
    assert_eq!(first, "sealane", "it starts before every other init container");
    // The namespace enforces the restricted Pod Security Standard: the pod runs, so the sidecar satisfies it.
    sandbox.kubectl(&["wait", "pod/left", "--for=condition=Ready", "--timeout=120s"]).await?;
    sandbox.remove().await
}

#[tokio::test]
async fn inject_leaves_others_alone() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("inject-others").await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    let mut opted_out = Workload::new("left", "node1", SLEEP);
    opted_out.name = "opted-out".to_owned();
    let mut manifests = opted_out.manifests(&cluster.image);
    manifests[1]["metadata"]["labels"]["sealane.dev/inject"] = json!("false");
    sandbox.apply(manifests).await?;
    sandbox.start(&Workload::new("stranger", "node1", SLEEP)).await?;
    for name in ["opted-out", "stranger"] {
        assert!(sidecar(&sandbox.pod(name).await?).is_none(), "{name} must not be injected");
    }
    sandbox.remove().await
}

#[tokio::test]
async fn inject_refuses_a_pod_of_two_peers_and_names_both() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("inject-twice").await?;
    let mut objects = session("lane", "left", "right");
    objects[1]["spec"]["selector"]["matchLabels"]["app"] = json!("left");
    sandbox.apply(objects).await?;
    let refused = sandbox.start(&Workload::new("left", "node1", SLEEP)).await;
    let message = format!("{:#}", refused.expect_err("two Peers select the pod"));
    ensure!(message.contains("left") && message.contains("right"), "{message}");
    sandbox.remove().await
}

#[tokio::test]
async fn inject_cannot_be_pretended() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("inject-pretended").await?;
    let mut manifests = Workload::new("pretender", "node1", SLEEP).manifests(&cluster.image);
    // The webhook leaves a pod that holds a container `sealane` alone; only a native sidecar of that name will do.
    manifests[1]["metadata"]["labels"]["sealane.dev/inject"] = json!("true");
    manifests[1]["spec"]["containers"][0]["name"] = json!("sealane");
    let refused = sandbox.apply(manifests).await.expect_err("it asks for the sidecar and has none");
    let message = format!("{refused:#}");
    ensure!(message.contains("asks for the Sealane sidecar"), "{message}");
    sandbox.remove().await
}

/// A manifest that was rendered for a guest of its own is one that the API server and the restricted Pod Security Standard
/// take. There is no confidential hardware here to run it on.
#[tokio::test]
async fn inject_before_admission_makes_pods_that_the_api_server_takes() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("render").await?;
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    // Admission asks for the RuntimeClass, whoever serves it.
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": sandbox.name}, "handler": "runc",
    });
    sandbox.cluster.apply(&class).await?;
    let manifests = Workload::new("left", "node1", SLEEP).manifests(&sandbox.cluster.image);
    std::fs::write(at("pod.json"), manifests[1].to_string())?;
    let roots = json!([{
        "namespace": sandbox.name, "policy": "demo", "threshold": 1, "keys": ["11".repeat(32)], "minimumEpoch": 1,
    }]);
    std::fs::write(at("roots.json"), roots.to_string())?;
    let image = format!("registry.example/sealane-sidecar@sha256:{}", "22".repeat(32));
    let (pod, roots) = (at("pod.json"), at("roots.json"));
    let words = [
        "render",
        "-f",
        &pod,
        "--guest",
        "snp",
        "--roots",
        &roots,
        "--image",
        &image,
        "--runtime-class",
        &sandbox.name,
    ];
    let rendered = sandbox.cluster.plugin(&words).await?;
    std::fs::write(at("rendered.yaml"), rendered)?;
    let words = ["create", "--dry-run=server", "-n", &sandbox.name, "-o", "json", "-f", &at("rendered.yaml")];
    let taken: Value = serde_json::from_str(&sandbox.cluster.kubectl(&words).await?)?;
    let containers = taken["spec"]["initContainers"].as_array().expect("a rendered pod has its sidecar");
    ensure!(containers.iter().filter(|container| container["name"] == "sealane").count() == 1, "{taken}");
    let authorities = containers[0]["env"].as_array().expect("a sidecar has an environment");
    let authorities = authorities.iter().find(|variable| variable["name"] == "SEALANE_CONTROL_CA");
    ensure!(
        authorities.is_some_and(|found| found["value"]
            .as_str()
            .is_some_and(|pem| pem.contains("BEGIN CERTIFICATE")))
    );
    sandbox.cluster.kubectl(&["delete", "runtimeclass", &sandbox.name]).await?;
    sandbox.remove().await
}
