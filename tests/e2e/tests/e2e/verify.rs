//! Replicas that are asked themselves, through the API server's port forward.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, session};
use serde_json::{Value, json};

const IDLE: &str = "import time\ntime.sleep(3600)\n";

/// Makes an auditor's key; its path, and its public half.
async fn auditor(sandbox: &Sandbox, folder: &Path, name: &str) -> Result<(String, Value)> {
    let key = folder.join(name).to_string_lossy().into_owned();
    let words = ["policy", "keygen", "--auditor", "--out", &key, "-o", "json"];
    let made = sandbox.cluster.plugin(&words).await?;
    let made: Value = serde_json::from_str(&made).context("policy keygen")?;
    Ok((key, made["publicKey"].clone()))
}

#[tokio::test]
async fn e2e_auditors_verify_replicas_themselves() -> Result<()> {
    let sandbox = Cluster::connect()?.sandbox("verify").await?;
    let folder = tempfile::tempdir()?;
    let (listed, public) = auditor(&sandbox, folder.path(), "listed.pem").await?;
    let (unlisted, _) = auditor(&sandbox, folder.path(), "unlisted.pem").await?;
    sandbox.apply(session("lane", "embedder", "ranker")).await?;
    let trust =
        sandbox.policy(Signing::Quorum, |draft| draft["auditors"] = json!({"publicKeys": [public]})).await?;
    // What the owners gave to the auditor; the cluster has no part in it.
    let policy = folder.path().join("trust.json").to_string_lossy().into_owned();
    std::fs::write(&policy, trust.to_string())?;
    sandbox.apply(vec![trust]).await?;
    for (app, node) in [("embedder", "node1"), ("ranker", "node2")] {
        sandbox.start(&Workload::new(app, node, IDLE)).await?;
    }
    // A Peer is ready with its sidecars; a port is forwarded to pods that run.
    for object in ["peer/embedder", "peer/ranker", "pod/embedder"] {
        sandbox.condition(object, "Ready", "True").await?;
    }

    let verify = ["verify", "embedder", "-n", &sandbox.name, "--simulated", "-o", "json", "--key"];
    let asked =
        |more: &[&str]| [verify.as_slice(), more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    let given = sandbox.cluster.plugin_outcome(&asked(&[&listed, "--policy", &policy])).await?;
    ensure!(given.code == Some(0), "{given:?}");
    let report: Value = serde_json::from_str(&given.stdout)?;
    ensure!(
        report["verdict"] == "PassedDegraded" && report["policy"]["roots"]["from"] == "Policy",
        "{report:#}"
    );
    let pods = report["pods"].as_array().context("pods")?;
    ensure!(pods.len() == 1 && pods[0]["pod"] == "embedder", "{report:#}");
    let checks = pods[0]["checks"].as_array().context("checks")?;
    let measurement = checks.iter().find(|check| check["check"] == "measurement").context("a measurement")?;
    let status = sandbox.read("peer/embedder").await?;
    let reported = status["status"]["replicas"][0]["measurement"].as_str().context("a measurement")?;
    ensure!(measurement["seen"].as_str().is_some_and(|seen| seen.contains(reported)), "{measurement}");

    let warned = sandbox.cluster.plugin_outcome(&asked(&[&listed])).await?;
    ensure!(warned.code == Some(0) && warned.stderr.contains("trusts its control plane"), "{warned:?}");

    let refused = sandbox.cluster.plugin_outcome(&asked(&[&unlisted, "--policy", &policy])).await?;
    ensure!(refused.code == Some(1), "{refused:?}");
    ensure!(refused.stdout.contains("AuditorUnknown") && refused.stdout.contains("--auditor"), "{refused:?}");
    sandbox.remove().await
}
