//! Faults that touch more than one namespace: the operator, the release, a node. Their names say `operator_`, `chart_`
//! or `node_`, which makes them run alone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sealane_e2e::{
    Load, Member, Outage, RELEASE, REPLICAS, Sandbox, Signing,
    faults::{SIDECAR, status},
    ledger::{Entry, Rules},
    loaded, until,
};
use serde_json::{Value, json};

use crate::outage;

/// How long nobody operates at a landing; `outage.rs` has ten minutes of it.
const MINUTE: Duration = Duration::from_secs(60);

fn crossing() -> Vec<Member> {
    vec![Member::receiver(0), Member::receiver(1), Member::sender(0), Member::sender(1)]
}

#[tokio::test]
async fn e2e_fault_operator_replicas_are_replaced_under_load() -> Result<()> {
    let sandbox = loaded("operator", "RoundRobin").await?;
    let mut load = Load::start(&sandbox, &crossing()).await?;
    load.flows(60).await?;
    let cluster = &sandbox.cluster;
    hand_over(&sandbox, "left-0").await?;
    load.flows(60).await?;
    let all = ["-n", RELEASE, "delete", "pod", "-l", REPLICAS];
    cluster.kubectl(&[&all[..], &["--grace-period=0", "--force"]].concat()).await?;
    load.flows(60).await?;
    cluster.rolled_out().await?;
    cluster.restart_release().await?;
    // A sidecar that comes back while nobody configures it has its last configuration.
    let (outage, began) = (Outage::begin(cluster).await?, Instant::now());
    sandbox.kill("left-0", SIDECAR).await?;
    load.until_more("left-0", "put", 60).await?;
    load.flows(60).await?;
    outage::pass(&sandbox, &mut load, began, MINUTE).await?;
    outage.end().await?;
    outage::over(&sandbox, &mut load, &["left-0"]).await?;
    load.flows(60).await?;
    // A machine that is slow to start its sidecar anew may take longer than a receiver waits.
    load.settle(&Rules { away: [("left-0".to_owned(), 1)].into(), ..Rules::default() }).await?;
    sandbox.remove().await
}

/// Asks the leader to go, and waits until the sidecar of `pod` is connected to another one.
#[expect(clippy::print_stdout, reason = "how long it took is for people to see")]
async fn hand_over(sandbox: &Sandbox, pod: &str) -> Result<()> {
    let streams = "sealane_control_streams_total";
    let (before, began) = (sandbox.counted(pod, streams).await?, Instant::now());
    let words = ["-n", RELEASE, "delete", "pod", "-l", "sealane.dev/leader=true", "--wait=false"];
    sandbox.cluster.kubectl(&words).await?;
    let asked = began.elapsed();
    until(&format!("the sidecar of {pod} is connected to another leader"), || async {
        let count = async |metric| sandbox.counted(pod, metric).await.map_err(|words| format!("{words:#}"));
        let (now, connected) = (count(streams).await?, count("sealane_control_connected").await?);
        let told = format!("{now} attempts after {before}, connected: {connected}");
        if now > before && connected > 0.0 { Ok(()) } else { Err(told) }
    })
    .await?;
    println!("the lease was handed over within {:.1?}, {asked:.1?} of it to ask", began.elapsed());
    Ok(())
}

/// Cuts node2 off for this long: what passes here is the fault itself, not a wait for something to happen.
async fn away(sandbox: &Sandbox, time: Duration) -> Result<()> {
    let cut = sandbox.cluster.cut_node2().await?;
    tokio::time::sleep(time).await;
    cut.heal().await
}

#[tokio::test]
async fn e2e_fault_node_is_cut_off_for_a_moment() -> Result<()> {
    let sandbox = loaded("cut-short", "RoundRobin").await?;
    let load = Load::start(&sandbox, &crossing()).await?;
    load.flows(60).await?;
    for seconds in [1, 5] {
        away(&sandbox, Duration::from_secs(seconds)).await?;
        load.flows(60).await?;
    }
    // Shorter than anybody's patience: nobody hears of it.
    load.settle(&Rules::default()).await?;
    sandbox.remove().await
}

