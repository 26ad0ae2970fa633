//! The release's life: upgrade, rollback, uninstall, reinstall. These tests own the whole release and run alone.

use anyhow::{Context, Result, ensure};
use sealane_e2e::{Cluster, session};

const RELEASE: &[&str] = &["--namespace", "sealane-system"];

fn chart() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/sealane").to_owned()
}

/// The values that the release runs with now, in a file for the next install.
async fn values(cluster: &Cluster, folder: &std::path::Path) -> Result<String> {
    let mut words = vec!["get", "values", "sealane", "-o", "json"];
    words.extend(RELEASE);
    let file = folder.join("values.json");
    std::fs::write(&file, cluster.helm(&words).await?)?;
    Ok(file.to_string_lossy().into_owned())
}

async fn helm(cluster: &Cluster, words: &[&str]) -> Result<String> {
    let mut all = words.to_vec();
    all.extend(RELEASE);
    cluster.helm(&all).await
}

async fn admission_works(cluster: &Cluster, test: &str) -> Result<()> {
    for configuration in
        ["mutatingwebhookconfiguration/sealane-inject", "validatingwebhookconfiguration/sealane-validate"]
    {
        let filled = "--for=jsonpath={.webhooks[0].clientConfig.caBundle}";
        cluster.kubectl(&["wait", configuration, filled, "--timeout=120s"]).await?;
    }
    let sandbox = cluster.sandbox(test).await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    sandbox.remove().await
}

#[tokio::test]
async fn chart_upgrades_rolls_back_and_comes_back_with_kept_resources() -> Result<()> {
    let cluster = Cluster::connect()?;
    let folder = tempfile::tempdir()?;
    let values = values(&cluster, folder.path()).await?;
    let upgrade = ["upgrade", "sealane", &chart(), "--values", &values, "--wait", "--timeout", "180s"];

    let mut louder = upgrade.to_vec();
    louder.extend(["--set", "operator.logLevel=debug"]);
    helm(&cluster, &louder).await.context("first upgrade")?;
    helm(&cluster, &upgrade).await.context("second upgrade")?;
    admission_works(&cluster, "chart-upgrade").await?;

    helm(&cluster, &["rollback", "sealane", "--wait", "--timeout", "180s"]).await.context("rollback")?;
    admission_works(&cluster, "chart-rollback").await?;

    let sandbox = cluster.sandbox("chart-kept").await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    helm(&cluster, &["uninstall", "sealane", "--wait", "--timeout", "180s"]).await.context("uninstall")?;
    let kept = sandbox.read("peer/left").await.context("Peers outlive the release")?;
    ensure!(kept["kind"] == "Peer", "{kept}");
    let install = ["install", "sealane", &chart(), "--values", &values, "--wait", "--timeout", "180s"];
    helm(&cluster, &install).await.context("reinstall with kept resources")?;
    admission_works(&cluster, "chart-reinstall").await?;
    sandbox
        .condition("peer/left", "Ready", "False")
        .await
        .context("the new operator reconciles what was kept")?;
    helm(&cluster, &["test", "sealane", "--timeout", "120s"]).await.context("helm test")?;
    sandbox.remove().await
}
