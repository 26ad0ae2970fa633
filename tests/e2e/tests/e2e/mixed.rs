//! A fleet of mixed platforms: each judges the others in the terms of their platforms, under one signed policy.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Signing, Workload, flow, peer};

/// Sends to one Peer and takes from another.
const RELAY: &str = r#"
import threading
import numpy as np, sealane
OUT, IN, SENDER = @OUT@, @IN@, @SENDER@

def take():
    with sealane.connect() as door:
        for tensor in door.receiver(IN, timeout=120):
            assert (tensor.numpy() == np.arange(50_000)).all()
            assert tensor.sender.startswith(SENDER + "/"), tensor.sender
            print("took", tensor.name, "of", tensor.sender, flush=True)

taking = threading.Thread(target=take)
taking.start()
with sealane.connect() as door:
    lane = door.sender(OUT, timeout=120)
    lane.put(np.arange(50_000), name=OUT)
    lane.close(timeout=120)
taking.join()
print("done", flush=True)
"#;

/// Peer, the platform that its simulated one resembles, and its node.
const FLEET: [(&str, &str, &str); 3] =
    [("amd", "SevSnp", "node1"), ("intel", "Tdx", "node2"), ("amazon", "Nitro", "node1")];

#[tokio::test]
async fn e2e_three_platforms_stream_to_each_other_under_one_policy() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("mixed").await?;
    // In a ring, so that each sends to one and takes from the other.
    let ring = || FLEET.iter().zip(FLEET.iter().cycle().skip(1));
    let mut declared: Vec<_> = FLEET.iter().map(|(name, ..)| peer(name)).collect();
    declared.extend(ring().map(|((from, ..), (to, ..))| flow(&format!("{from}-{to}"), from, to)));
    sandbox.apply(declared).await?;
    let forms: Vec<_> = FLEET.iter().map(|(name, form, _)| format!("{name}={form}")).collect();
    let flags: Vec<_> = forms.iter().flat_map(|form| ["--simulated-form", form]).collect();
    let trust = sandbox.policy_with(&flags, Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    for ((name, form, node), (next, ..)) in ring() {
        let before = ring().find_map(|((from, ..), (to, ..))| (to == name).then_some(*from));
        let before = before.unwrap_or_default();
        let program = RELAY
            .replace("@OUT@", &format!("{:?}", format!("{name}-{next}")))
            .replace("@IN@", &format!("{:?}", format!("{before}-{name}")))
            .replace("@SENDER@", &format!("{before:?}"));
        sandbox.start(&Workload::new(name, node, &program).simulating(form)).await?;
    }
    for (name, form, _) in FLEET {
        let log = sandbox.finish(name).await?;
        ensure!(log.contains("took") && log.contains("done"), "{name} as {form}: {log}");
    }
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_status_says_what_a_simulation_resembles() -> Result<()> {
    const IDLE: &str = "import time\ntime.sleep(3600)\n";
    let sandbox = Cluster::connect()?.sandbox("resembles").await?;
    sandbox.apply(vec![peer("intel")]).await?;
    let trust = sandbox.policy_with(&["--simulated-form", "intel=Tdx"], Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.start(&Workload::new("intel", "node2", IDLE).simulating("Tdx")).await?;
    sandbox.condition("peer/intel", "Ready", "True").await?;
    let seen = sandbox.read("peer/intel").await?;
    ensure!(seen["status"]["platform"] == "Simulated", "{seen:#}");
    ensure!(seen["status"]["replicas"][0]["simulatedForm"] == "Tdx", "{seen:#}");
    let status = sandbox.cluster.plugin(&["status", "-n", &sandbox.name]).await?;
    ensure!(status.contains("Simulated (Tdx)"), "{status}");
    // A word that is no platform is refused at admission, and named.
    let odd = Workload::new("odd", "node1", IDLE).simulating("Sgx");
    let mut odd = odd.manifests(&sandbox.cluster.image);
    for object in &mut odd {
        object["metadata"]["labels"] = serde_json::json!({"app": "intel"});
    }
    let refused = sandbox.apply(odd).await.expect_err("an unknown form");
    ensure!(format!("{refused:#}").contains("sealane.dev/simulated-form"), "{refused:#}");
    sandbox.remove().await
}
