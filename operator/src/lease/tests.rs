use std::sync::{Arc, Mutex};

use clap::Parser;
use serde_json::Value;

use super::*;
use crate::config::Arguments;
use crate::testing::{Asked, cluster, failure, list};

fn config() -> Config {
    let arguments =
        ["sealane-operator", "--namespace", "system", "--pod-name", "me", "--sidecar-image", "sidecar:1"];
    Config::new(Arguments::parse_from(arguments)).unwrap()
}

/// An API server with one Lease, which answers like the real one: it knows versions, and may be cut off.
#[derive(Debug, Default)]
struct Server {
    lease: Option<Lease>,
    version: u64,
    cut_off: bool,
}

impl Server {
    fn answers(&mut self, asked: &Asked) -> (u16, Value) {
        if self.cut_off {
            return failure(500, "cut off");
        }
        match (asked.method.as_str(), &self.lease) {
            ("GET", None) => return failure(404, "NotFound"),
            ("GET", Some(_)) => {}
            ("POST", Some(_)) => return failure(409, "AlreadyExists"),
            (_, known) => {
                let version = known.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
                let lease: Lease = serde_json::from_value(asked.body.clone()).unwrap();
                if lease.metadata.resource_version != version {
                    return failure(409, "Conflict");
                }
                self.write(lease.spec.unwrap_or_default());
            }
        }
        (200, serde_json::to_value(&self.lease).unwrap())
    }

    fn write(&mut self, spec: LeaseSpec) {
        self.version += 1;
        let resource_version = Some(self.version.to_string());
        let metadata = ObjectMeta { name: Some(LEASE.to_owned()), resource_version, ..ObjectMeta::default() };
        self.lease = Some(Lease { metadata, spec: Some(spec) });
    }

    fn holder(&self) -> Option<String> {
        self.lease.as_ref()?.spec.as_ref()?.holder_identity.clone()
    }
}

type Shared = Arc<Mutex<Server>>;

/// A replica of this name that competes.
async fn replica(server: &Shared, name: &str) -> Campaign {
    let server = Arc::clone(server);
    let (client, _) = cluster(move |asked| server.lock().unwrap().answers(asked));
    campaign(&client, &Config { pod_name: name.to_owned(), ..config() }).await.unwrap()
}

/// Longer than anything here takes, of the paused clock, which goes on as soon as everything waits.
const LONG: Duration = LEASE_TIME.saturating_mul(20);

async fn leads(campaign: &mut Campaign, leads: bool) -> Duration {
    let began = Instant::now();
    tokio::time::timeout(LONG, campaign.leading.wait_for(|leading| *leading == leads))
        .await
        .unwrap()
        .unwrap();
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn one_replica_leads_and_the_next_follows_within_a_second_when_it_stops() {
    let server = Shared::default();
    let mut first = replica(&server, "first").await;
    leads(&mut first, true).await;
    let mut second = replica(&server, "second").await;
    assert!(tokio::time::timeout(LONG, second.leading.wait_for(|leading| *leading)).await.is_err());
    assert!(*first.leading.borrow(), "it renews the lease");
    drop(first.leading);
    assert!(leads(&mut second, true).await <= LOOK_PERIOD);
    first.task.await.unwrap();
    assert_eq!(server.lock().unwrap().holder().as_deref(), Some("second"));
    let transitions = |server: &Shared| {
        server.lock().unwrap().lease.as_ref().unwrap().spec.as_ref().unwrap().lease_transitions
    };
    assert_eq!(transitions(&server), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_gives_up_before_another_one_may_lead_and_comes_back() {
    let server = Shared::default();
    let mut first = replica(&server, "first").await;
    leads(&mut first, true).await;
    server.lock().unwrap().cut_off = true;
    let took = leads(&mut first, false).await;
    assert!(took <= RENEW_DEADLINE, "{took:?}");
    assert!(took > RENEW_DEADLINE - RENEW_PERIOD - Duration::from_secs(1), "a hiccup ends no term: {took:?}");
    server.lock().unwrap().cut_off = false;
    assert!(leads(&mut first, true).await <= LOOK_PERIOD, "nobody else took it");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_its_holder_does_not_renew_is_taken_when_it_is_over() {
    let server = Shared::default();
    let gone = LeaseSpec {
        holder_identity: Some("gone".to_owned()),
        lease_duration_seconds: Some(15),
        ..LeaseSpec::default()
    };
    server.lock().unwrap().write(gone);
    let mut second = replica(&server, "second").await;
    let took = leads(&mut second, true).await;
    assert!(took >= LEASE_TIME && took <= LEASE_TIME + 2 * LOOK_PERIOD, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_or_deleted_notices() {
    let server = Shared::default();
    let mut first = replica(&server, "first").await;
    leads(&mut first, true).await;
    let other = LeaseSpec { holder_identity: Some("other".to_owned()), ..LeaseSpec::default() };
    server.lock().unwrap().write(other);
    assert!(leads(&mut first, false).await <= RENEW_PERIOD);
    server.lock().unwrap().lease = None;
    assert!(leads(&mut first, true).await <= LOOK_PERIOD);
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
