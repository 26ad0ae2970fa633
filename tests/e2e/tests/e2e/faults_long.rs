//! Faults that take longer to happen or to get over. `FULL=1 make test` runs them.

use anyhow::{Context, Result, ensure};
use sealane_e2e::{
    Load, Member, Signing,
    faults::{PROGRAM, SIDECAR, status},
    ledger::{Delivery, Entry, Role, Rules},
    loaded, named, until,
};
use serde_json::{Value, json};

#[tokio::test]
#[ignore = "long: three pods come and go"]
async fn e2e_fault_receiving_pods_are_deleted_under_load() -> Result<()> {
    let sandbox = loaded("pods-deleted", "RoundRobin").await?;
    let members =
        [Member::receiver(0), Member::receiver(1), Member::receiver(2), Member::sender(0), Member::sender(1)];
    let mut load = Load::start(&sandbox, &members).await?;
    load.flows(60).await?;
    // One without a word, one as a rollout does it.
    load.part("right-1");
    sandbox.kubectl(&["delete", "pod", "right-1", "--grace-period=0", "--force"]).await?;
    load.flows(60).await?;
    load.part("right-2");
    sandbox.kubectl(&["delete", "pod", "right-2", "--wait"]).await?;
    load.flows(60).await?;
    // A pod of the same name is another replica.
    load.join(&Member::receiver(1)).await?;
    load.flows(60).await?;
    let rules = Rules {
        gone: named(&["right-1", "right-2"]),
        lost: named(&["right-1", "right-2"]),
        redirected: true,
        ..Rules::default()
    };
    load.settle(&rules).await?;
    sandbox.remove().await
}

#[tokio::test]
#[ignore = "long: ten epochs"]
async fn e2e_fault_ten_policy_epochs_under_load() -> Result<()> {
    let sandbox = loaded("epochs", "RoundRobin").await?;
    let members = [Member::receiver(0), Member::receiver(1), Member::sender(0), Member::sender(1)];
    let load = Load::start(&sandbox, &members).await?;
    load.flows(60).await?;
    let first = epoch(&sandbox.read("trustpolicy/trust").await?).context("an epoch")?;
    for next in first + 1..=first + 10 {
        let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
        sandbox.apply(vec![trust]).await?;
        until(&format!("epoch {next}"), || async {
            let seen = sandbox.read("trustpolicy/trust").await.map_err(|error| format!("{error:#}"))?;
            if epoch(&seen) == Some(next) { Ok(()) } else { Err(seen["status"].to_string()) }
        })
        .await?;
        load.flows(20).await?;
    }
    sandbox.condition("transfersession/lane", "Ready", "True").await?;
    load.settle(&Rules::default()).await?;
    sandbox.remove().await
}

fn epoch(policy: &Value) -> Option<u64> {
    policy["status"]["epoch"].as_u64()
}

