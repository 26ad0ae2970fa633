//! Sessions end when what they rest on does.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sealane_fixtures::keys::OTHER_AUTHORITY;
use sealane_sidecar::evidence::{Platforms, Provider, ProviderError, ProviderInput};
use sealane_simulated::Material;
use sealane_simulated::forge::{Dates, Recipe};
use sealane_types::{Product, Reason};
use serde_json::json;

use crate::client::{Receiver, parcel, passing_on, sender};
use crate::collateral::refused_from_now_on;
use crate::support::wall_clock::{LIFETIME, TestClock, now};
use crate::support::{Plan, Sidecar, document, provider, signed, until, within};

/// A chip whose certificate expires soon.
fn expiring_chip() -> &'static Material {
    static CHIP: OnceLock<Material> = OnceLock::new();
    CHIP.get_or_init(|| {
        let validity = Dates { from: now() - Duration::from_secs(60), until: now() + LIFETIME };
        OTHER_AUTHORITY.issue(&Recipe { validity, ..Recipe::new(Product::Genoa).unwrap() }).unwrap()
    })
}

fn open(input: &ProviderInput) -> Result<Arc<dyn Provider>, ProviderError> {
    Ok(provider(expiring_chip(), input))
}

#[tokio::test]
async fn evidence_that_expires_ends_its_sessions() {
    let mut document = document(1);
    for peer in ["embedder", "ranker"] {
        document["peers"][peer]["entries"][0]["root"] = json!(expiring_chip().fingerprint().to_string());
    }
    let (chain, clock) = (signed(&document, &[1, 2]), TestClock::default());
    let plan = |plan: Plan| Plan {
        chain: chain.clone(),
        clock: clock.clone(),
        platforms: Platforms::production().with_simulated(open),
        ..plan
    };
    let receiver = plan(Plan::receiver()).start();
    let from = plan(Plan::sender(&[receiver.address])).start();
    let (_lane, _events) = sender(&from.lanes).await;
    clock.advance(LIFETIME);
    let expired = [Reason::CollateralExpired, Reason::EvidenceExpired];
    let ended = |sidecar: &Sidecar| {
        let metrics = sidecar.node.render_metrics().unwrap();
        let mut ended = metrics.lines().filter(|line| line.starts_with("sealane_connections_ended_total"));
        ended.any(|line| !line.ends_with(" 0") && expired.iter().any(|reason| line.contains(reason.as_str())))
    };
    until("the end of the connection", || ended(&from) || ended(&receiver)).await;
    // And no other takes its place.
    let reason = refused_from_now_on(&from).await;
    assert!(expired.contains(&reason), "{reason}");
}

/// How often a tensor is put while something else is waited for.
pub(crate) const PACE: Duration = Duration::from_millis(20);

/// Both sides prove themselves again, tensors flow all the while, and neither side notices more than new keys.
#[tokio::test]
async fn sessions_are_attested_again_while_they_live() {
    let plan = |plan: Plan| Plan { reattest_seconds: 10, ..plan };
    let receiver = plan(Plan::receiver()).start();
    let from = plan(Plan::sender(&[receiver.address])).start();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut taking = Receiver::open(&receiver.lanes, 1 << 20).await;
    let count = |sidecar: &Sidecar| {
        let metrics = sidecar.node.render_metrics().unwrap();
        let mut lines =
            metrics.lines().filter(|line| line.starts_with("sealane_connections_reattested_total{"));
        lines.find_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or_default()
    };
    let mut pace = tokio::time::interval(PACE);
    within("to be attested again twice", async {
        let mut sent = 0;
        while count(&from) < 2 || count(&receiver) < 2 {
            lane.offer(parcel(sent, 1_000)).await.unwrap();
            assert_eq!(taking.next_taken().await, sent);
            sent += 1;
            pace.tick().await;
        }
    })
    .await;
    let metrics = from.node.render_metrics().unwrap();
    let ended = metrics.lines().filter(|line| line.starts_with("sealane_connections_ended_total{"));
    let ended: Vec<_> = ended.filter(|line| !line.ends_with(" 0")).collect();
    assert!(ended.is_empty(), "one connection all the while: {ended:?}");
}

/// Pods of more senders, with their uids.
const NEWCOMERS: [(&str, &str); 6] = [
    ("embedder-1", "e1"),
    ("embedder-2", "e2"),
    ("embedder-3", "e3"),
    ("embedder-4", "e4"),
    ("embedder-5", "e5"),
    ("embedder-6", "e6"),
];

/// Minutes are what policies, evidence and tickets leave between the clocks of two nodes: nothing ends, and what connects
/// meanwhile is let in.
#[tokio::test]
async fn wall_clocks_that_step_by_minutes_end_nothing() {
    let clocks = [TestClock::default(), TestClock::default()];
    let plan = |plan: Plan, clock: &TestClock| Plan { reattest_seconds: 10, clock: clock.clone(), ..plan };
    let receiver = plan(Plan::receiver(), &clocks[0]).start();
    let from = plan(Plan::sender(&[receiver.address]), &clocks[1]).start();
    let (lane, events) = sender(&from.lanes).await;
    passing_on(events);
    let mut taking = Receiver::open(&receiver.lanes, 1 << 20).await;
    let mut sent = 0;
    let mut others = Vec::new();
    for (whose, seconds) in [(0, 300), (1, -300), (0, 0), (0, -300), (1, 300), (1, 0)] {
        clocks[whose].step_to(seconds);
        for _ in 0..20 {
            lane.offer(parcel(sent, 1_000)).await.unwrap();
            assert_eq!(taking.next_taken().await, sent);
            sent += 1;
        }
        let (pod, uid) = NEWCOMERS[others.len()];
        let other = plan(Plan { pod, uid, ..Plan::sender(&[receiver.address]) }, &clocks[1]).start();
        let (lane, events) = sender(&other.lanes).await;
        passing_on(events);
        lane.offer(parcel(0, 1_000)).await.unwrap();
        assert_eq!(taking.next_taken().await, 0, "{pod} is let in");
        others.push((other, lane));
    }
    for sidecar in others.iter().map(|(other, _)| other).chain([&from, &receiver]) {
        let metrics = sidecar.node.render_metrics().unwrap();
        let ended = metrics.lines().filter(|line| line.starts_with("sealane_connections_ended_total{"));
        let ended: Vec<_> = ended.filter(|line| !line.ends_with(" 0")).collect();
        assert!(ended.is_empty(), "{ended:?}");
    }
}
