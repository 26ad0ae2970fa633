//! Leadership: a Lease decides, and a label on the leader's pod makes the control Service follow.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use sealane_operator_api::well_known::LEADER_LABEL;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::names::LEASE;

/// How long a lease holds without being renewed, and how long before its end it is renewed.
const DURATION_SECONDS: u64 = 15;
const GRACE_SECONDS: u64 = 5;

/// How often a leader proves to itself that it leads, how long it waits for the answer, and how many times in a row
/// it may ask in vain.
pub const PROOF_PERIOD: Duration = Duration::from_millis(2_500);
const SILENCES_MAX: u32 = 3;

const _: () =
    assert!(PROOF_PERIOD.as_millis() * 2 * SILENCES_MAX as u128 <= DURATION_SECONDS as u128 * 1_000);

/// Whether this replica leads, and the task that finds out. Dropping the receiver gives the lease back.
#[derive(Debug)]
pub struct Campaign {
    pub leading: watch::Receiver<bool>,
    pub task: JoinHandle<Result<LeaseManager, LeaseManagerError>>,
}

/// Starts to compete for the lease.
///
/// # Errors
/// The Lease cannot be read or made.
pub async fn campaign(client: &Client, config: &Config) -> Result<Campaign, LeaseManagerError> {
    let manager = LeaseManagerBuilder::new(client.clone(), LEASE)
        .with_namespace(config.namespace.as_str())
        .with_identity(config.pod_name.as_str())
        .with_duration(DURATION_SECONDS)
        .with_grace(GRACE_SECONDS)
        .build()
        .await?;
    let (leading, task) = manager.watch().await;
    Ok(Campaign { leading, task })
}

/// Waits until this replica can no longer show that it leads: another one holds the lease, or the API server has
/// not been heard for as long as a lease lasts. The lease's own watcher only knows what the API server told it last,
/// and a leader that is cut off must end its streams before its successor opens its own.
pub async fn unproven(client: &Client, config: &Config, period: Duration) {
    let mut silences = 0;
    while silences < SILENCES_MAX {
        tokio::time::sleep(period).await;
        match tokio::time::timeout(period, holds(client, config)).await {
            Ok(Ok(true)) => silences = 0,
            Ok(Ok(false)) => return,
            Ok(Err(_)) | Err(_) => silences += 1,
        }
    }
}

/// Whether the API server says that this replica holds the lease.
///
/// # Errors
/// The API server cannot be asked.
pub async fn holds(client: &Client, config: &Config) -> Result<bool, kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), config.namespace.as_str());
    let holder = leases.get(LEASE).await?.spec.and_then(|spec| spec.holder_identity);
    Ok(holder.as_deref() == Some(config.pod_name.as_str()))
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