#[tokio::test]
#[ignore = "long: a session is suspended twice"]
async fn e2e_fault_session_is_suspended_and_goes_on() -> Result<()> {
    let sandbox = loaded("suspended", "RoundRobin").await?;
    let load = Load::start(&sandbox, &[Member::receiver(0), Member::sender(0)]).await?;
    load.flows(60).await?;
    for suspend in ["true", "false"] {
        let patch = format!(r#"{{"spec":{{"suspend":{suspend}}}}}"#);
        sandbox.kubectl(&["patch", "transfersession", "lane", "--type=merge", "-p", &patch]).await?;
        if suspend == "true" {
            sandbox.because("transfersession/lane", "Ready", "False", "SessionSuspended").await?;
        }
    }
    load.until_count("left-0", "error", 1).await?;
    load.until_count("right-0", "error", 1).await?;
    let rules = Rules { errors: named(&["Closed/SessionSuspended"]), ..Rules::default() };
    load.settle(&rules).await?;
    sandbox.remove().await
}

#[tokio::test]
#[ignore = "long: memory is filled"]
async fn e2e_fault_views_that_are_never_let_go_hold_the_sender_back() -> Result<()> {
    let sandbox = loaded("views", "RoundRobin").await?;
    let greedy = json!({"keeps": 100_000});
    let hasty = json!({"large_every": 3, "large": 16_000_000, "put_seconds": 3, "flush_every": 0});
    let load =
        Load::start(&sandbox, &[Member::receiver(0).plan(greedy), Member::sender(0).plan(hasty)]).await?;
    load.until_count("left-0", "refused", 2).await?;
    load.tell("right-0", "go").await?;
    load.flows(30).await?;
    ensure!(restarts(&sandbox.pod("right-0").await?) == 0, "a full arena is no reason to die");
    load.settle(&Rules { refusals: true, ..Rules::default() }).await?;
    sandbox.remove().await
}

fn restarts(pod: &Value) -> u64 {
    status(pod, SIDECAR).and_then(|status| status["restartCount"].as_u64()).unwrap_or(u64::MAX)
}

#[tokio::test]
#[ignore = "long: sidecars run out of memory"]
async fn e2e_fault_sidecar_that_is_out_of_memory_is_one_that_was_killed() -> Result<()> {
    let sandbox = loaded("memory", "RoundRobin").await?;
    // Less than the views of its application need: what the sidecar sets aside for them ends sooner than its life.
    let tight = json!({"sealane.dev/memory-limit": "96Mi", "sealane.dev/memory-request": "32Mi"});
    let greedy = Member::receiver(0).plan(json!({"keeps": 100_000})).annotated(tight);
    let large = json!({"large_every": 3, "large": 16_000_000, "flush_every": 0});
    let load = Load::start(&sandbox, &[greedy, Member::receiver(1), Member::sender(0).plan(large)]).await?;
    // Every third tensor that it is given is large, and it has room for two of those: it gets no further than the third.
    load.until_count("right-0", "took", 5).await?;
    ensure!(restarts(&sandbox.pod("right-0").await?) == 0, "a full arena is no reason to die");
    sandbox.starve("right-0", SIDECAR, 90_000_000).await?;
    until("the sidecar is out of memory", || async {
        let pod = sandbox.pod("right-0").await.map_err(|error| format!("{error:#}"))?;
        let status = status(&pod, SIDECAR).cloned().unwrap_or_default();
        let killed =
            ["state", "lastState"].iter().any(|state| status[*state]["terminated"]["reason"] == "OOMKilled");
        if killed { Ok(()) } else { Err(status.to_string()) }
    })
    .await?;
    load.tell("right-0", "go").await?;
    load.flows(30).await?;
    let rules = Rules { lost: named(&["right-0"]), redirected: true, ..Rules::default() };
    load.settle(&rules).await?;
    sandbox.remove().await
}

#[tokio::test]
#[ignore = "long: two Deployments are rolled over"]
async fn e2e_fault_deployments_are_rolled_over_under_load() -> Result<()> {
    let sandbox = loaded("rollout", "RoundRobin").await?;
    let image = sandbox.cluster.image.clone();
    let deployment = |member: Member| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": member.peer},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": member.peer}},
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": member.template(&image),
            },
        })
    };
    sandbox
        .apply(vec![sealane_e2e::programs(), deployment(Member::receiver(0)), deployment(Member::sender(0))])
        .await?;
    let mut load = Load::start(&sandbox, &[]).await?;
    let mut left = adopt_all(&mut load, &sandbox, "left", &[]).await?;
    let mut right = adopt_all(&mut load, &sandbox, "right", &[]).await?;
    load.flows(60).await?;
    let mut parted = Vec::new();
    for peer in ["left", "right"] {
        sandbox.kubectl(&["rollout", "restart", &format!("deployment/{peer}")]).await?;
        let old = if peer == "left" { &mut left } else { &mut right };
        let new = adopt_all(&mut load, &sandbox, peer, old).await?;
        sandbox.kubectl(&["rollout", "status", &format!("deployment/{peer}"), "--timeout=120s"]).await?;
        for pod in old.iter() {
            load.part(pod);
            sandbox.kubectl(&["wait", "--for=delete", &format!("pod/{pod}"), "--timeout=60s"]).await?;
        }
        parted.append(old);
        *old = new;
        load.flows(30).await?;
    }
    let gone: Vec<&str> = parted.iter().map(String::as_str).collect();
    let receivers: Vec<&str> = gone.iter().copied().filter(|pod| pod.starts_with("right")).collect();
    let rules = Rules { gone: named(&gone), lost: named(&receivers), redirected: true, ..Rules::default() };
    let books = load.settle(&rules).await?;
    let runs = books.iter().flat_map(|book| &book.runs);
    let closed = runs.filter(|run| run.role == Role::Sender && run.is_closed()).count();
    ensure!(closed == 4, "senders that are asked to end close their lanes: {closed} of 4 did");
    sandbox.remove().await
}

