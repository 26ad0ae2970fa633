//! The operator's own life.

use anyhow::{Context, Result, ensure};
use sealane_e2e::{Cluster, until};
use serde_json::Value;

const NAMESPACE: &str = "sealane-system";

async fn leader(cluster: &Cluster) -> Result<String, String> {
    let text = cluster
        .kubectl(&["-n", NAMESPACE, "get", "pods", "-l", "sealane.dev/leader=true", "-o", "json"])
        .await
        .map_err(|error| format!("{error:#}"))?;
    let pods: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let names: Vec<&str> = pods["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        .filter_map(|pod| pod["metadata"]["name"].as_str())
        .collect();
    match names.as_slice() {
        [one] => Ok((*one).to_owned()),
        others => Err(format!("leaders: {others:?}")),
    }
}

#[tokio::test]
async fn e2e_operator_survives_the_loss_of_its_leader() -> Result<()> {
    let cluster = Cluster::connect()?;
    let first = until("one leader", || leader(&cluster)).await?;
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "pod", &first, "--grace-period=0", "--force"])
        .await
        .context("killing the leader")?;
    let second = until("another leader", || async {
        let now = leader(&cluster).await?;
        if now == first { Err(now) } else { Ok(now) }
    })
    .await?;
    ensure!(first != second);
    cluster.rolled_out().await
}
