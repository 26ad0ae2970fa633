//! What breaks under a load, while ledgers are kept: nothing comes twice, nothing is silently lost.

use anyhow::{Result, ensure};
use sealane_e2e::{
    Load, Member, Sandbox,
    faults::{PROGRAM, SIDECAR},
    ledger::{Delivery, Entry, Rules},
    loaded, named, until,
};
use serde_json::json;

fn pairs() -> Vec<Member> {
    vec![Member::receiver(0), Member::receiver(1), Member::sender(0), Member::sender(1)]
}

#[tokio::test]
async fn e2e_fault_sidecar_of_a_sender_is_killed() -> Result<()> {
    let sandbox = loaded("sidecar-sends", "RoundRobin").await?;
    let load = Load::start(&sandbox, &pairs()).await?;
    load.flows(60).await?;
    // Thrice, so that the blows fall at different moments of the same load: also while its lanes are being restored.
    for _ in 0..3 {
        sandbox.kill("left-0", SIDECAR).await?;
        load.until_more("left-0", "put", 40).await?;
    }
    sandbox.strike("left-0", SIDECAR).await?;
    // A machine that is slow to start it anew may take longer than a receiver waits.
    load.settle(&Rules { away: [("left-0".to_owned(), 4)].into(), ..Rules::default() }).await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_fault_sidecar_of_a_receiver_is_killed() -> Result<()> {
    let sandbox = loaded("sidecar-takes", "RoundRobin").await?;
    let load = Load::start(&sandbox, &pairs()).await?;
    load.flows(60).await?;
    for _ in 0..3 {
        sandbox.kill("right-0", SIDECAR).await?;
        load.flows(40).await?;
    }
    let rules = Rules { lost: named(&["right-0"]), redirected: true, ..Rules::default() };
    load.settle(&rules).await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_fault_applications_are_killed() -> Result<()> {
    let sandbox = loaded("applications", "RoundRobin").await?;
    let before = json!({"dies": "before", "dies_at": 80});
    let after = json!({"dies": "after", "dies_at": 120});
    let members = [
        Member::receiver(0),
        Member::receiver(1).plan(before),
        Member::receiver(2).plan(after),
        Member::sender(0),
        Member::sender(1),
    ];
    let load = Load::start(&sandbox, &members).await?;
    for pod in ["right-1", "right-2"] {
        sandbox.restarted(pod, PROGRAM, 1).await?;
    }
    load.flows(40).await?;
    for _ in 0..2 {
        sandbox.kill("left-0", PROGRAM).await?;
        load.until_more("left-0", "put", 40).await?;
    }
    sandbox.kill("right-1", PROGRAM).await?;
    load.flows(40).await?;
    let books = load.settle(&Rules { redirected: true, ..Rules::default() }).await?;
    let runs = books.iter().map(|book| book.runs.len()).collect::<Vec<_>>();
    ensure!(runs.iter().sum::<usize>() == 10, "five pods and five deaths: {runs:?}");
    sandbox.remove().await
}

/// Waits until Peer `name` says that a sidecar's clock cannot be right.
async fn suspects_a_clock(sandbox: &Sandbox, name: &str) -> Result<()> {
    until(&format!("peer/{name} says ClockSuspect in {}", sandbox.name), || async {
        let peer = sandbox.read(&format!("peer/{name}")).await.map_err(|words| format!("{words:#}"))?;
        let conditions = peer["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let degraded = conditions.into_iter().find(|one| one["type"] == "Degraded").unwrap_or_default();
        if degraded.to_string().contains("ClockSuspect") { Ok(()) } else { Err(degraded.to_string()) }
    })
    .await
}

#[tokio::test]
async fn e2e_fault_clocks_of_sidecars_step_by_five_minutes() -> Result<()> {
    let sandbox = loaded("clocks", "RoundRobin").await?;
    let members = [
        Member::receiver(0).with_stepped_clock(),
        Member::receiver(1),
        Member::sender(0).with_stepped_clock(),
        Member::sender(1),
    ];
    let mut load = Load::start(&sandbox, &members).await?;
    load.flows(40).await?;
    load.step("left-0", 300).await?;
    load.flows(40).await?;
    // Whoever comes meanwhile proves itself to a clock that is minutes ahead of its own.
    load.join(&Member::receiver(2)).await?;
    load.flows(40).await?;
    // Back, which is a step of five minutes into the past of what was certain.
    load.step("left-0", 0).await?;
    suspects_a_clock(&sandbox, "left").await?;
    load.step("right-0", -300).await?;
    suspects_a_clock(&sandbox, "right").await?;
    load.flows(40).await?;
    load.step("right-0", 300).await?;
    load.join(&Member::sender(2)).await?;
    load.until_more("left-2", "put", 20).await?;
    load.flows(40).await?;
    // Nobody was told of anything but clocks.
    load.settle(&Rules::default()).await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_fault_stalled_receiver_of_a_broadcast_is_dropped_and_the_others_go_on() -> Result<()> {
    let sandbox = loaded("stalled", "Broadcast").await?;
    let still = json!({"holds_still_at": 50});
    let large = json!({"large_every": 3, "large": 8_000_000, "flush_every": 0, "waits": true});
    let members = [
        Member::receiver(0),
        Member::receiver(1).plan(still),
        Member::receiver(2),
        Member::sender(0).plan(large),
    ];
    let mut load = Load::start(&sandbox, &members).await?;
    load.begin(3).await?;
    load.until_count("right-1", "still", 1).await?;
    // It holds everybody up until it is dropped, and then nobody any more.
    sandbox.condition("transfersession/lane", "Degraded", "True").await?;
    load.until_more("right-0", "took", 200).await?;
    load.until_more("right-2", "took", 200).await?;
    // It takes what it has and hears that the rest does not come; nobody tells it of an end.
    load.tell("right-1", "go").await?;
    load.until_count("right-1", "interrupted", 1).await?;
    load.part("right-1");
    let rules = Rules {
        delivery: Delivery::Broadcast,
        gone: named(&["right-1"]),
        // It may be let in again and take the end of the stream before it is parted with.
        lost: named(&["right-1"]),
        // Once each time that it is dropped, which happens again if it is let in again before it goes on.
        away: [("left-0".to_owned(), 8)].into(),
        ..Rules::default()
    };
    load.settle(&rules).await?;
    sandbox.remove().await
}

#[tokio::test]
async fn e2e_fault_slow_and_still_receivers_hold_their_sender_back() -> Result<()> {
    let sandbox = loaded("slow", "RoundRobin").await?;
    let slow = json!({"pause": 0.03, "holds_still_at": 150});
    let hasty = json!({"large_every": 5, "large": 16_000_000, "put_seconds": 3, "flush_every": 0});
    let members = [
        Member::receiver(0).plan(slow),
        Member::receiver(1).plan(json!({"holds_still_at": 30})),
        Member::sender(0).plan(hasty),
    ];
    let load = Load::start(&sandbox, &members).await?;
    // One takes nothing any more: the slow one still gets its tensors. Then nobody does, and put says so.
    load.until_count("right-1", "still", 1).await?;
    load.until_count("right-0", "still", 1).await?;
    load.until_count("left-0", "refused", 1).await?;
    load.tell("right-0", "go").await?;
    load.tell("right-1", "go").await?;
    let books = load.settle(&Rules { refusals: true, ..Rules::default() }).await?;
    let entries = books.iter().flat_map(|book| &book.runs).flat_map(|run| &run.entries);
    let waits = entries.map(|(_, entry)| match entry {
        Entry::Put { waited, .. } => *waited,
        _ => 0.0,
    });
    let longest = waits.fold(0.0, f64::max);
    ensure!(longest > 0.1, "put never waited for the receivers: {longest} s at most");
    sandbox.remove().await
}
