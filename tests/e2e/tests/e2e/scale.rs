//! One operator under 200 Peers, 2,000 TransferSessions and 500 sidecars: what it needs, how fast it tells everybody,
//! and how often it writes. The API server, admission, tokens and control channel are real; the pods are not: they are
//! bound to a node that no machine stands behind, and one program speaks for all of their sidecars. `SEALANE_SCALE_PODS` asks
//! for another number of them.

mod admission;
mod fleet;
mod measure;
mod state;
mod world;

use std::time::Duration;

use anyhow::{Result, ensure};
use sealane_e2e::{Cluster, Signing};
use serde_json::{Value, json};

use self::admission::Admission;
use self::fleet::{Fleet, Moment, Seen};
use self::measure::{Operator, Writes, percentile};
use self::world::{PEERS, SESSIONS, World};

/// How long the operator is watched, in each state.
const MINUTE: Duration = Duration::from_secs(60);
/// Statuses whose counters alone changed, per second (`operator/src/limits.rs`), and room for conditions that turn.
const COUNTER_WRITES_PER_MINUTE_MAX: u64 = 20 * 60;
const OTHER_WRITES_PER_MINUTE_MAX: u64 = 60;
/// A policy change has to reach everybody in a time in which owners would wait for it, on a busy machine too.
const PUSH_MILLIS_MAX: u64 = 60_000;
const PUSH_MILLIS_OF_EACH: u64 = 30;
/// What the chart gives the operator, which is for as many sidecars as are the default here.
const MEMORY_MIB_MAX: u64 = 512;
const MEMORY_PODS_MAX: usize = 500;

#[tokio::test]
#[ignore = "long: hundreds of pods and thousands of objects"]
async fn scale_of_one_operator() -> Result<()> {
    let cluster = Cluster::connect()?;
    world::clean(&cluster).await?;
    let measured = measure(&cluster).await;
    // Whatever came of it: a node that nobody stands behind is in everybody's way.
    world::clean(&cluster).await?;
    measured
}

async fn measure(cluster: &Cluster) -> Result<()> {
    let world = World::build(cluster).await?;
    let operator = Operator::find(cluster).await?;
    let writes = Writes::watch(&world).await?;
    let before = operator.usage()?;

    let admission = Admission::offer(&world)?;
    let mut fleet = Fleet::start(&world).await?;
    let began = Moment::now();
    let seen = fleet.wait(|seen| seen.iter().all(|sidecar| world.is_complete(sidecar))).await?;
    let held_by_all =
        seen.iter().filter_map(|sidecar| sidecar.complete).max().map_or(0, |at| at.since(began));
    let offered_attaching = admission.end();
    writes.settle().await;
    let attached = operator.usage()?;

    let admission = Admission::offer(&world)?;
    let (push, pushed) = push(&world, &mut fleet).await?;
    let offered_pushing = admission.end();
    let after_push = operator.usage()?;
    writes.settle().await;

    let idle = writes.during(MINUTE).await;
    let idle_cpu = operator.cpu_during(Duration::from_secs(10)).await?;
    fleet.say("load").await?;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let loaded = writes.during(MINUTE).await;
    let loaded_cpu = operator.cpu_during(Duration::from_secs(30)).await?;
    let (push_loaded, _) = self::push(&world, &mut fleet).await?;
    let after = operator.usage()?;
    fleet.end().await?;

    let report = json!({
        "peers": PEERS, "sessions": SESSIONS, "sidecars": world.pods,
        "podAdmissionMillis": {"p50": percentile(&world.admissions, 50), "max": percentile(&world.admissions, 100)},
        "heldByAllMillis": held_by_all,
        "attachCpuSeconds": attached.cpu_seconds - before.cpu_seconds,
        "policyPushMillis": summary(&push), "policyPushUnderLoadMillis": summary(&push_loaded),
        "pushCpuSeconds": after_push.cpu_seconds - attached.cpu_seconds,
        "pushBytes": {"p50": percentile(&pushed, 50), "max": percentile(&pushed, 100)},
        "admissionMillis": {"attaching": offered_attaching.summary(), "pushing": offered_pushing.summary()},
        "configurationBytes": {"p50": percentile(&sizes(&seen), 50), "max": percentile(&sizes(&seen), 100)},
        "statusWritesPerMinute": {"idle": idle, "counting": loaded,
                                  "bound": COUNTER_WRITES_PER_MINUTE_MAX + OTHER_WRITES_PER_MINUTE_MAX},
        "cores": {"idle": idle_cpu, "counting": loaded_cpu},
        "residentMib": {"before": before.resident_mib, "attached": attached.resident_mib,
                        "after": after.resident_mib, "peak": after.peak_mib},
    });
    show(&report)?;

    ensure!(idle <= OTHER_WRITES_PER_MINUTE_MAX, "{idle} status writes in a minute in which nothing changed");
    let bound = COUNTER_WRITES_PER_MINUTE_MAX + OTHER_WRITES_PER_MINUTE_MAX;
    ensure!(loaded <= bound, "{loaded} status writes in a minute of counting; at most {bound} are allowed");
    ensure!(loaded > 0, "counters never reached a status");
    let pushed_by = PUSH_MILLIS_MAX.max(u64::try_from(world.pods)? * PUSH_MILLIS_OF_EACH);
    for push in [&push, &push_loaded] {
        ensure!(
            push.len() == world.pods && percentile(push, 100) <= pushed_by,
            "the policy reached {} of {}",
            push.len(),
            world.pods
        );
    }
    for offered in [&offered_attaching, &offered_pushing] {
        ensure!(offered.failures.is_empty(), "pods were not admitted meanwhile: {:?}", offered.failures);
    }
    let fits = after.peak_mib < MEMORY_MIB_MAX || world.pods > MEMORY_PODS_MAX;
    ensure!(fits, "{} MiB are more than the chart gives", after.peak_mib);
    Ok(())
}