#[tokio::test]
#[ignore = "long: a node is away for a minute"]
async fn e2e_fault_node_is_cut_off_and_comes_back() -> Result<()> {
    let sandbox = loaded("cut-long", "RoundRobin").await?;
    // A flush waits for receivers that are cut off, too: senders that go on putting do not flush before the end.
    let sender = |number| Member::sender(number).plan(json!({"flush_every": 0}));
    let mut members = vec![Member::receiver(0), Member::receiver(1), sender(0), sender(1)];
    // One that stays within reach of the senders, and one sender beyond.
    members.push(Member::receiver(2).on("node1"));
    members.push(sender(2).on("node2"));
    let load = Load::start(&sandbox, &members).await?;
    load.flows(60).await?;
    let cut = sandbox.cluster.cut_node2().await?;
    load.until_more("right-2", "took", 60).await?;
    // Longer than the 20 s after which silence is a cut, and the 15 s after which a cut is an interruption; and until
    // one who can be asked was told of it.
    tokio::time::sleep(Duration::from_secs(45)).await;
    load.until_count("right-2", "interrupted", 1).await?;
    cut.heal().await?;
    load.flows(60).await?;
    let away = ["left-0", "left-1", "left-2"].map(|pod| (pod.to_owned(), 1));
    let books = load.settle(&Rules { away: away.into(), ..Rules::default() }).await?;
    let told = books.iter().flat_map(|book| &book.runs).flat_map(|run| &run.entries);
    let told = told.filter(|(_, entry)| matches!(entry, Entry::Interrupted { .. }));
    ensure!(told.count() > 0, "receivers are told of senders that are away for longer than they wait");
    sandbox.remove().await
}

/// Names of the operators on each node, the leader's first.
async fn operators(sandbox: &Sandbox, node: &str) -> Result<Vec<(bool, String)>, String> {
    let words = ["-n", RELEASE, "get", "pods", "-l", "app.kubernetes.io/component=operator", "-o", "json"];
    let told = sandbox.cluster.kubectl(&words).await.map_err(|error| format!("{error:#}"))?;
    let told: Value = serde_json::from_str(&told).map_err(|error| error.to_string())?;
    let pods = told["items"].as_array().into_iter().flatten();
    let here = pods.filter(|pod| pod["spec"]["nodeName"] == node && pod["status"]["phase"] == "Running");
    let name = |pod: &Value| pod["metadata"]["name"].as_str().map(str::to_owned);
    let leads = |pod: &Value| pod["metadata"]["labels"]["sealane.dev/leader"] == "true";
    let mut found: Vec<_> = here.filter_map(|pod| Some((leads(pod), name(pod)?))).collect();
    found.sort_by(|one, other| other.cmp(one));
    Ok(found)
}

#[tokio::test]
#[ignore = "long: the leader's node is away until another operator leads"]
async fn e2e_fault_node_of_the_leading_operator_is_cut_off() -> Result<()> {
    let sandbox = loaded("cut-leader", "RoundRobin").await?;
    let members: Vec<Member> = crossing().into_iter().map(|member| member.on("node1")).collect();
    let load = Load::start(&sandbox, &members).await?;
    load.flows(60).await?;
    let cluster = &sandbox.cluster;
    until("the leader is on node2, and another operator on node1", || async {
        let (one, two) = (operators(&sandbox, "node1").await?, operators(&sandbox, "node2").await?);
        let moves = match (one.as_slice(), two.as_slice()) {
            ([(false, _)], [(true, _)]) => return Ok(()),
            // The leader is on node1, or both are on one node: those that are left lead, and the new one goes where
            // none is.
            ([(true, leader)], [_]) | ([(_, leader), _], []) => leader,
            ([], [_, (_, other)]) => other,
            _ => return Err(format!("on node1 {one:?}, on node2 {two:?}")),
        };
        let deleted = cluster.kubectl(&["-n", RELEASE, "delete", "pod", moves, "--wait"]).await;
        Err(deleted.unwrap_or_else(|error| format!("{error:#}")))
    })
    .await?;
    load.flows(60).await?;
    let before = connections_ended(&sandbox, &members).await?;
    let cut = cluster.cut_node2().await?;
    let told = without_the_leader(&sandbox, &load).await;
    cut.heal().await?;
    told?;
    let after = connections_ended(&sandbox, &members).await?;
    ensure!(before == after, "connections that ended before and after: {before:?}, {after:?}");
    // Whoever is on another node hears nothing of it: no connection ended, and nothing was lost or came twice.
    load.settle(&Rules::default()).await?;
    sandbox.remove().await
}

/// Established connections that are over, as the sidecar of each member counts them.
async fn connections_ended(sandbox: &Sandbox, members: &[Member]) -> Result<Vec<f64>> {
    let mut ended = Vec::new();
    for member in members {
        ended.push(sandbox.counted(&member.pod, "sealane_connections_ended_total").await?);
    }
    Ok(ended)
}

