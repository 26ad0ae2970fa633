//! Which namespaces are to be reconciled, and when. At most one entry per namespace, the earliest time wins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Requests that wait for their time.
#[derive(Debug, Default)]
pub struct Queue {
    due: Mutex<BTreeMap<String, Instant>>,
    wake: Notify,
}

impl Queue {
    /// Asks for a reconciliation of `namespace` in `delay`.
    pub fn request(&self, namespace: &str, delay: Duration) {
        let at = Instant::now() + delay;
        let mut due = self.due();
        let earlier = due.get(namespace).is_some_and(|planned| *planned <= at);
        if !earlier {
            due.insert(namespace.to_owned(), at);
            drop(due);
            self.wake.notify_one();
        }
    }

    /// Waits for the next namespace that is due and not in `busy`.
    pub async fn next(&self, busy: &BTreeSet<String>) -> String {
        loop {
            let wake = self.wake.notified();
            let Some((at, namespace)) = self.earliest(busy) else {
                wake.await;
                continue;
            };
            if at <= Instant::now() {
                self.due().remove(&namespace);
                return namespace;
            }
            tokio::select! {
                () = wake => {}
                () = tokio::time::sleep_until(at) => {}
            }
        }
    }

    /// Namespaces whose time has come.
    #[must_use]
    pub fn depth(&self) -> usize {
        let now = Instant::now();
        self.due().values().filter(|at| **at <= now).count()
    }

    fn earliest(&self, busy: &BTreeSet<String>) -> Option<(Instant, String)> {
        let due = self.due();
        let waiting = due.iter().filter(|(namespace, _)| !busy.contains(*namespace));
        waiting.min_by_key(|(_, at)| **at).map(|(namespace, at)| (*at, namespace.clone()))
    }

    fn due(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the paused clock, which goes on as soon as everything waits.
    const STEP: Duration = Duration::from_secs(1);
    const NEVER: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn the_earliest_request_wins_and_one_entry_serves_many() {
        let queue = Queue::default();
        let idle = BTreeSet::new();
        let start = Instant::now();
        queue.request("b", NEVER);
        queue.request("b", STEP);
        queue.request("b", NEVER);
        queue.request("a", STEP * 3);
        assert_eq!(queue.next(&idle).await, "b");
        assert_eq!(start.elapsed().as_secs(), STEP.as_secs());
        assert_eq!(queue.next(&idle).await, "a");
        assert_eq!(start.elapsed().as_secs(), 3 * STEP.as_secs());
        assert!(tokio::time::timeout(STEP, queue.next(&idle)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_namespace_waits_and_a_new_request_wakes() {
        let queue = std::sync::Arc::new(Queue::default());
        queue.request("busy", Duration::ZERO);
        let busy = BTreeSet::from(["busy".to_owned()]);
        let waiting = tokio::spawn({
            let (queue, busy) = (queue.clone(), busy.clone());
            async move { queue.next(&busy).await }
        });
        tokio::time::sleep(STEP).await;
        assert!(!waiting.is_finished());
        queue.request("free", Duration::ZERO);
        assert_eq!(waiting.await.unwrap(), "free");
        assert_eq!(queue.next(&BTreeSet::new()).await, "busy");
    }
}