/// Applies the next epoch; milliseconds until each sidecar has it, and the bytes that told it.
async fn push(world: &World<'_>, fleet: &mut Fleet) -> Result<(Vec<u64>, Vec<u64>)> {
    let manifest = world.sandbox.policy(Signing::Quorum, |draft| {
        draft["epoch"] = Value::from(world.next_epoch());
    });
    let manifest = manifest.await?;
    let document = manifest["spec"]["document"].as_str().unwrap_or_default().to_owned();
    let began = Moment::now();
    world.replace_policy(&manifest).await?;
    let seen = fleet.wait(|seen| seen.iter().all(|sidecar| sidecar.holds(&document))).await?;
    Ok((seen.iter().map(|sidecar| sidecar.policy_since.since(began)).collect(), sizes(&seen)))
}

fn sizes(seen: &[Seen]) -> Vec<u64> {
    seen.iter().map(|sidecar| sidecar.bytes).collect()
}

fn summary(millis: &[u64]) -> Value {
    json!({"p50": percentile(millis, 50), "p95": percentile(millis, 95), "max": percentile(millis, 100)})
}

fn show(report: &Value) -> Result<()> {
    let text = serde_json::to_string_pretty(report)?;
    #[expect(clippy::print_stdout, reason = "the figures are what the test is for")]
    {
        println!("{text}");
        for (name, value) in report.as_object().into_iter().flatten() {
            println!("{name:28} {value}");
        }
    }
    if let Some(folder) = std::env::var_os("OUT") {
        std::fs::create_dir_all(&folder)?;
        std::fs::write(std::path::Path::new(&folder).join("scale.json"), text)?;
    }
    Ok(())
}

/// The program that speaks for all sidecars; [`Fleet::start`] runs it inside a node, where the operator is reached as
/// sidecars reach it.
#[tokio::test]
#[ignore = "a part of scale_of_one_operator"]
async fn scale_fleet() -> Result<()> {
    match std::env::var_os(fleet::VARIABLE) {
        Some(file) => fleet::run(file.as_ref()).await,
        None => Ok(()),
    }
}