/// Until another operator leads, and what is declared then has come to every sidecar.
#[expect(clippy::print_stdout, reason = "how long it took is for people to see")]
async fn without_the_leader(sandbox: &Sandbox, load: &Load<'_>) -> Result<()> {
    let began = Instant::now();
    until("another operator leads", || async {
        let found = operators(sandbox, "node1").await?;
        if found.iter().any(|(leads, _)| *leads) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await?;
    let leads = began.elapsed();
    let before = sandbox.read("trustpolicy/trust").await?["status"]["epoch"].as_u64();
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    until("the next epoch is in force", || async {
        // Half of the webhook's replicas do not answer.
        let applied = sandbox.apply(vec![trust.clone()]).await;
        applied.map_err(|error| format!("{error:#}"))?;
        let status = sandbox.read("trustpolicy/trust").await.map_err(|error| format!("{error:#}"))?;
        let status = &status["status"];
        if status["epoch"].as_u64() > before { Ok(()) } else { Err(status.to_string()) }
    })
    .await?;
    println!("another operator leads after {leads:?}, and declares after {:?}", began.elapsed());
    load.flows(120).await
}

#[tokio::test]
#[ignore = "long: the release is upgraded and rolled back"]
async fn e2e_fault_chart_is_upgraded_under_load() -> Result<()> {
    let sandbox = loaded("upgrade", "RoundRobin").await?;
    let cluster = &sandbox.cluster;
    let mut load = Load::start(&sandbox, &crossing()).await?;
    load.flows(60).await?;
    let before = image_of(&sandbox, "left-0").await?;
    // The next release: the same programs under names that nobody has seen, as the version of an image is its name.
    let folder = tempfile::tempdir()?;
    let values = folder.path().join("values.json");
    let current = cluster.helm(&["get", "values", "sealane", "-o", "json", "-n", RELEASE]).await?;
    std::fs::write(&values, &current)?;
    let current: Value = serde_json::from_str(&current)?;
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/sealane");
    let values = values.to_string_lossy().into_owned();
    let mut words = vec!["upgrade", "sealane", chart, "-n", RELEASE, "--values", &values, "--wait"];
    words.extend(["--timeout", "180s"]);
    let mut settings = Vec::new();
    for (part, image) in [
        ("operator", "sealane-operator"),
        ("simulation", "sealane-sidecar-sim"),
        ("sidecar", "sealane-sidecar"),
    ] {
        let tag = current[part]["image"]["tag"].as_str().context("an image's tag")?;
        for node in ["node1", "node2"] {
            retag(&sandbox, node, image, tag).await?;
        }
        settings.push(format!("{part}.image.tag={tag}-next"));
    }
    let upgrade: Vec<&str> =
        words.iter().copied().chain(settings.iter().flat_map(|one| ["--set-string", one.as_str()])).collect();
    cluster.helm(&upgrade).await.context("upgrade")?;
    load.flows(60).await?;
    // Pods that begin now have the next sidecar, and those that run keep theirs: both speak with each other.
    load.join(&Member::receiver(2)).await?;
    load.join(&Member::sender(2)).await?;
    load.flows(60).await?;
    ensure!(image_of(&sandbox, "left-0").await? == before, "pods that run keep their sidecar");
    ensure!(image_of(&sandbox, "left-2").await? == format!("{before}-next"), "new pods have the next one");
    cluster.helm(&["rollback", "sealane", "-n", RELEASE, "--wait", "--timeout", "180s"]).await?;
    load.flows(60).await?;
    load.settle(&Rules::default()).await?;
    sandbox.remove().await
}

async fn retag(sandbox: &Sandbox, node: &str, image: &str, tag: &str) -> Result<()> {
    let (old, new) = (format!("localhost/{image}:{tag}"), format!("localhost/{image}:{tag}-next"));
    let words = ["ctr", "--namespace", "k8s.io", "images", "tag", "--force", &old, &new];
    sandbox.cluster.node(node, &words).await.map(drop)
}

async fn image_of(sandbox: &Sandbox, pod: &str) -> Result<String> {
    let pod = sandbox.pod(pod).await?;
    let containers = pod["spec"]["initContainers"].as_array().context("a sidecar")?;
    let sidecar = containers.iter().find(|container| container["name"] == SIDECAR).context("a sidecar")?;
    ensure!(status(&pod, SIDECAR).is_some_and(|status| status["restartCount"] == 0), "{}", pod["status"]);
    Ok(sidecar["image"].as_str().unwrap_or_default().to_owned())
}
