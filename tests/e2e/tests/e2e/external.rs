//! A Peer outside of the mesh: a sidecar that nobody injected, with a pinned key and a configuration file.

use anyhow::{Context, Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, session, until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Sends ten tensors, and takes them back doubled.
const OUTSIDE: &str = r#"
import numpy as np, sealane, time
with sealane.connect() as door:
    try:
        lane = door.sender("there", timeout=90)
        for index in range(10):
            lane.put(np.full((100, 100), index, np.float32), name=f"t{index}")
        lane.flush(timeout=60)
        lane.close(timeout=60)
        print("sent 10", flush=True)
        back = door.receiver("back", timeout=60)
        for index, tensor in zip(range(10), back):
            assert (tensor.numpy() == 2 * index).all() and tensor.sender.startswith("right/"), tensor
        print("took 10", flush=True)
    except sealane.SealaneError as error:
        print("ended:", type(error).__name__, error, flush=True)
# A Peer's status is of replicas that live, and of an external one it is what those say.
time.sleep(600)
"#;

const RIGHT: &str = r#"
import sealane, time
with sealane.connect() as door:
    taken = []
    for tensor in door.receiver("there", timeout=150):
        assert tensor.sender == "laptop/outside", tensor.sender
        taken.append((tensor.name, tensor.numpy().copy()))
    lane = door.sender("back", timeout=60)
    for name, array in taken:
        lane.put(2 * array, name=name)
    lane.flush(timeout=60)
    print("returned", len(taken), flush=True)
    lane.close(timeout=60)
time.sleep(600)
"#;

/// A key as its owner makes it.
struct Key {
    pem: String,
    public: String,
}

async fn key(sandbox: &Sandbox, name: &str) -> Result<Key> {
    let folder = TempDir::new()?;
    let path = folder.path().join(name);
    let out = path.to_string_lossy();
    let printed = sandbox.cluster.plugin(&["policy", "keygen", "-o", "json", "--out", &out]).await?;
    let printed: Value = serde_json::from_str(&printed).context("policy keygen")?;
    let public = printed["publicKey"].as_str().context("publicKey")?.to_owned();
    Ok(Key { pem: std::fs::read_to_string(&path)?, public })
}

/// Peer `laptop` at `address`, Peer `right`, and a session each way.
fn declared(address: &str, key: &Key) -> Vec<Value> {
    let peer = |name: &str, spec: Value| json!({"apiVersion": "sealane.dev/v1alpha1", "kind": "Peer", "metadata": {"name": name}, "spec": spec});
    let session = |name: &str, from: &str, to: &str| {
        json!({
            "apiVersion": "sealane.dev/v1alpha1", "kind": "TransferSession", "metadata": {"name": name},
            "spec": {"from": {"peer": from}, "to": [{"peer": to}], "stream": {}},
        })
    };
    let trust = json!({"name": "trust"});
    let external = json!({"addresses": [address], "publicKey": key.public});
    let selector = json!({"matchLabels": {"app": "right"}});
    let simulated = json!({"provider": "Simulated"});
    vec![
        peer("laptop", json!({"external": external, "trustPolicyRef": trust})),
        peer("right", json!({"selector": selector, "trustPolicyRef": trust, "attestation": simulated})),
        session("there", "laptop", "right"),
        session("back", "right", "laptop"),
    ]
}

async fn address(sandbox: &Sandbox, pod: &str) -> Result<String> {
    until(&format!("{pod} has an address in {}", sandbox.name), || async {
        let seen = sandbox.pod(pod).await.map_err(|error| format!("{error:#}"))?;
        seen["status"]["podIP"].as_str().map(str::to_owned).ok_or_else(|| seen["status"].to_string())
    })
    .await
}

/// A pod that stands for a machine outside: its sidecar has a file and a key, and no operator.
async fn outside(sandbox: &Sandbox, trust: &Value, key: &Key, right: &str) -> Result<()> {
    let injected = sandbox.pod("right").await?;
    let containers = injected["spec"]["initContainers"].as_array().context("initContainers")?;
    let sidecar = containers.iter().find(|one| one["name"] == "sealane").context("the sidecar")?;
    let mut roots = trust["spec"]["roots"].clone();
    roots["namespace"] = json!(sandbox.name);
    roots["policy"] = json!("trust");
    let spec = &trust["spec"];
    let chain = json!({"document": spec["document"], "signatures": spec["signatures"], "rotations": []});
    let configuration = json!({
        "namespace": sandbox.name, "pod": "outside", "uid": "1", "listen": "0.0.0.0:14710", "admin": "0.0.0.0:14711",
        "door": "/run/sealane/door.sock", "peer": "laptop", "provider": "Key", "keyFile": "/key/key.pem",
        "rootsFile": "/config/roots.json", "policy": "trust", "policyFile": "/config/policy.json",
        "sessions": [
            {"name": "there", "direction": "Sending",
             "remotes": [{"peer": "right", "addresses": [format!("{right}:14710")]}]},
            {"name": "back", "direction": "Receiving", "remotes": [{"peer": "right"}]},
        ],
    });
    let workload = Workload::new("outside", "node1", OUTSIDE);
    let mut manifests = workload.manifests(&sandbox.cluster.image);
    let pod = manifests.last_mut().context("the pod")?;
    pod["metadata"]["labels"]["sealane.dev/inject"] = json!("false");
    // The kubelet gives the key to this group, and to nobody else.
    pod["spec"]["securityContext"]["fsGroup"] = json!(65_532);
    let door = json!({"name": "door", "mountPath": "/run/sealane"});
    let program = &mut pod["spec"]["containers"][0];
    program["volumeMounts"].as_array_mut().context("mounts")?.push(door.clone());
    let program_name = if sidecar["image"].to_string().contains("sidecar-sim") {
        "/usr/bin/sealane-sidecar-sim"
    } else {
        "/usr/bin/sealane-sidecar"
    };
    let runs = json!({
        "name": "sidecar", "image": sidecar["image"], "imagePullPolicy": "IfNotPresent", "restartPolicy": "Always",
        "command": [program_name, "run", "--config", "/config/sidecar.yaml"],
        "startupProbe": {"httpGet": {"path": "/startupz", "port": 14711}, "periodSeconds": 1, "failureThreshold": 60},
        "securityContext": sidecar["securityContext"],
        "volumeMounts": [door, {"name": "config", "mountPath": "/config"}, {"name": "key", "mountPath": "/key"}],
    });
    pod["spec"]["initContainers"] = json!([runs]);
    let volumes = pod["spec"]["volumes"].as_array_mut().context("volumes")?;
    volumes.push(json!({"name": "door", "emptyDir": {"medium": "Memory"}}));
    volumes.push(json!({"name": "config", "configMap": {"name": "outside"}}));
    volumes.push(json!({"name": "key", "secret": {"secretName": "outside", "defaultMode": 0o400}}));
    let data = json!({
        "sidecar.yaml": configuration.to_string(), "roots.json": json!([roots]).to_string(),
        "policy.json": chain.to_string(),
    });
    manifests.push(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "outside"}, "data": data}),
    );
    let secret = json!({"key.pem": key.pem});
    manifests.push(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "outside"}, "stringData": secret}),
    );
    sandbox.apply(manifests).await?;
    Ok(())
}