/// Adopts the two pods of a Deployment that are not among `known`; gives their names.
async fn adopt_all(
    load: &mut Load<'_>,
    sandbox: &sealane_e2e::Sandbox,
    peer: &str,
    known: &[String],
) -> Result<Vec<String>> {
    let names = until(&format!("two pods of {peer}"), || async {
        let selector = format!("app={peer}");
        let listed = sandbox.kubectl(&["get", "pods", "-l", &selector, "-o", "name"]).await;
        let listed = listed.map_err(|error| format!("{error:#}"))?;
        let names = listed.lines().filter_map(|line| line.strip_prefix("pod/")).map(str::to_owned);
        let names: Vec<String> = names.filter(|name| !known.contains(name)).collect();
        if names.len() == 2 { Ok(names) } else { Err(format!("{names:?}")) }
    })
    .await?;
    for name in &names {
        load.adopt(peer, name, peer == "right").await?;
    }
    Ok(names)
}

#[tokio::test]
#[ignore = "long: two Peers receive"]
async fn e2e_fault_one_of_two_receiving_peers_loses_a_replica() -> Result<()> {
    let sandbox = loaded("two-peers", "RoundRobin").await?;
    sandbox.apply(session_of_two()).await?;
    let trust = sandbox.policy(Signing::Quorum, |_| {}).await?;
    sandbox.apply(vec![trust]).await?;
    let members = [
        Member::receiver(0),
        Member::receiver(1),
        Member::receiver(0).of("third", 0),
        Member::receiver(0).of("third", 1),
        Member::sender(0),
    ];
    let load = Load::start(&sandbox, &members).await?;
    load.flows(60).await?;
    sandbox.kill("third-0", PROGRAM).await?;
    load.flows(60).await?;
    sandbox.kill("right-0", SIDECAR).await?;
    load.flows(60).await?;
    let rules = Rules { lost: named(&["right-0"]), redirected: true, ..Rules::default() };
    load.settle(&rules).await?;
    sandbox.remove().await
}

fn session_of_two() -> Vec<Value> {
    let mut objects = sealane_e2e::session("lane", "left", "third");
    objects[2]["spec"]["to"] = json!([{"peer": "right"}, {"peer": "third"}]);
    objects
}

#[tokio::test]
#[ignore = "long: a receiver of a broadcast dies"]
async fn e2e_fault_receivers_of_a_broadcast_die() -> Result<()> {
    let sandbox = loaded("broadcast", "Broadcast").await?;
    let members = [
        Member::receiver(0),
        Member::receiver(1).plan(json!({"dies": "after", "dies_at": 150})),
        Member::receiver(2),
        Member::sender(0).plan(json!({"waits": true})),
        Member::sender(1).plan(json!({"waits": true})),
    ];
    let load = Load::start(&sandbox, &members).await?;
    load.begin(6).await?;
    sandbox.restarted("right-1", PROGRAM, 1).await?;
    load.flows(60).await?;
    sandbox.kill("right-2", SIDECAR).await?;
    load.flows(60).await?;
    let rules = Rules {
        delivery: Delivery::Broadcast,
        lost: named(&["right-2"]),
        redirected: true,
        ..Rules::default()
    };
    let books = load.settle(&rules).await?;
    let doubts = books.iter().flat_map(|book| &book.runs).flat_map(|run| &run.entries);
    let doubts = doubts.filter(|(_, entry)| matches!(entry, Entry::Uncertain { .. })).count();
    ensure!(doubts > 0, "what died with a receiver is uncertain");
    sandbox.remove().await
}
