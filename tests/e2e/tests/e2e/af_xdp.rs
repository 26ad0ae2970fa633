//! Sessions over AF_XDP between pods on the host's network. A node's device has room for one XDP program, so those that
//! attach one say `node_device_`, which makes one run at a time (see `.config/nextest.toml`).

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use sealane_e2e::{
    Cluster, Load, Member, Sandbox, Signing, Workload, carried_by, every_kind, faults::SIDECAR, flow,
    ledger::Rules, peer, session, until,
};
use serde_json::{Value, json};

/// The webhook's answer for such a pod.
fn capabilities() -> Value {
    json!({"drop": ["ALL"], "add": ["BPF", "IPC_LOCK", "NET_ADMIN", "NET_RAW"]})
}

/// A namespace whose pods may be on the host's network, with these objects and a policy that permits their sessions.
async fn prepared(test: &str, objects: Vec<Value>) -> Result<Sandbox> {
    let sandbox = Cluster::connect()?.sandbox(test).await?;
    sandbox.open().await?;
    sandbox.apply(carried_by("AfXdp", objects)).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    Ok(sandbox)
}

async fn sidecar(sandbox: &Sandbox, pod: &str) -> Result<Value> {
    let seen = sandbox.pod(pod).await?;
    let containers = seen["spec"]["initContainers"].as_array().into_iter().flatten();
    containers.into_iter().find(|one| one["name"] == SIDECAR).cloned().with_context(|| seen.to_string())
}

/// Waits until `lane` is carried by `carrier`, in this mode.
async fn carried(sandbox: &Sandbox, lane: &str, carrier: &str, mode: Option<&str>) -> Result<()> {
    let lane = format!("transfersession/{lane}");
    sandbox.condition(&lane, "Ready", "True").await?;
    until(&format!("{lane} is carried by {carrier} {mode:?}"), || async {
        let seen = sandbox.read(&lane).await.map_err(|error| format!("{error:#}"))?;
        let status = &seen["status"];
        let carries = status["carrier"] == carrier && status["carrierMode"].as_str() == mode;
        if carries { Ok(()) } else { Err(status.to_string()) }
    })
    .await
}

/// The XDP programs on a node's devices.
async fn programs(cluster: &Cluster, node: &str) -> Result<BTreeSet<u64>> {
    let links: Vec<Value> =
        serde_json::from_str(&cluster.node(node, &["ip", "-json", "link", "show"]).await?)?;
    let id = |link: &Value| link["xdp"]["prog"]["id"].as_u64();
    Ok(links.iter().filter_map(id).collect())
}

/// Waits until the programs on a node's devices are as wanted.
async fn attached(
    cluster: &Cluster,
    node: &str,
    what: &str,
    wanted: impl Fn(&BTreeSet<u64>) -> bool,
) -> Result<BTreeSet<u64>> {
    until(&format!("{what} on {node}"), || async {
        let found = programs(cluster, node).await.map_err(|error| format!("{error:#}"))?;
        if wanted(&found) { Ok(found) } else { Err(format!("{found:?}")) }
    })
    .await
}

#[tokio::test]
async fn e2e_node_device_carries_tensors_of_every_kind_past_the_kernel() -> Result<()> {
    let sandbox = prepared("af-xdp", session("lane", "left", "right")).await?;
    let [left, right] = every_kind().map(Workload::on_host_network);
    sandbox.start(&right).await?;
    sandbox.start(&left).await?;
    for pod in ["left", "right"] {
        let container = sidecar(&sandbox, pod).await?;
        ensure!(container["securityContext"]["capabilities"] == capabilities(), "{container:#}");
        ensure!(container["securityContext"]["runAsUser"] == 0, "{container:#}");
    }
    carried(&sandbox, "lane", "AfXdp", Some("Generic")).await?;
    sandbox.all_arrived().await?;
    // It was no other carrier at any of its ends.
    carried(&sandbox, "lane", "AfXdp", Some("Generic")).await?;
    sandbox.condition("transfersession/lane", "Degraded", "False").await?;
    sandbox.remove().await
}

/// Sends a few tensors, waits until they were taken, and stays.
const FEW: &str = r#"
import numpy as np, sealane, time
with sealane.connect() as door:
    lane = door.sender("second", timeout=120)
    for n in range(20):
        lane.put(np.full((50_000,), n, np.int64), timeout=60)
    lane.flush(timeout=60)
    print("all were taken", flush=True)
    time.sleep(600)
"#;

