//! Benchmarks on the nodes of the cluster. Their names say `node_`: they label nodes, so that one runs at a time, and those
//! that drain a node or judge a speed run alone (see `.config/nextest.toml`).

use anyhow::{Context, Result, ensure};
use sealane_e2e::{Cluster, Sandbox, Signing, Workload, session, until};
use serde_json::{Value, json};

const RELEASE: &str = "sealane-system";
const POOL: &str = "sealane.dev/e2e-pool";
/// Long enough to be met in the middle.
const LONG: (&str, &[&str]) = ("Quick", &["Frame", "Crypto"]);
/// As short as it gets.
const SHORT: (&str, &[&str]) = ("Smoke", &["Frame"]);

/// The release's namespace, with a pool for each node, and nothing of an earlier run.
async fn pools(name: &str) -> Result<Sandbox> {
    let cluster = Cluster::connect()?;
    cluster
        .kubectl(&["-n", RELEASE, "delete", "slb", name, "--ignore-not-found", "--cascade=foreground"])
        .await?;
    cluster.kubectl(&["uncordon", "node1", "node2"]).await?;
    cluster.kubectl(&["label", "node", "node1", &format!("{POOL}=one"), "--overwrite"]).await?;
    cluster.kubectl(&["label", "node", "node2", &format!("{POOL}=two"), "--overwrite"]).await?;
    cluster.release()
}

