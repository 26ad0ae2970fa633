//! The node agent on real kubelets: pods of restricted namespaces prove what they run, and nobody gets evidence for another.
//!
//! It switches the release's agent on and off again, so that the whole file is one test and runs alone.

use anyhow::{Context, Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, session, until};
use serde_json::{Value, json};

const RELEASE: &str = "sealane-system";
const AGENT: &str = "sealane-agent";
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/sealane");

const SLEEP: &str = "import time\ntime.sleep(600)\n";

const SENDER: &str = r#"
import numpy as np, sealane
with sealane.connect() as door:
    lane = door.sender("lane", timeout=120)
    for n in range(100):
        lane.put(np.full((1000,), n))
    lane.close(timeout=120)
print("sent everything", flush=True)
"#;

const RECEIVER: &str = r#"
import sealane
with sealane.connect() as door:
    seen = [int(tensor.numpy()[0]) for tensor in door.receiver("lane", timeout=120)]
assert seen == list(range(100)), seen
print("took", len(seen), "tensors", flush=True)
"#;

/// Asks the agent for evidence, as a sidecar would, until the answer is final, and says what it was.
const ATTACKER: &str = r#"
import socket, struct, time
NOT_YET = kind = 3
while kind == NOT_YET:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
        agent.connect("/run/sealane-agent/agent.sock")
        agent.sendall(bytes([2, 2]) + bytes(32) + bytes(32) + bytes(32) + struct.pack(">I", 1) + bytes(32))
        answer = agent.makefile("rb").read()
    kind, words = answer[4], answer[5:]
    time.sleep(0.6)
print("answered", kind, words.decode("utf-8", "replace"), flush=True)
"#;
const REFUSED: &str = "answered 4 ";

/// Digest of what a container of `pod` runs, as the kubelet states it of an image that was loaded by name and digest.
fn image(pod: &Value, container: &str) -> Result<String> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.iter().flat_map(|list| pod["status"][list].as_array().into_iter().flatten());
    let stated =
        statuses.filter(|status| status["name"] == container).find_map(|status| status["imageID"].as_str());
    let digest = stated.and_then(|image| Some(image.rsplit_once("sha256:")?.1.to_owned()));
    digest.with_context(|| format!("no image of {container} in {}", pod["status"]))
}

async fn release(cluster: &Cluster, values: &[String]) -> Result<()> {
    let mut words = vec!["upgrade", "sealane", CHART, "--namespace", RELEASE, "--reset-then-reuse-values"];
    for value in values {
        words.extend(["--set", value]);
    }
    cluster.helm(&words).await?;
    cluster.rolled_out().await
}

/// Switches the agent on, and injects the sidecar by its digest `sidecar`.
async fn begin(cluster: &Cluster, sidecar: &str) -> Result<()> {
    let digest = format!("simulation.image.digest=sha256:{sidecar}");
    release(cluster, &["agent.enabled=true".to_owned(), "agent.provider=Simulated".to_owned(), digest])
        .await?;
    // The simulated node's platform is this installation's.
    let secret =
        cluster.kubectl(&["-n", RELEASE, "get", "secret", "sealane-simulation", "-o", "json"]).await?;
    let secret: Value = serde_json::from_str(&secret).context("the simulated platform")?;
    let metadata = json!({"name": "sealane-simulation", "namespace": AGENT});
    cluster
        .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": secret["data"]}))
        .await?;
    let agents = "daemonset/sealane-agent";
    cluster.kubectl(&["-n", AGENT, "rollout", "status", agents, "--timeout=180s"]).await?;
    for node in ["node1", "node2"] {
        until(&format!("the kubelet of {node} knows the driver"), || async move {
            let words = ["get", "csinode", node, "-o", "jsonpath={.spec.drivers[*].name}"];
            let seen = cluster.kubectl(&words).await.map_err(|error| format!("{error:#}"))?;
            if seen.contains("csi.sealane.dev") { Ok(()) } else { Err(seen) }
        })
        .await?;
    }
    Ok(())
}

