use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use serde_json::Value;

use super::*;
use crate::config::Arguments;
use crate::testing::{Asked, cluster, failure, list};

/// Of the paused clock, which goes on as soon as everything waits: no test waits for it.
const PERIOD: Duration = Duration::from_secs(5);

fn config() -> Config {
    let arguments =
        ["sealane-operator", "--namespace", "system", "--pod-name", "me", "--sidecar-image", "sidecar:1"];
    Config::new(Arguments::parse_from(arguments)).unwrap()
}

fn held_by(holder: &str) -> (u16, Value) {
    (200, json!({"metadata": {"name": LEASE}, "spec": {"holderIdentity": holder}}))
}

/// Long enough for what has to happen, and for what must not.
const MANY_PERIODS: Duration = PERIOD.saturating_mul(40);

/// Whether leadership ends within [`MANY_PERIODS`], with an API server that answers its nth question so.
async fn ends(answer: impl Fn(usize) -> (u16, Value) + Send + Sync + 'static) -> bool {
    let asked = AtomicUsize::new(0);
    let (client, _) = cluster(move |_| answer(asked.fetch_add(1, Ordering::Relaxed)));
    tokio::time::timeout(MANY_PERIODS, unproven(&client, &config(), PERIOD)).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_leader_goes_on_while_it_can_prove_that_it_leads() {
    assert!(!ends(|_| held_by("me")).await);
    let hiccup =
        |question: usize| if question.is_multiple_of(2) { failure(500, "hiccup") } else { held_by("me") };
    assert!(!ends(hiccup).await);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_the_lease_or_the_api_server_ends() {
    assert!(ends(|question| held_by(if question < 3 { "me" } else { "another" })).await);
    assert!(ends(|question| if question < 3 { held_by("me") } else { failure(500, "gone") }).await);
    assert!(ends(|_| (200, json!({"metadata": {}, "spec": {}}))).await);
}

#[tokio::test]
async fn the_label_is_put_on_one_pod_and_taken_from_every_other() {
    let pods = |asked: &Asked| match asked.method.as_str() {
        "GET" => list(json!([{"metadata": {"name": "me"}}, {"metadata": {"name": "cut-off"}}])),
        _ => (200, json!({"metadata": {"name": "x"}})),
    };
    let (client, log) = cluster(pods);
    put_label(&client, &config()).await.unwrap();
    take_label(&client, &config()).await.unwrap();
    let patches: Vec<_> = Arc::clone(&log)
        .lock()
        .unwrap()
        .iter()
        .filter(|asked| asked.method == "PATCH")
        .map(|asked| {
            let path = asked.path.split('?').next().unwrap_or_default().to_owned();
            (path, asked.body["metadata"]["labels"][LEADER_LABEL].clone())
        })
        .collect();
    let pod = |name: &str| format!("/api/v1/namespaces/system/pods/{name}");
    assert_eq!(
        patches,
        [(pod("me"), json!("true")), (pod("cut-off"), json!(null)), (pod("me"), json!(null)),]
    );
}
