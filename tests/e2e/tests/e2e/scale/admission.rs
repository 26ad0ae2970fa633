//! Admission while the operator has much else to do: one pod after the other is offered and not kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::fleet::Moment;
use super::measure::percentile;
use super::world::{World, pod};

/// How often a pod is offered.
const PERIOD: Duration = Duration::from_millis(100);

/// Offers pods until it is ended.
pub(crate) struct Admission {
    seen: Arc<Mutex<Offered>>,
    offering: JoinHandle<()>,
}

/// What became of the pods.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    /// Milliseconds until the API server had asked the webhook and answered.
    pub(crate) millis: Vec<u64>,
    pub(crate) failures: Vec<String>,
}

impl Admission {
    pub(crate) fn offer(world: &World<'_>) -> Result<Self> {
        let seen = Arc::new(Mutex::new(Offered::default()));
        let offering = tokio::spawn(offer(world.pod_api(), pod("offered", 0)?, Arc::clone(&seen)));
        Ok(Self { seen, offering })
    }

    pub(crate) fn end(self) -> Offered {
        self.offering.abort();
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Offered {
    pub(crate) fn summary(&self) -> Value {
        let Self { millis, failures } = self;
        json!({
            "pods": millis.len(), "failures": failures.len(),
            "p50": percentile(millis, 50), "p99": percentile(millis, 99), "max": percentile(millis, 100),
        })
    }
}

/// A dry run goes through admission and leaves nothing behind.
async fn offer(pods: Api<Pod>, pod: Pod, seen: Arc<Mutex<Offered>>) {
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let mut period = interval(PERIOD);
    // One that waits long is followed by those that were due meanwhile: a stall is not counted once only.
    period.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        let due = period.tick().await;
        let waited = due.elapsed();
        let began = Moment::now();
        let answer = pods.create(&parameters, &pod).await;
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.millis.push(Moment::now().since(began).saturating_add(waited));
        if let Err(error) = answer {
            seen.failures.push(error.to_string());
        }
    }
}