/// Peers `left` and `right` that get their evidence from the node agent, each with a service account of its own.
fn declared() -> Vec<Value> {
    let mut objects = session("lane", "left", "right");
    for peer in &mut objects[..2] {
        peer["spec"]["attestation"]["provider"] = json!("NodeAgent");
    }
    let account =
        |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    objects.extend(["left", "right"].map(account));
    objects
}

/// A policy whose Peers run these images under service accounts of their own names, on simulated nodes.
async fn policy(sandbox: &Sandbox, images: &[&String]) -> Result<Value> {
    let images: Vec<String> =
        images.iter().map(|digest| format!("any.example/image@sha256:{digest}")).collect();
    sandbox
        .policy(Signing::Quorum, |draft| {
            for peer in ["left", "right"] {
                let entry = &mut draft["peers"][peer]["entries"][0];
                entry["assurance"] = json!("Node");
                entry["workload"] = json!({"serviceAccount": peer, "images": images});
                // The node's, not the pod's.
                if let Some(entry) = entry.as_object_mut() {
                    entry.remove("hostData");
                }
            }
        })
        .await
}

fn named(name: &str, workload: Workload) -> Workload {
    let mut workload = workload;
    name.clone_into(&mut workload.name);
    workload
}

/// Pods of the images that the cluster has.
struct Pods<'a> {
    cluster: &'a Cluster,
    /// Digest of the program's image.
    program: &'a str,
}

impl Pods<'_> {
    /// The pod of `workload` under a service account, with `edit` made to it; its image is given by digest.
    fn of(&self, workload: &Workload, account: &str, edit: impl FnOnce(&mut Value)) -> Vec<Value> {
        let image = &self.cluster.image;
        let repository = image.rsplit_once(':').map_or(image.as_str(), |(repository, _)| repository);
        let mut manifests = workload.manifests(&format!("{repository}@sha256:{}", self.program));
        manifests[1]["spec"]["serviceAccountName"] = json!(account);
        edit(&mut manifests[1]);
        manifests
    }
}

/// Shows the program's container the volume with the agent's socket.
fn mounted(pod: &mut Value) {
    let mount = json!({"name": "sealane-agent", "mountPath": "/run/sealane-agent"});
    push(&mut pod["spec"]["containers"][0]["volumeMounts"], mount);
}

/// A pod that is not injected brings the volume itself.
fn own_volume(pod: &mut Value) {
    pod["metadata"]["labels"]["sealane.dev/inject"] = json!("false");
    let volume = json!({"name": "sealane-agent", "csi": {"driver": "csi.sealane.dev", "readOnly": true}});
    push(&mut pod["spec"]["volumes"], volume);
}

/// Without a list there is nothing to add to, and what the test waits for does not come.
fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

async fn attackers_are_refused(sandbox: &Sandbox, pods: &Pods<'_>) -> Result<()> {
    let attacker = |app: &str, name: &str| named(name, Workload::new(app, "node1", ATTACKER));
    // A container beside the sidecar of an honest pod that wants the volume which the webhook brings.
    let beside = sandbox.apply(pods.of(&attacker("left", "beside"), "left", mounted)).await;
    let words = beside.err().map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(words.contains("which is for the Sealane sidecar alone"), "{words}");
    // A pod of its own, with the victim's service account.
    let alone = pods.of(&attacker("attacker", "alone"), "left", |pod| {
        own_volume(pod);
        mounted(pod);
    });
    sandbox.apply(alone).await?;
    // The same, and its container has the sidecar's name.
    let same_name = pods.of(&attacker("attacker", "named"), "left", |pod| {
        own_volume(pod);
        mounted(pod);
        pod["spec"]["containers"][0]["name"] = json!("sealane");
    });
    sandbox.apply(same_name).await?;
    // And its image is whatever the tag names on that node.
    let by_tag = pods.of(&attacker("attacker", "tagged"), "left", |pod| {
        own_volume(pod);
        mounted(pod);
        pod["spec"]["containers"][0]["name"] = json!("sealane");
        pod["spec"]["containers"][0]["image"] = json!(pods.cluster.image);
    });
    sandbox.apply(by_tag).await?;
    for (name, container, why) in [
        ("alone", "program", "container `program` asked"),
        ("named", "sealane", "not among the agent's sidecarDigests"),
        ("tagged", "sealane", "not given by digest"),
    ] {
        until(&format!("{name} is refused"), || async move {
            let log = sandbox
                .kubectl(&["logs", name, "-c", container])
                .await
                .map_err(|error| format!("{error:#}"))?;
            if log.contains(REFUSED) && log.contains(why) { Ok(()) } else { Err(log) }
        })
        .await?;
    }
    // Writable, a volume would let a container listen in the agent's place.
    let writable = pods.of(&attacker("attacker", "writable"), "left", |pod| {
        own_volume(pod);
        mounted(pod);
        if let Some(ours) = pod["spec"]["volumes"].as_array_mut().and_then(|volumes| volumes.last_mut()) {
            ours["csi"]["readOnly"] = json!(false);
        }
    });
    sandbox.apply(writable).await?;
    until("a writable volume is not made", || async move {
        let events =
            sandbox.kubectl(&["get", "events", "--field-selector", "involvedObject.name=writable"]).await;
        let events = events.map_err(|error| format!("{error:#}"))?;
        if events.contains("has to be read-only") { Ok(()) } else { Err(events) }
    })
    .await
}

