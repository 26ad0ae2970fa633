//! What people and pods notice while every process of the release is gone, and afterwards. The test of a minute is in
//! `faults_alone.rs`, where a load is there anyhow.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use sealane_e2e::{
    Load, Member, Outage, Sandbox,
    faults::{SIDECAR, status},
    ledger::Rules,
    loaded, until,
};
use serde_json::{Value, json};

/// So long before the end others ask for pods: controllers of Kubernetes try again after pauses that double, so whoever
/// asked long before waits as long again.
const NOTICE: Duration = Duration::from_secs(10);

/// A Deployment whose pod is asked for while nobody can admit it.
const LATE: &str = "late";

/// Lets the rest of an outage that began at `began` pass under the load. Pods that are asked for meanwhile are refused in
/// words that say by whom and why.
pub(crate) async fn pass(
    sandbox: &Sandbox,
    load: &mut Load<'_>,
    began: Instant,
    time: Duration,
) -> Result<()> {
    tokio::time::sleep(time.saturating_sub(began.elapsed() + NOTICE)).await;
    let Err(words) = load.join(&Member::sender(7)).await else {
        anyhow::bail!("a pod was admitted while nobody could give it the sidecar");
    };
    clear(&format!("{words:#}"))?;
    let mut template = Member::sender(8).template(&sandbox.cluster.image);
    template["metadata"]["labels"]["late"] = "yes".into();
    let late = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": LATE},
        "spec": {"selector": {"matchLabels": {"late": "yes"}}, "template": template},
    });
    sandbox.apply(vec![late]).await?;
    let failure = sandbox.because("deployment/late", "ReplicaFailure", "True", "FailedCreate").await?;
    clear(failure["message"].as_str().unwrap_or_default())?;
    tokio::time::sleep(time.saturating_sub(began.elapsed())).await;
    // What ran before runs all the while.
    load.flows(20).await
}

fn clear(words: &str) -> Result<()> {
    for part in ["inject.sealane.dev", "sealane-webhook"] {
        ensure!(words.contains(part), "`{part}` is not in the refusal: {words}");
    }
    Ok(())
}

/// What was asked for meanwhile starts by itself and sends, and nothing that ran was started anew but `restarted`.
pub(crate) async fn over(sandbox: &Sandbox, load: &mut Load<'_>, restarted: &[&str]) -> Result<()> {
    let name = until("the pod that was refused is there", || async {
        let listed = sandbox.kubectl(&["get", "pods", "-l", "late=yes", "-o", "name"]).await;
        let listed = listed.map_err(|words| format!("{words:#}"))?;
        let name = listed.lines().find_map(|line| line.strip_prefix("pod/")).map(str::to_owned);
        name.ok_or_else(|| "no pod of Deployment late".to_owned())
    })
    .await?;
    load.adopt("left", &name, false).await?;
    load.until_count(&name, "put", 20).await?;
    for object in ["peer/left", "peer/right", "transfersession/lane"] {
        sandbox.condition(object, "Ready", "True").await?;
    }
    let pods = sandbox.kubectl(&["get", "pods", "-o", "json"]).await?;
    let pods: Value = serde_json::from_str(&pods)?;
    for pod in pods["items"].as_array().context("pods")? {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let restarts = status(pod, SIDECAR).and_then(|status| status["restartCount"].as_u64());
        ensure!(restarts == Some(0) || restarted.contains(&name), "{name}: {}", pod["status"]);
    }
    Ok(())
}

const MINUTES: Duration = Duration::from_secs(600);

#[tokio::test]
#[ignore = "long: nobody operates for ten minutes"]
async fn e2e_fault_operator_replicas_are_gone_for_ten_minutes() -> Result<()> {
    let sandbox = loaded("ten-minutes", "RoundRobin").await?;
    let members = [Member::receiver(0), Member::receiver(1), Member::sender(0), Member::sender(1)];
    let mut load = Load::start(&sandbox, &members).await?;
    load.flows(60).await?;
    let (outage, began) = (Outage::begin(&sandbox.cluster).await?, Instant::now());
    pass(&sandbox, &mut load, began, MINUTES).await?;
    // Whoever reads a status knows that nobody writes it.
    for object in ["peer/left", "transfersession/lane", "trustpolicy/trust"] {
        let status = sandbox.read(object).await?["status"].clone();
        let until: Timestamp = status["staleAfter"].as_str().context("staleAfter")?.parse()?;
        ensure!(until < Timestamp::now(), "{object} still looks up to date: {status}");
    }
    outage.end().await?;
    over(&sandbox, &mut load, &[]).await?;
    load.flows(60).await?;
    load.settle(&Rules::default()).await?;
    sandbox.remove().await
}
