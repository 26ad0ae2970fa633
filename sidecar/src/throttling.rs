//! Throttling: whether this container is held back by its CPU limit.
//!
//! A lane that is slow for want of processor time looks like a slow network from every side. The kernel alone knows: it
//! counts the periods in which a control group wanted to run, and those in which it had used up its quota.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

mod cgroup;
mod judge;

use self::cgroup::Source;
use self::judge::Judge;

/// How often the kernel is asked.
const PERIOD: Duration = Duration::from_secs(10);

/// What is known of this container.
#[derive(Debug, Default)]
pub(crate) struct Throttling {
    throttled: AtomicBool,
}

impl Throttling {
    /// Follows the statistics of this process's control group, if it has any, and tells `changed` when the verdict does.
    /// Must be called within a tokio runtime.
    pub(crate) fn start(changed: Arc<Notify>) -> Arc<Self> {
        let throttling = Arc::new(Self::default());
        match Source::find() {
            Some(source) => drop(tokio::spawn(follow(Arc::downgrade(&throttling), source, changed))),
            None => tracing::debug!("the kernel has no CPU statistics for this process"),
        }
        throttling
    }

    /// Whether it is held back, or was within the last minutes.
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled.load(Ordering::Relaxed)
    }
}

async fn follow(throttling: Weak<Throttling>, source: Source, changed: Arc<Notify>) {
    let mut judge = Judge::default();
    let mut ticks = interval(PERIOD);
    // A process that is held back misses some: two looks in a row would say nothing.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(throttling) = throttling.upgrade() else { return };
        let Some(stat) = source.read() else { continue };
        let throttled = judge.handle(stat);
        if throttling.throttled.swap(throttled, Ordering::Relaxed) != throttled {
            if throttled {
                tracing::warn!(
                    "this container is held back by its CPU limit, and lanes are slow for it; raise the limit by the pod's annotation sealane.dev/cpu-limit"
                );
            }
            changed.notify_one();
        }
    }
}
