//! Runs reconciliations as the queue asks for them: one at a time per namespace, a bounded number at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use futures::stream::FuturesUnordered;

use super::{Context, reconcile};
use crate::causes::Causes;
use crate::limits::{RECONCILES_MAX, RETRY};
use crate::metrics::Outcome;
use crate::queue::Queue;

/// Runs until the task is dropped.
pub async fn run(context: Arc<Context>, queue: Arc<Queue>) {
    let mut busy = BTreeSet::new();
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            namespace = queue.next(&busy), if running.len() < RECONCILES_MAX => {
                busy.insert(namespace.clone());
                running.push(once(&context, &queue, namespace));
            }
            Some(namespace) = running.next() => {
                let namespace: String = namespace;
                busy.remove(&namespace);
            }
        }
    }
}

async fn once(context: &Context, queue: &Queue, namespace: String) -> String {
    let started = Instant::now();
    let outcome = match reconcile(context, &namespace).await {
        Ok(again) => {
            if let Some(delay) = again {
                queue.request(&namespace, delay);
            }
            Outcome::Success
        }
        Err(error) => {
            tracing::warn!(namespace, error = %Causes(&error), "reconciliation failed");
            queue.request(&namespace, RETRY);
            Outcome::Failure
        }
    };
    context.metrics.reconciled(outcome, started.elapsed());
    namespace
}