#[tokio::test]
async fn node_agent_states_what_pods_run() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("agent").await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    // What a kubelet says of the images here, which nobody pulled.
    sandbox.start(&Workload::new("left", "node1", SLEEP)).await?;
    sandbox.kubectl(&["wait", "pod/left", "--for=condition=Ready", "--timeout=180s"]).await?;
    let seen = sandbox.pod("left").await?;
    let (sidecar, program) = (image(&seen, "sealane")?, image(&seen, "program")?);
    sandbox.kubectl(&["delete", "pod", "left", "--wait", "--grace-period=1"]).await?;

    begin(&cluster, &sidecar).await?;
    let pods = Pods { cluster: &cluster, program: &program };
    let account = format!("--as=system:serviceaccount:{AGENT}:sealane-agent");
    cluster.kubectl(&["auth", "can-i", "get", "nodes", "--subresource=pods", &account]).await?;
    let proxy = cluster.kubectl(&["auth", "can-i", "get", "nodes", "--subresource=proxy", &account]).await;
    ensure!(proxy.is_err(), "the agent could run commands in every pod");

    sandbox.apply(declared()).await?;
    sandbox.apply(vec![policy(&sandbox, &[&sidecar, &program]).await?]).await?;
    sandbox.apply(pods.of(&Workload::new("right", "node2", RECEIVER), "right", |_| {})).await?;
    sandbox.apply(pods.of(&Workload::new("left", "node1", SENDER), "left", |_| {})).await?;
    let log = sandbox.finish("right").await?;
    ensure!(log.contains("took 100 tensors"), "{log}");
    sandbox.finish("left").await?;

    attackers_are_refused(&sandbox, &pods).await?;

    // A pod of the Peer, whose program stays: it is verified, and only as what it is.
    let idle = named("left-idle", Workload::new("left", "node1", SLEEP));
    sandbox.apply(pods.of(&idle, "left", |_| {})).await?;
    sandbox.kubectl(&["delete", "pod", "left", "right", "--wait", "--grace-period=1"]).await?;
    sandbox.condition("peer/left", "EvidenceVerified", "True").await?;
    let peer = sandbox.read("peer/left").await?;
    ensure!(!peer["status"].to_string().contains("WorkloadUnverified"), "{}", peer["status"]);
    // The next epoch lists other images than the program's.
    sandbox.apply(vec![policy(&sandbox, &[&sidecar]).await?]).await?;
    sandbox.because("peer/left", "EvidenceVerified", "False", "WorkloadMismatch").await?;
    // Without the agent no kubelet could take the pods' volumes away, and they would never end.
    sandbox.kubectl(&["delete", "pods", "--all", "--grace-period=1", "--timeout=120s"]).await?;
    sandbox.remove().await?;
    release(&cluster, &["agent.enabled=false".to_owned(), "simulation.image.digest=".to_owned()]).await
}
