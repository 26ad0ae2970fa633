//! Faults of what the cluster itself keeps: its store's history, its API server, the operator's certificates. Their names
//! say `cluster_`, which makes them run alone.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sealane_e2e::{Cluster, Load, Member, Sandbox, Signing, ledger::Rules, loaded, until};
use serde_json::{Value, json};

/// Asks the store beside the API server; etcd speaks JSON as well (etcd.io/docs/v3.6/dev-guide/api_grpc_gateway).
async fn etcd(cluster: &Cluster, call: &str, body: &Value) -> Result<Value> {
    let (body, address) = (body.to_string(), format!("http://127.0.0.1:2379/v3/kv/{call}"));
    let words =
        ["busybox", "wget", "-q", "-O", "-", "--header", "Content-Type: application/json", "--post-data"];
    let told = cluster.node("control", &[&words[..], &[&body, &address]].concat()).await?;
    serde_json::from_str(&told).with_context(|| format!("etcd answered {told:?}"))
}

/// Forgets every version but the newest: whoever watches from an older one has to begin again.
async fn compact(cluster: &Cluster) -> Result<()> {
    let told = etcd(cluster, "range", &json!({"key": "Lw=="})).await?;
    let revision = told["header"]["revision"].as_str().context("a revision")?.to_owned();
    etcd(cluster, "compaction", &json!({"revision": revision, "physical": true})).await.map(drop)
}

/// Kills the API server, whose keeper starts it anew, and waits until it answers.
async fn restart_api_server(cluster: &Cluster) -> Result<()> {
    let script = r#"for process in /proc/[0-9]*; do
  read -r name < "$process/comm" 2> /dev/null || continue
  if [ "$name" = kube-apiserver ]; then echo "${process#/proc/}"; fi
done"#;
    let find = ["sh", "-c", script];
    let first = cluster.node("control", &find).await?.trim().to_owned();
    ensure!(!first.is_empty() && !first.contains(char::is_whitespace), "API servers: {first:?}");
    cluster.node("control", &["kill", "-KILL", &first]).await?;
    until("another API server answers", || async {
        let now = cluster.node("control", &find).await.map_err(|words| format!("{words:#}"))?;
        if now.trim().is_empty() || now.trim() == first {
            return Err(format!("API servers: {now:?}"));
        }
        cluster.kubectl(&["get", "--raw", "/readyz"]).await.map(drop).map_err(|words| format!("{words:#}"))
    })
    .await
}

/// Signs another epoch, and waits until every sidecar acts by it: the way from admission over the leader to the pods is
/// whole.
async fn next_epoch(sandbox: &Sandbox) -> Result<()> {
    let before = sandbox.read("trustpolicy/trust").await?["status"]["epoch"].as_u64();
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    let epoch = until("the next epoch is in force", || async {
        sandbox.apply(vec![trust.clone()]).await.map_err(|words| format!("{words:#}"))?;
        let seen = sandbox.read("trustpolicy/trust").await.map_err(|words| format!("{words:#}"))?;
        let epoch = seen["status"]["epoch"].as_u64();
        if epoch > before { Ok(epoch) } else { Err(seen["status"].to_string()) }
    })
    .await?;
    for name in ["left", "right"] {
        let object = format!("peer/{name}");
        until(&format!("{object} acts by epoch {epoch:?}"), || async {
            let seen = sandbox.read(&object).await.map_err(|words| format!("{words:#}"))?;
            let status = &seen["status"];
            if status["policyEpoch"].as_u64() == epoch { Ok(()) } else { Err(status.to_string()) }
        })
        .await?;
    }
    Ok(())
}

/// The authorities that pods trust, as the operator's Secret has them.
async fn authorities(release: &Sandbox) -> Result<String> {
    let words = ["get", "secret", "sealane-certificates", "-o", r"jsonpath={.data.ca\.crt}"];
    let found = release.kubectl(&words).await?;
    ensure!(!found.is_empty(), "the Secret holds no ca.crt");
    Ok(found)
}

/// Deletes the Secret, waits until it is there again, and has every sidecar connect once more, to another leader.
async fn lose_certificates(release: &Sandbox) -> Result<()> {
    let before = authorities(release).await?;
    release.kubectl(&["delete", "secret", "sealane-certificates"]).await?;
    let after = until("the Secret is written again", || async {
        authorities(release).await.map_err(|words| format!("{words:#}"))
    })
    .await?;
    ensure!(after == before, "pods that run do not trust the authority that took the place of theirs");
    let leader = ["delete", "pod", "-l", "sealane.dev/leader=true", "--wait"];
    release.kubectl(&leader).await.map(drop)
}

#[expect(clippy::print_stdout, reason = "how long it took is for people to see")]
fn told(what: &str, since: Instant) {
    println!("{what}: everything is in effect again after {:.1?}", since.elapsed());
}

#[tokio::test]
async fn e2e_fault_cluster_loses_its_history_its_api_server_and_the_certificates() -> Result<()> {
    let sandbox = loaded("store", "RoundRobin").await?;
    let members = [Member::receiver(0), Member::receiver(1), Member::sender(0), Member::sender(1)];
    let mut load = Load::start(&sandbox, &members).await?;
    load.flows(60).await?;
    let cluster = &sandbox.cluster;
    // What watched before the restart asks for versions that nobody has any more.
    let began = Instant::now();
    compact(cluster).await.context("compacting the store")?;
    restart_api_server(cluster).await?;
    load.flows(60).await?;
    next_epoch(&sandbox).await.context("after the API server was restarted")?;
    told("store compacted, API server restarted", began);
    let began = Instant::now();
    lose_certificates(&cluster.release()?).await?;
    next_epoch(&sandbox).await.context("after the certificates were lost")?;
    told("certificates lost, leader replaced", began);
    // And whoever comes now is let in.
    load.join(&Member::sender(2)).await?;
    load.until_more("left-2", "put", 20).await?;
    load.flows(60).await?;
    load.settle(&Rules::default()).await?;
    sandbox.remove().await
}
