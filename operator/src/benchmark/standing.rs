//! How a node of a run stands: by its Job, that Job's pod and what the pod said. Pure.

use jiff::SignedDuration;
use sealane_operator_api::{ActiveNode, ActiveRun, NodePhase};
use sealane_results::{Place, RunPublicKey, Sealed};

use super::pool::Pool;
use super::situation::Situation;
use super::view::JobState;

/// How long after the end of a Job its pod may be unknown to the cache.
const CACHE_LAG: SignedDuration = SignedDuration::from_secs(30);

/// How a node stands.
pub(super) struct Standing {
    pub(super) phase: NodePhase,
    pub(super) message: Option<String>,
    /// Its Job has to be made.
    pub(super) starts: bool,
}

impl Standing {
    const fn new(phase: NodePhase, message: Option<String>) -> Self {
        Self { phase, message, starts: false }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self::new(NodePhase::Failed, Some(message.into()))
    }
}

/// How a node that is not final stands now, and its result if there is one that can be believed.
pub(super) fn look(
    situation: &Situation<'_>,
    run: &ActiveRun,
    node: &ActiveNode,
    pools: &[Pool],
) -> (Standing, Option<String>) {
    let present = situation.nodes.iter().any(|one| one.name == node.node);
    let Some(job) = situation.jobs.iter().find(|job| job.name == node.job && job.run == run.id) else {
        if !present {
            return (Standing::failed(format!("node {} left the cluster", node.node)), None);
        }
        if let Some(started) = &node.start_time {
            // The cache may not have it yet.
            let lag = situation.now.duration_since(started.0) <= CACHE_LAG;
            let gone = || Standing::failed("its Job was deleted");
            return (if lag { Standing::new(NodePhase::Running, None) } else { gone() }, None);
        }
        if situation.generation != run.generation {
            return (Standing::failed("the Benchmark was changed before it was measured"), None);
        }
        // Two runs in one pool would measure each other, and so would two on one node.
        let pool = pools.iter().find(|pool| pool.name == node.pool).map(|pool| pool.nodes.as_slice());
        let measured =
            pool.unwrap_or_default().iter().chain([&node.node]).find(|node| situation.busy.contains(*node));
        let standing = match measured {
            Some(other) => Standing::new(
                NodePhase::Waiting,
                Some(format!("another Benchmark's run measures node {other} of this pool")),
            ),
            None => Standing { phase: NodePhase::Running, message: None, starts: true },
        };
        return (standing, None);
    };
    match &job.state {
        JobState::Active if !present => {
            (Standing::failed(format!("node {} left the cluster in the middle of the run", node.node)), None)
        }
        JobState::Active => {
            let waits = match &job.pod {
                Some(pod) => pod.waits.clone(),
                None => Some("its Job has no pod yet; the Job's events say why, if this stays".to_owned()),
            };
            (Standing::new(NodePhase::Running, waits), None)
        }
        JobState::Over { at, failure } => {
            let said = job.pod.as_ref().and_then(|pod| pod.said.as_deref()).unwrap_or_default();
            if !said.is_empty() {
                return heard(run, node, said);
            }
            let standing = match failure {
                Some(failure) => Standing::failed(failure),
                None if situation.now.duration_since(*at) <= CACHE_LAG => {
                    Standing::new(NodePhase::Running, None)
                }
                None => Standing::failed("its pod was gone before its result was read, or said nothing"),
            };
            (standing, None)
        }
    }
}

/// What a pod said at its end is a result only if the run's key signed it for this node.
fn heard(run: &ActiveRun, node: &ActiveNode, said: &str) -> (Standing, Option<String>) {
    let place = Place { run: run.id.clone(), pool: node.pool.clone(), node: node.node.clone() };
    let sealed = Sealed::new(said);
    match run.key.parse::<RunPublicKey>().and_then(|key| sealed.open(&key, &place)) {
        Ok(summary) => {
            let standing = if summary.sound {
                Standing::new(NodePhase::Succeeded, None)
            } else {
                let first = summary.failures.first().map_or("a result was wrong", String::as_str);
                Standing::failed(first)
            };
            (standing, Some(said.trim_end().to_owned()))
        }
        Err(error) => (Standing::failed(format!("what its pod said is ignored: {error}")), None),
    }
}
