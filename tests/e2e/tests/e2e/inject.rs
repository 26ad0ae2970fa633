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
