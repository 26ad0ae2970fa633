//! Leadership: a Lease decides, and a label on the leader's pod makes the control Service follow.

mod candidate;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use sealane_operator_api::well_known::LEADER_LABEL;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::candidate::{Candidate, Claim, LEASE_TIME};
use crate::config::Config;
use crate::names::LEASE;

/// How often the leader renews the lease, and how often others look whether it is free: a leader that stops gives it
/// back, and until one of them sees that nobody leads.
const RENEW_PERIOD: Duration = Duration::from_secs(2);
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// How long the API server may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(3);
/// A leader that could not renew the lease for so long leads no longer.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// What a term may take to end its streams, which has to be before its successor opens its own.
const END_TIME: Duration = Duration::from_secs(4);

const _: () =
    assert!(RENEW_DEADLINE.as_millis() + END_TIME.as_millis() < LEASE_TIME.as_millis(), "two would lead");

/// Whether this replica leads, and the task that finds out. Dropping the receiver gives the lease back.
#[derive(Debug)]
pub struct Campaign {
    pub leading: watch::Receiver<bool>,
    pub task: JoinHandle<()>,
}

/// Starts to compete for the lease.
///
/// # Errors
/// The Lease cannot be read.
pub async fn campaign(client: &Client, config: &Config) -> Result<Campaign, kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), config.namespace.as_str());
    leases.get_opt(LEASE).await?;
    let (told, leading) = watch::channel(false);
    let task = tokio::spawn(compete(leases, Candidate::new(&config.pod_name), told));
    Ok(Campaign { leading, task })
}

/// Tells whether this replica leads until nobody listens, and gives the lease back then.
async fn compete(leases: Api<Lease>, mut candidate: Candidate, told: watch::Sender<bool>) {
    // When the request began that renewed the lease last.
    let mut renewed: Option<Instant> = None;
    loop {
        let began = Instant::now();
        let left = renewed.map_or(ANSWER_TIME, |renewed| left_of(renewed, began).min(ANSWER_TIME));
        let attempt = tokio::time::timeout(left, attempt(&leases, &mut candidate));
        let outcome = tokio::select! {
            outcome = attempt => outcome,
            () = told.closed() => break,
        };
        match outcome {
            Ok(Ok(leads)) => renewed = leads.then_some(began),
            Ok(Err(error)) => tracing::warn!(%error, "the lease cannot be renewed or looked at"),
            Err(_) => tracing::warn!("the API server does not answer about the lease"),
        }
        renewed = renewed.filter(|renewed| !left_of(*renewed, Instant::now()).is_zero());
        told.send_if_modified(|leads| std::mem::replace(leads, renewed.is_some()) != renewed.is_some());
        let pause = renewed.map_or(LOOK_PERIOD, |renewed| left_of(renewed, Instant::now()).min(RENEW_PERIOD));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = told.closed() => break,
        }
    }
    if let Err(error) = release(&leases, &candidate).await {
        tracing::warn!(%error, "the lease cannot be given back; another replica waits until it is over");
    }
}

/// How much time a leader has left to renew a lease that it renewed at `renewed`.
fn left_of(renewed: Instant, now: Instant) -> Duration {
    RENEW_DEADLINE.saturating_sub(now.duration_since(renewed))
}

/// Takes or renews the lease if that is possible; whether this replica holds it.
async fn attempt(leases: &Api<Lease>, candidate: &mut Candidate) -> Result<bool, kube::Error> {
    let Some(lease) = leases.get_opt(LEASE).await? else {
        let spec = Some(candidate.record(&LeaseSpec::default(), Timestamp::now()));
        let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
        return written(leases.create(&PostParams::default(), &Lease { metadata, spec }).await);
    };
    let record = lease.spec.unwrap_or_default();
    if candidate.judge(&record, Instant::now()) == Claim::Wait {
        return Ok(false);
    }
    // With the version that was read, so that of two that try at once one is refused.
    let spec = Some(candidate.record(&record, Timestamp::now()));
    written(leases.replace(LEASE, &PostParams::default(), &Lease { spec, ..lease }).await)
}

/// Whether the API server took it; not if another replica was faster.
fn written(outcome: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match outcome {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(refused)) if refused.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives the lease back if this replica holds it, whatever it was told last.
async fn release(leases: &Api<Lease>, candidate: &Candidate) -> Result<(), kube::Error> {
    let Some(lease) = leases.get_opt(LEASE).await? else { return Ok(()) };
    let record = lease.spec.unwrap_or_default();
    if candidate.holds(&record) {
        let spec = Some(Candidate::released(&record));
        written(leases.replace(LEASE, &PostParams::default(), &Lease { spec, ..lease }).await)?;
    }
    Ok(())
}

/// Puts the leader label on this replica's pod and takes it from every other one: a leader that was cut off could
/// not take it from itself.
///
/// # Errors
/// The API server refused.
pub async fn put_label(client: &Client, config: &Config) -> Result<(), kube::Error> {
    let pods = pods(client, config);
    set(&pods, &config.pod_name, Some("true")).await?;
    let labelled = pods.list_metadata(&ListParams::default().labels(&format!("{LEADER_LABEL}=true"))).await?;
    for pod in labelled.items.iter().filter(|pod| pod.name_any() != config.pod_name) {
        set(&pods, &pod.name_any(), None).await?;
    }
    Ok(())
}

/// Takes the leader label from this replica's pod.
///
/// # Errors
/// The API server refused.
pub async fn take_label(client: &Client, config: &Config) -> Result<(), kube::Error> {
    set(&pods(client, config), &config.pod_name, None).await
}

fn pods(client: &Client, config: &Config) -> Api<Pod> {
    Api::namespaced(client.clone(), config.namespace.as_str())
}

async fn set(pods: &Api<Pod>, name: &str, value: Option<&str>) -> Result<(), kube::Error> {
    let patch = json!({"metadata": {"labels": {LEADER_LABEL: value}}});
    pods.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(|_| ())
}

#[cfg(test)]
mod tests;