async fn apply(release: &Sandbox, name: &str, length: (&str, &[&str]), more: Value) -> Result<()> {
    let (level, suites) = length;
    let mut spec = json!({
        "nodePools": {"key": POOL}, "suites": suites, "level": level, "activeDeadlineSeconds": 300,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    let benchmark = json!({
        "apiVersion": "sealane.dev/v1alpha1", "kind": "Benchmark", "metadata": {"name": name}, "spec": spec,
    });
    release.apply(vec![benchmark]).await.map(|_| ())
}

/// Jobs, pods and Secrets of a Benchmark.
async fn made(release: &Sandbox, name: &str) -> Result<String> {
    let label = format!("sealane.dev/benchmark={name}");
    release.kubectl(&["get", "jobs,pods,secrets", "-l", &label, "-o", "name"]).await
}

/// Removes a Benchmark, and waits until nothing of it is left.
async fn remove(release: &Sandbox, name: &str) -> Result<()> {
    release.kubectl(&["delete", "slb", name]).await?;
    until("nothing is left", || async {
        let left = made(release, name).await.map_err(|error| format!("{error:#}"))?;
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    })
    .await
}

/// Waits until a pod of the Benchmark measures `node`.
async fn measuring(release: &Sandbox, name: &str, node: &str) -> Result<String> {
    let label = format!("sealane.dev/benchmark={name}");
    let field = format!("spec.nodeName={node},status.phase=Running");
    until(&format!("{node} is measured"), || async {
        let words = ["get", "pods", "-l", &label, "--field-selector", &field, "-o", "name"];
        let pods = release.kubectl(&words).await.map_err(|error| format!("{error:#}"))?;
        pods.lines().next().map(str::to_owned).ok_or_else(|| "no pod".to_owned())
    })
    .await
}

#[tokio::test]
async fn e2e_node_pools_are_measured_once_and_told() -> Result<()> {
    let name = "once";
    let release = pools(name).await?;
    apply(&release, name, SHORT, json!({})).await?;
    release.because("slb/once", "Complete", "True", "RunSucceeded").await?;
    let status = release.read("slb/once").await?["status"].clone();
    let pools = status["pools"].as_array().context("no pools")?;
    let names: Vec<&str> = pools.iter().filter_map(|pool| pool["name"].as_str()).collect();
    ensure!(names == ["one", "two"], "{status}");
    for pool in pools {
        ensure!(pool["figures"][0]["value"].as_str().is_some_and(|value| value.contains(' ')), "{pool}");
        ensure!(pool["cpu"].as_str().is_some_and(|cpu| !cpu.is_empty()), "{pool}");
    }
    // One run for a generation, and its key is gone with it.
    ensure!(status["runs"].as_array().map(Vec::len) == Some(1), "{status}");
    let secrets =
        release.kubectl(&["get", "secrets", "-l", "sealane.dev/benchmark=once", "-o", "name"]).await?;
    ensure!(secrets.trim().is_empty(), "{secrets}");
    let results = release.read("configmap/once-results").await?;
    let run = status["runs"][0]["id"].as_str().context("no run")?;
    let record = results["data"][format!("{run}.json")].as_str().context("no record")?;
    ensure!(record.contains("sealane-result/1 "), "{record}");
    // Asked for again, it runs again.
    release.kubectl(&["annotate", "slb", name, "sealane.dev/run=again"]).await?;
    until("a second run", || async {
        let status = release.read("slb/once").await.map_err(|error| format!("{error:#}"))?["status"].clone();
        if status["runs"].as_array().map(Vec::len) == Some(2) { Ok(()) } else { Err(status.to_string()) }
    })
    .await?;
    remove(&release, name).await
}

#[tokio::test]
async fn e2e_node_pairs_are_measured_with_a_server_and_a_client() -> Result<()> {
    let name = "pairs";
    let release = pools(name).await?;
    let pairs =
        json!({"pairs": ["SameNode", "AcrossPools"], "compareWith": ["Plaintext", "Rustls", "Quinn"]});
    apply(&release, name, ("Smoke", &["Transport"]), pairs).await?;
    release.because("slb/pairs", "Complete", "True", "RunSucceeded").await?;
    let status = release.read("slb/pairs").await?["status"].clone();
    // Two nodes by themselves, two with themselves, and one with the other.
    ensure!(status["runs"][0]["nodes"] == "5/5", "{status}");
    let pairs = status["pairs"].as_array().context("no pairs")?;
    let names: Vec<&str> = pairs.iter().filter_map(|pair| pair["name"].as_str()).collect();
    ensure!(names == ["one → two", "one, one node", "two, one node"], "{names:?}");
    for pair in pairs {
        let rows = pair["figures"].as_array().context("no figures")?;
        let rows: Vec<&str> = rows.iter().filter_map(|figure| figure["row"].as_str()).collect();
        for carrier in ["Tcp", "Udp"] {
            let row = format!("transport/{carrier}+ChaCha20Poly1305");
            ensure!(rows.contains(&row.as_str()), "{rows:?}");
        }
        ensure!(rows.contains(&"transport/Tcp+Aes256Gcm@rustls-buffered"), "{rows:?}");
        ensure!(rows.contains(&"transport/Tcp+Aes256Gcm@quinn"), "{rows:?}");
    }
    // Servers end with their clients.
    let jobs = ["get", "jobs", "-l", "sealane.dev/benchmark=pairs", "-o", "json"];
    until("no Job goes on", || async {
        let told = release.kubectl(&jobs).await.map_err(|error| format!("{error:#}"))?;
        let jobs: Value = serde_json::from_str(&told).map_err(|error| error.to_string())?;
        let active =
            jobs["items"].as_array().into_iter().flatten().filter(|job| job["status"]["active"] == 1);
        match active.count() {
            0 => Ok(()),
            count => Err(format!("{count} go on")),
        }
    })
    .await?;
    remove(&release, name).await
}

/// That its hour begins a run is decided by the operator's own tests, whose clock is theirs.
#[tokio::test]
async fn e2e_node_benchmark_with_a_schedule_begins_when_it_is_asked_to() -> Result<()> {
    let name = "yearly";
    let release = pools(name).await?;
    let one = json!({"schedule": "0 0 1 1 *", "nodePools": {"key": POOL, "names": ["one"]}});
    apply(&release, name, SHORT, one).await?;
    release.because("slb/yearly", "Scheduled", "True", "OnSchedule").await?;
    let status = release.read("slb/yearly").await?["status"].clone();
    ensure!(
        status["nextScheduleTime"].as_str().is_some_and(|time| time.ends_with("-01-01T00:00:00Z")),
        "{status}"
    );
    release.kubectl(&["annotate", "slb", name, "sealane.dev/run=now"]).await?;
    release.because("slb/yearly", "Complete", "True", "RunSucceeded").await?;
    let status = release.read("slb/yearly").await?["status"].clone();
    ensure!(status["lastScheduleTime"].is_null() && status["lastRequest"] == "now", "{status}");
    release.kubectl(&["patch", "slb", name, "--type=merge", "-p", r#"{"spec":{"suspend":true}}"#]).await?;
    release.because("slb/yearly", "Scheduled", "False", "Suspended").await?;
    remove(&release, name).await
}

#[tokio::test]
#[ignore = "long: waits for the next full minute"]
async fn e2e_node_benchmark_begins_on_its_schedule() -> Result<()> {
    let name = "minutely";
    let release = pools(name).await?;
    apply(
        &release,
        name,
        SHORT,
        json!({"schedule": "* * * * *", "nodePools": {"key": POOL, "names": ["one"]}}),
    )
    .await?;
    release.because("slb/minutely", "Scheduled", "True", "OnSchedule").await?;
    release.because("slb/minutely", "Complete", "True", "RunSucceeded").await?;
    let status = release.read("slb/minutely").await?["status"].clone();
    ensure!(status["lastScheduleTime"].as_str().is_some_and(|time| time.ends_with(":00Z")), "{status}");
    release.kubectl(&["patch", "slb", name, "--type=merge", "-p", r#"{"spec":{"suspend":true}}"#]).await?;
    release.because("slb/minutely", "Scheduled", "False", "Suspended").await?;
    remove(&release, name).await
}

#[tokio::test]
async fn e2e_node_benchmark_outlives_the_operator_and_a_deleted_one_leaves_nothing() -> Result<()> {
    let name = "survivor";
    let release = pools(name).await?;
    apply(&release, name, LONG, json!({})).await?;
    measuring(&release, name, "node1").await?;
    let operators =
        ["delete", "pod", "-l", "app.kubernetes.io/component=operator", "--grace-period=0", "--force"];
    release.kubectl(&operators).await?;
    release.because("slb/survivor", "Complete", "True", "RunSucceeded").await?;
    let status = release.read("slb/survivor").await?["status"].clone();
    ensure!(status["runs"][0]["nodes"] == "2/2", "{status}");
    release.cluster.rolled_out().await?;
    // Another run, which is deleted in the middle.
    release.kubectl(&["annotate", "slb", name, "sealane.dev/run=again"]).await?;
    measuring(&release, name, "node2").await?;
    remove(&release, name).await
}

#[tokio::test]
async fn e2e_node_drained_in_the_middle_fails_its_run_and_says_so() -> Result<()> {
    let name = "drained";
    let release = pools(name).await?;
    apply(&release, name, LONG, json!({})).await?;
    measuring(&release, name, "node2").await?;
    let drain = ["drain", "node2", "--pod-selector=sealane.dev/benchmark=drained", "--delete-emptydir-data"];
    let drained = release.kubectl(&drain).await;
    let outcome = async {
        drained?;
        release.because("slb/drained", "Complete", "False", "RunFailed").await?;
        release.because("slb/drained", "Degraded", "True", "PoolUnusable").await?;
        let status = release.read("slb/drained").await?["status"].clone();
        ensure!(status["runs"][0]["nodes"] == "1/2", "{status}");
        let message = status["runs"][0]["message"].as_str().unwrap_or_default();
        ensure!(message.contains("node2"), "{message}");
        anyhow::Ok(())
    };
    let outcome = outcome.await;
    release.kubectl(&["uncordon", "node2"]).await?;
    outcome?;
    release.because("slb/drained", "Degraded", "False", "AsDeclared").await?;
    remove(&release, name).await
}

/// Waits until a run other than `before` is over, and says which.
async fn another(release: &Sandbox, name: &str, before: &str) -> Result<String> {
    until("another run is over", || async {
        let status =
            release.read(&format!("slb/{name}")).await.map_err(|error| format!("{error:#}"))?["status"]
                .clone();
        match status["runs"][0]["id"].as_str() {
            Some(run) if run != before => Ok(run.to_owned()),
            _ => Err(status.to_string()),
        }
    })
    .await
}

/// A machine that is busy cannot tell; whoever runs Benchmarks would ask again.
const TRIES: usize = 12;

/// AES without the CPU's instructions for it and for GHASH (bits 57 and 33 of OPENSSL_ia32cap).
const WITHOUT_AES: &str = "~0x0200000200000000";

#[tokio::test]
#[ignore = "long: speeds that are measured decide it"]
async fn e2e_node_that_became_slower_is_a_regression() -> Result<()> {
    let name = "slower";
    let release = pools(name).await?;
    let pool = json!({"key": POOL, "names": ["one"]});
    let regression = json!({"tolerancePercent": 30, "against": "Baseline"});
    let spec = json!({"nodePools": pool, "regression": regression, "suites": ["Frame"]});
    apply(&release, name, LONG, spec.clone()).await?;
    release.because("slb/slower", "Complete", "True", "RunSucceeded").await?;
    release.because("slb/slower", "Regressed", "Unknown", "NotCompared").await?;
    let first = another(&release, name, "").await?;
    // Another generation is another run.
    let mut slower = spec;
    slower["env"] = json!([{"name": "OPENSSL_ia32cap", "value": WITHOUT_AES}]);
    apply(&release, name, LONG, slower).await?;
    let mut run = another(&release, name, &first).await?;
    for attempt in 1..TRIES {
        let conditions = release.read("slb/slower").await?["status"]["conditions"].clone();
        let told = conditions.as_array().into_iter().flatten();
        if told.into_iter().any(|one| one["type"] == "Regressed" && one["status"] == "True") {
            break;
        }
        let again = format!("sealane.dev/run={attempt}");
        release.kubectl(&["annotate", "slb", name, &again, "--overwrite"]).await?;
        run = another(&release, name, &run).await?;
    }
    let condition = release.because("slb/slower", "Regressed", "True", "Worse").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    ensure!(message.contains("in pool one") && message.contains("% worse"), "{message}");
    let events =
        release.kubectl(&["get", "events", "--field-selector", "reason=Worse", "-o", "name"]).await?;
    ensure!(!events.trim().is_empty(), "no event tells of it");
    let namespace = ["-n", RELEASE].map(str::to_owned);
    let words = [&["bench", "compare", name].map(str::to_owned)[..], &namespace[..]].concat();
    let outcome = release.cluster.plugin_outcome(&words).await?;
    ensure!(outcome.code == Some(1) && outcome.stdout.contains("WORSE"), "{outcome:?}");
    remove(&release, name).await
}

/// A tensor now and then, for as long as the session is there.
const SENDER: &str = r#"
import numpy as np, sealane, time
with sealane.connect() as door:
    lane = door.sender("lane", timeout=120)
    while True:
        lane.put(np.arange(16), timeout=60)
        time.sleep(0.2)
"#;

const RECEIVER: &str = r#"
import sealane
with sealane.connect() as door:
    for tensor in door.receiver("lane", timeout=120):
        pass
"#;

/// Nodes on which AES is slow, as far as anybody has measured, and a session between two of them that leaves its transport
/// open.
#[tokio::test]
#[ignore = "long: speeds that are measured decide it"]
async fn e2e_node_figures_choose_carrier_and_cipher_of_a_session_that_leaves_them_open() -> Result<()> {
    let name = "chooser";
    let release = pools(name).await?;
    let slow = json!([{"name": "OPENSSL_ia32cap", "value": WITHOUT_AES}]);
    // One pool, of which one node is measured: the two nodes are one machine, and would measure each other.
    let follow = json!({"follow": true});
    let spec = json!({"nodePools": {"key": "Auto"}, "env": slow, "recommendation": follow});
    apply(&release, name, ("Quick", &["Transport"]), spec).await?;
    let mut run = another(&release, name, "").await?;
    for attempt in 1..TRIES {
        let pool = release.read("slb/chooser").await?["status"]["pools"][0].clone();
        if pool["recommended"]["cipher"] == "ChaCha20Poly1305" {
            break;
        }
        let again = format!("sealane.dev/run={attempt}");
        release.kubectl(&["annotate", "slb", name, &again, "--overwrite"]).await?;
        run = another(&release, name, &run).await?;
    }
    let condition = release.because("slb/chooser", "Recommended", "True", "Recommended").await?;
    let message = condition["message"].as_str().unwrap_or_default();
    ensure!(message.contains("pool all: Tcp+ChaCha20Poly1305"), "{message}");
    // Both carriers were measured; a row that the machine was too busy for is told.
    let pool = release.read("slb/chooser").await?["status"]["pools"][0].clone();
    let measured = pool["transports"].as_array().into_iter().flatten();
    let ignored = pool["ignored"].as_array().into_iter().flatten();
    let is_of_udp = |row: &Value| row["row"].as_str().is_some_and(|row| row.starts_with("transport/Udp+"));
    let known =
        measured.filter(|one| one["carrier"] == "Udp").count() + ignored.filter(|one| is_of_udp(one)).count();
    ensure!(known == 3, "{pool:#}");

    let sandbox = release.cluster.sandbox("chooser").await?;
    sandbox.apply(session("lane", "left", "right")).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    sandbox.start(&Workload::new("right", "node2", RECEIVER)).await?;
    sandbox.start(&Workload::new("left", "node1", SENDER)).await?;
    sandbox.condition("transfersession/lane", "Ready", "True").await?;
    let status = sandbox.read("transfersession/lane").await?["status"].clone();
    ensure!(status["cipher"] == "ChaCha20Poly1305", "{status:#}");
    let told = &status["recommended"];
    ensure!(told["cipher"] == "ChaCha20Poly1305" && told["megabytesPerSecond"].is_i64(), "{told:#}");
    ensure!(status["carrier"] == told["carrier"], "{status:#}");
    let reason = told["reason"].as_str().unwrap_or_default();
    ensure!(reason.contains("sealane-system/chooser") && reason.contains("pool all"), "{reason}");

    // Without the Benchmark nothing is known, and the connection that is open stays.
    remove(&release, name).await?;
    until("nothing is recommended", || async {
        let read = sandbox.read("transfersession/lane").await.map_err(|error| format!("{error:#}"))?;
        let told = read["status"]["recommended"].clone();
        if told["cipher"].is_null() && told["reason"].is_string() { Ok(()) } else { Err(told.to_string()) }
    })
    .await?;
    let status = sandbox.read("transfersession/lane").await?["status"].clone();
    ensure!(status["cipher"] == "ChaCha20Poly1305" && status["phase"] == "Active", "{status:#}");
    sandbox.remove().await
}