/// Everything but the machine outside; the policy lists `listed`.
async fn inside(test: &str) -> Result<(Sandbox, Key, Value, String)> {
    let sandbox = Cluster::connect()?.sandbox(test).await?;
    let listed = key(&sandbox, "listed").await?;
    // Where it will be is known once it is there.
    sandbox.apply(declared("203.0.113.7:14710", &listed)).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust.clone()]).await?;
    sandbox.start(&Workload::new("right", "node2", RIGHT)).await?;
    sandbox.condition("peer/right", "Ready", "True").await?;
    let right = address(&sandbox, "right").await?;
    Ok((sandbox, listed, trust, right))
}

#[tokio::test]
async fn e2e_peer_outside_streams_in_and_back() -> Result<()> {
    let (sandbox, listed, trust, right) = inside("external").await?;
    sandbox.because("peer/laptop", "Ready", "False", "Unreachable").await?;
    outside(&sandbox, &trust, &listed, &right).await?;
    let outside = address(&sandbox, "outside").await?;
    sandbox.apply(declared(&format!("{outside}:14710"), &listed)).await?;
    sandbox.condition("peer/laptop", "Ready", "True").await?;
    let status = sandbox.read("peer/laptop").await?["status"].clone();
    ensure!(status["assurance"] == "Key" && status["platform"] == "Key", "{status:#}");
    ensure!(status["replicas"][0]["publicKey"] == json!(listed.public), "{status:#}");
    let log = sandbox.printed("outside", "took 10").await?;
    ensure!(log.contains("sent 10"), "{log}");
    sandbox.printed("right", "returned 10").await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_key_that_the_policy_does_not_list_is_refused() -> Result<()> {
    let (sandbox, _, trust, right) = inside("external-unlisted").await?;
    let unlisted = key(&sandbox, "unlisted").await?;
    outside(&sandbox, &trust, &unlisted, &right).await?;
    sandbox.because("peer/laptop", "Ready", "False", "KeyMismatch").await?;
    let log = sandbox.printed("outside", "ended:").await?;
    ensure!(log.contains("KeyMismatch") && !log.contains("sent"), "{log}");
    sandbox.remove().await
}

const LEFT: &str = r#"
import numpy as np, sealane
with sealane.connect() as door:
    lane = door.sender("lane", timeout=90)
    lane.put(np.arange(1000), name="numbers")
    lane.close(timeout=60)
print("sent", flush=True)
"#;

const TAKES: &str = r#"
import sealane
with sealane.connect() as door:
    taken = [tensor.numpy().sum() for tensor in door.receiver("lane", timeout=120)]
assert taken == [499500], taken
print("took", len(taken), flush=True)
"#;

#[tokio::test]
async fn e2e_pod_with_a_key_from_its_secret_is_shown_as_a_key() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("key-pod").await?;
    let key = key(&sandbox, "left").await?;
    let mut declared = session("lane", "left", "right");
    declared[0]["spec"]["attestation"] = json!({"provider": "Key", "keySecretRef": {"name": "left-key"}});
    let secret = json!({"key.pem": key.pem});
    declared.push(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "left-key"}, "stringData": secret}),
    );
    sandbox.apply(declared).await?;
    let pinned = format!("left={}", key.public);
    let trust = sandbox.policy_with(&["--public-key", &pinned], Signing::Quorum, |_| ()).await?;
    sandbox.apply(vec![trust]).await?;
    // It waits for whom it sends to while its status is read: that is of replicas that live.
    sandbox.start(&Workload::new("left", "node1", LEFT)).await?;
    sandbox.because("peer/left", "TCBUpToDate", "Unknown", "NotApplicable").await?;
    let status = sandbox.read("peer/left").await?["status"].clone();
    ensure!(status["assurance"] == "Key" && status["platform"] == "Key", "{status:#}");
    sandbox.start(&Workload::new("right", "node2", TAKES)).await?;
    ensure!(sandbox.finish("right").await?.contains("took 1"));
    sandbox.finish("left").await?;
    sandbox.remove().await
}
