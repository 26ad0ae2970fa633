//! How sessions follow the life of what sends and receives, and of the objects around them.

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, peer, session, until};
use serde_json::{Value, json};

use crate::stream::endless;

/// Sends the number in its pod's name, unless it is told to fail.
const SEND: &str = r#"
import os, pathlib, sys
import numpy as np, sealane
if pathlib.Path("/program/fails").exists():
    sys.exit("it is told to fail")
with sealane.connect() as door:
    lane = door.sender("lane", timeout=120)
    lane.put(np.arange(8), name=os.environ["HOSTNAME"])
    lane.close(timeout=120)
print("sent", flush=True)
"#;

const TAKE: &str = r#"
import sealane
with sealane.connect() as door:
    for tensor in door.receiver("lane", timeout=120):
        print("took", tensor.name, flush=True)
print("ended", flush=True)
"#;

async fn declared(sandbox: &Sandbox) -> Result<()> {
    sandbox.apply(session("lane", "left", "right")).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    Ok(())
}

/// The workload's pod as what a Job makes.
fn job(workload: &Workload, image: &str) -> Vec<Value> {
    let mut manifests = workload.manifests(image);
    let pod = &manifests[1];
    let template = json!({"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]});
    manifests[1] = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": workload.name},
        "spec": {"backoffLimit": 4, "template": template},
    });
    manifests
}

#[tokio::test]
async fn e2e_job_that_fails_once_and_then_succeeds_is_complete() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("retried").await?;
    declared(&sandbox).await?;
    sandbox.start(&Workload::new("right", "node2", TAKE)).await?;
    let failing = Workload::new("left", "node1", SEND).file("fails", "yes");
    sandbox.apply(job(&failing, &cluster.image)).await?;
    until("the Job's first pod has failed", || async {
        let job = sandbox.read("job/left").await.map_err(|error| format!("{error:#}"))?;
        let failed = job["status"]["failed"].as_u64().unwrap_or(0) > 0;
        if failed { Ok(()) } else { Err(job["status"].to_string()) }
    })
    .await?;
    sandbox.because("transfersession/lane", "Failed", "False", "SendersActive").await?;
    // Whatever it makes from now on does its work.
    let program = Workload::new("left", "node1", SEND).manifests(&cluster.image).swap_remove(0);
    sandbox.apply(vec![program]).await?;
    sandbox.because("transfersession/lane", "Complete", "True", "SendersSucceeded").await?;
    let log = sandbox.finish("right").await?;
    ensure!(log.contains("took left-") && log.contains("ended"), "{log}");
    for name in ["left", "right"] {
        sandbox.because(&format!("peer/{name}"), "Ready", "True", "Finished").await?;
    }
    let status = sandbox.read("transfersession/lane").await?["status"].clone();
    ensure!(status["phase"] == "Complete" && status["tensorsTransferred"] == 1, "{status:#}");
    // And so it stays without the Job and its pods.
    sandbox.kubectl(&["delete", "job/left", "pod/right", "--wait"]).await?;
    sandbox.because("transfersession/lane", "Ready", "True", "Complete").await?;
    sandbox.because("peer/right", "Ready", "True", "Finished").await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_receivers_wait_for_a_sender_that_is_late() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("late").await?;
    declared(&sandbox).await?;
    let mut early = Workload::new("left", "node1", SEND);
    early.name = "left-0".to_owned();
    let mut late = Workload::new("left", "node2", SEND);
    late.name = "left-1".to_owned();
    let mut manifests = late.manifests(&cluster.image);
    // It is there, and no node has it yet.
    manifests[1]["spec"]["schedulingGates"] = json!([{"name": "sealane.dev/late"}]);
    sandbox.apply(manifests).await?;
    sandbox.start(&Workload::new("right", "node2", TAKE)).await?;
    sandbox.start(&early).await?;
    sandbox.printed("right", "took left-0").await?;
    sandbox.finish("left-0").await?;
    let open = json!([{"op": "remove", "path": "/spec/schedulingGates"}]).to_string();
    sandbox.kubectl(&["patch", "pod/left-1", "--type=json", "--patch", &open]).await?;
    sandbox.finish("left-1").await?;
    let log = sandbox.finish("right").await?;
    ensure!(log.contains("took left-1") && log.ends_with("ended\n"), "{log}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_second_peer_of_the_same_pods_takes_nothing() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("second-peer").await?;
    endless(&sandbox).await?;
    sandbox.printed("right", "took 50").await?;
    let twin = |label: &str, value: &str| {
        let mut twin = peer("twin");
        twin["spec"]["selector"] = json!({"matchLabels": {(label): value}});
        twin
    };
    let refused = sandbox.apply(vec![twin("app", "left")]).await.expect_err("its pods have a Peer");
    let words = format!("{refused:#}");
    ensure!(words.contains("pod `left` belongs to Peer `left` already"), "{words}");
    // What admission cannot know is a condition of the younger one.
    sandbox.apply(vec![twin("tier", "both")]).await?;
    sandbox.kubectl(&["label", "pod", "left", "tier=both"]).await?;
    let ready = sandbox.because("peer/twin", "Ready", "False", "Conflict").await?;
    ensure!(ready["message"].as_str().is_some_and(|words| words.contains("`left` and `twin`")), "{ready}");
    sandbox.condition("peer/left", "Ready", "True").await?;
    let mut other = Workload::new("left", "node1", "print()");
    other.name = "other".to_owned();
    let mut manifests = other.manifests(&cluster.image);
    manifests[1]["metadata"]["labels"]["tier"] = json!("both");
    let refused = sandbox.apply(manifests).await.expect_err("two Peers select it");
    let words = format!("{refused:#}");
    ensure!(words.contains("`left` and `twin`"), "{words}");
    let log = sandbox.kubectl(&["logs", "right", "-c", "program"]).await?;
    let taken = log.lines().filter_map(|line| line.strip_prefix("took ")?.parse::<u64>().ok()).max();
    let log = sandbox.printed("right", &format!("took {}", taken.unwrap_or(50) + 100)).await?;
    ensure!(!log.contains("ended") && !log.contains("interrupted"), "{log}");
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_policy_that_is_made_anew_by_others_shows() -> Result<()> {
    let cluster = Cluster::connect()?;
    let sandbox = cluster.sandbox("anew").await?;
    endless(&sandbox).await?;
    sandbox.printed("right", "took 50").await?;
    sandbox.condition("peer/left", "Ready", "True").await?;
    sandbox.kubectl(&["delete", "trustpolicy", "trust", "--wait"]).await?;
    for object in ["peer/left", "peer/right", "transfersession/lane"] {
        sandbox.because(object, "Ready", "False", "PolicyMissing").await?;
    }
    let mut others = cluster.release()?;
    others.name.clone_from(&sandbox.name);
    let without = |draft: &mut Value| draft["sessions"].as_array_mut().expect("sessions").clear();
    let trust = others.policy(Signing::Quorum, without).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.condition("trustpolicy/trust", "Verified", "True").await?;
    for name in ["left", "right"] {
        let object = format!("peer/{name}");
        let verified = sandbox.because(&object, "PolicyVerified", "False", "PolicyUnderSigned").await?;
        let words = verified["message"].as_str().unwrap_or_default();
        ensure!(words.contains("make the pod again"), "{verified}");
        sandbox.because(&object, "Ready", "False", "PolicyUnderSigned").await?;
    }
    sandbox.because("transfersession/lane", "Ready", "False", "SessionNotInPolicy").await?;
    sandbox.remove().await
}
