//! What the impure steps share.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use sealane_policy::VerifiedPolicy;
use tokio::sync::watch;

use super::inherited::Inherited;
use super::readable::Readable;
use crate::advice::Advice;
use crate::control::Registry;
use crate::limits::{COUNTER_WRITES_PER_SECOND_MAX, COUNTERS_PAUSE, COUNTERS_PERIOD};
use crate::metrics::Metrics;
use crate::names::CONTROLLER;
use crate::spec::PodView;
use crate::watch::Stores;

/// By namespace, then by TrustPolicy uid.
type Held = BTreeMap<String, BTreeMap<String, Arc<VerifiedPolicy>>>;

/// Everything outside a reconciliation that it reads or changes.
pub struct Context {
    pub client: Client,
    pub stores: Stores,
    pub registry: Arc<Registry>,
    pub metrics: Arc<Metrics>,
    pub recorder: Recorder,
    /// What ran when this term began.
    pub(super) inherited: Inherited,
    pub(super) readable: Readable,
    held: Mutex<Held>,
    advice: watch::Receiver<Arc<Advice>>,
    /// By object uid.
    written: Mutex<Written>,
    /// When the current second began, and the counters written in it.
    counter_writes: Mutex<(Instant, u32)>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    #[must_use]
    pub fn new(
        client: Client,
        stores: Stores,
        registry: Arc<Registry>,
        metrics: Arc<Metrics>,
        advice: watch::Receiver<Arc<Advice>>,
        pod_name: &str,
    ) -> Self {
        let reporter = Reporter { controller: CONTROLLER.to_owned(), instance: Some(pod_name.to_owned()) };
        let recorder = Recorder::new(client.clone(), reporter);
        let pods = stores.pods.state();
        let inherited = Inherited::new(Instant::now(), pods.iter().filter_map(|pod| PodView::new(pod)));
        Self {
            inherited,
            readable: Readable::default(),
            client,
            stores,
            registry,
            metrics,
            recorder,
            held: Mutex::default(),
            advice,
            written: Mutex::default(),
            counter_writes: Mutex::new((Instant::now(), 0)),
        }
    }

    /// The newest verified policies of a namespace.
    #[must_use]
    pub fn held(&self, namespace: &str) -> BTreeMap<String, Arc<VerifiedPolicy>> {
        locked(&self.held).get(namespace).cloned().unwrap_or_default()
    }

    /// What Benchmarks know now.
    #[must_use]
    pub fn advice(&self) -> Arc<Advice> {
        Arc::clone(&self.advice.borrow())
    }

    /// Replaces what is held for a namespace.
    pub fn hold(&self, namespace: &str, policies: BTreeMap<String, Arc<VerifiedPolicy>>) {
        let mut held = locked(&self.held);
        if policies.is_empty() {
            held.remove(namespace);
        } else {
            held.insert(namespace.to_owned(), policies);
        }
    }

    /// How long the counters of an object must still wait.
    #[must_use]
    pub fn counters_wait(&self, uid: &str) -> Option<Duration> {
        let at = locked(&self.written).statuses.get(uid)?.at;
        COUNTERS_PERIOD.checked_sub(at.elapsed()).filter(|wait| !wait.is_zero())
    }

    /// Takes one of this second's writes of counters, if one is left.
    #[must_use]
    pub fn may_count(&self) -> bool {
        let mut window = locked(&self.counter_writes);
        if window.0.elapsed() >= COUNTERS_PAUSE {
            *window = (Instant::now(), 0);
        }
        let free = window.1 < COUNTER_WRITES_PER_SECOND_MAX;
        window.1 += u32::from(free);
        free
    }

    /// Whether the object, as the cache has it, was answered with this very status already: the cache is behind.
    #[must_use]
    pub fn was_written(&self, uid: &str, version: &str, digest: u64) -> bool {
        let written = locked(&self.written);
        written.statuses.get(uid).is_some_and(|status| status.version == version && status.digest == digest)
    }

    /// The status with `digest` was written over `version` of the object.
    pub fn wrote(&self, uid: &str, version: &str, digest: u64) {
        let mut written = locked(&self.written);
        if written.swept.is_none_or(|swept| swept.elapsed() >= COUNTERS_PERIOD) {
            written.statuses.retain(|_, status| status.at.elapsed() < COUNTERS_PERIOD);
            written.swept = Some(Instant::now());
        }
        let status = WrittenStatus { at: Instant::now(), version: version.to_owned(), digest };
        written.statuses.insert(uid.to_owned(), status);
    }
}

/// What was written lately.
#[derive(Debug, Default)]
struct Written {
    statuses: BTreeMap<String, WrittenStatus>,
    /// When old ones were forgotten last.
    swept: Option<Instant>,
}

#[derive(Debug)]
struct WrittenStatus {
    at: Instant,
    /// `resourceVersion` of the object that it was written over.
    version: String,
    digest: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{cluster, list};
    use crate::watch;

    fn context() -> Context {
        let (client, _) = cluster(|_| list(json!([])));
        let (stores, _) = watch::start(&client, &Arc::default());
        let advice = tokio::sync::watch::channel(Arc::default()).1;
        Context::new(client, stores, Arc::default(), Arc::default(), advice, "operator-0")
    }

    #[tokio::test]
    async fn what_the_cache_has_not_seen_yet_is_remembered() {
        let context = context();
        assert!(!context.was_written("u", "1", 7));
        context.wrote("u", "1", 7);
        assert!(context.was_written("u", "1", 7));
        assert!(!context.was_written("u", "2", 7), "the object has changed since");
        assert!(!context.was_written("u", "1", 8), "another status is wanted by now");
        assert!(context.counters_wait("u").is_some() && context.counters_wait("other").is_none());
    }

    #[tokio::test]
    async fn counters_are_written_a_bounded_number_of_times() {
        let context = context();
        let granted = (0..10 * COUNTER_WRITES_PER_SECOND_MAX).filter(|_| context.may_count()).count();
        // Two, because a second may pass meanwhile.
        let bound = 2 * COUNTER_WRITES_PER_SECOND_MAX as usize;
        assert!((COUNTER_WRITES_PER_SECOND_MAX as usize..=bound).contains(&granted), "{granted}");
    }
}