const TAKE_FEW: &str = r#"
import numpy as np, sealane
with sealane.connect() as door:
    for n, tensor in enumerate(door.receiver("second", timeout=120)):
        assert (tensor.numpy() == np.full((50_000,), n, np.int64)).all(), n
"#;

#[tokio::test]
async fn e2e_node_device_is_free_after_a_kill_and_carries_for_one_sidecar() -> Result<()> {
    let mut objects = session("lane", "left", "right");
    objects.extend([peer("late"), peer("later"), flow("second", "late", "later")]);
    let sandbox = prepared("af-xdp-killed", objects).await?;
    let cluster = &sandbox.cluster;
    let members = [Member::receiver(0), Member::sender(0)].map(Member::on_host_network);
    let load = Load::start(&sandbox, &members).await?;
    carried(&sandbox, "lane", "AfXdp", Some("Generic")).await?;
    for pod in ["left-0", "right-0"] {
        powerless(&sandbox, pod).await?;
    }

    let before = attached(cluster, "node1", "one program", |found| found.len() == 1).await?;
    load.flows(40).await?;
    let restarts = sandbox.strike("left-0", SIDECAR).await?;
    attached(cluster, "node1", "nothing of the killed one", |found| found.is_disjoint(&before)).await?;
    sandbox.restarted("left-0", SIDECAR, restarts + 1).await?;
    let again = |found: &BTreeSet<u64>| found.len() == 1 && found.is_disjoint(&before);
    let own = attached(cluster, "node1", "the program of the one that was started anew", again).await?;
    load.flows(40).await?;
    carried(&sandbox, "lane", "AfXdp", Some("Generic")).await?;
    powerless(&sandbox, "left-0").await?;

    // Others on the same nodes find the devices occupied.
    for (app, node, program) in [("later", "node2", TAKE_FEW), ("late", "node1", FEW)] {
        sandbox.start(&Workload::new(app, node, program).on_host_network()).await?;
    }
    sandbox.printed("late", "all were taken").await?;
    carried(&sandbox, "second", "Udp", None).await?;
    let degraded =
        sandbox.because("transfersession/second", "Degraded", "True", "CarrierFallback").await?.to_string();
    ensure!(degraded.contains("CarrierFallback at pod `late`: "), "{degraded}");
    ensure!(programs(cluster, "node1").await? == own, "the first one keeps the device");
    carried(&sandbox, "lane", "AfXdp", Some("Generic")).await?;
    // A machine that is slow to start its sidecar anew may take longer than a receiver waits.
    load.settle(&Rules { away: [("left-0".to_owned(), 1)].into(), ..Rules::default() }).await?;
    sandbox.remove().await
}

/// Waits until no thread of the sidecar holds a capability; a probe that runs beside it does for a moment.
async fn powerless(sandbox: &Sandbox, pod: &str) -> Result<()> {
    until(&format!("the sidecar of {pod} holds no capability"), || async {
        let standing = sandbox.standing(pod, SIDECAR).await.map_err(|error| format!("{error:#}"))?;
        let of = |set: &str| -> Vec<u64> {
            let values = standing.lines().filter_map(|line| line.strip_prefix(set));
            values.map(|value| u64::from_str_radix(value.trim(), 16).unwrap_or(u64::MAX)).collect()
        };
        let sets = ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"].map(of);
        let none = |held: &Vec<u64>| !held.is_empty() && held.iter().all(|bits| *bits == 0);
        if sets.iter().all(none) { Ok(()) } else { Err(format!("{sets:x?}")) }
    })
    .await
}

#[tokio::test]
async fn inject_refuses_capabilities_in_a_namespace_that_forbids_them() -> Result<()> {
    let sandbox = prepared("af-xdp-refused", session("lane", "left", "right")).await?;
    let [left, right] = every_kind();
    for level in ["baseline", "restricted"] {
        sandbox.enforce(level).await?;
        let refused = sandbox.start(&left.clone().on_host_network()).await;
        let message = format!("{:#}", refused.expect_err("the sidecar would have capabilities"));
        for part in [
            "TransferSession `lane`",
            &format!("namespace `{}`", sandbox.name),
            level,
            "BPF, IPC_LOCK, NET_ADMIN, NET_RAW",
            "label the namespace `privileged`",
            "spec.carrier to Udp",
        ] {
            ensure!(message.contains(part), "{part}: {message}");
        }
    }
    // A pod with a network of its own is injected as ever.
    sandbox.start(&right).await?;
    let container = sidecar(&sandbox, "right").await?;
    ensure!(container["securityContext"]["capabilities"] == json!({"drop": ["ALL"]}), "{container:#}");
    sandbox.remove().await
}
