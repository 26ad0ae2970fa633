//! How a part of a run stands: by its Jobs, their pods and what the pod that measures said. Pure.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sealane_operator_api::{ActiveNode, ActiveRun, NodePhase};
use sealane_results::{Place, RunPublicKey, Sealed};

use super::job::{Role, SERVER_PORT};
use super::part::{server_site, sites};
use super::pool::Pool;
use super::situation::Situation;
use super::view::{JobState, JobView};

/// How long after it was made, or ended, a Job or its pod may be unknown to the cache.
const CACHE_LAG: SignedDuration = SignedDuration::from_secs(30);

/// How a part stands.
pub(super) struct Standing {
    pub(super) phase: NodePhase,
    pub(super) message: Option<String>,
    /// The Job that has to be made.
    pub(super) starts: Option<Role>,
    /// Where its server listens, since it was found to.
    pub(super) address: Option<String>,
    /// Its result, if there is one that can be believed.
    pub(super) sealed: Option<String>,
}

impl Standing {
    const fn new(phase: NodePhase, message: Option<String>) -> Self {
        Self { phase, message, starts: None, address: None, sealed: None }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self::new(NodePhase::Failed, Some(message.into()))
    }

    fn starting(role: Role) -> Self {
        Self { starts: Some(role), ..Self::new(NodePhase::Running, None) }
    }
}

/// How a part that is not final stands now; `taken` are the nodes that other parts of the run use.
pub(super) fn look(
    situation: &Situation<'_>,
    run: &ActiveRun,
    node: &ActiveNode,
    pools: &[Pool],
    taken: &BTreeSet<String>,
) -> Standing {
    if let Some(job) = find(situation, run, &node.job) {
        return measuring(situation, run, node, job);
    }
    if let Some(gone) = absent(situation, node) {
        return Standing::failed(format!("node {gone} left the cluster"));
    }
    if let Some(started) = &node.start_time {
        return unseen(situation, started, "its Job was deleted");
    }
    let Some(server) = &node.server else {
        return begin(situation, run, node, pools, taken, Role::Alone);
    };
    match (find(situation, run, &server.job), &server.start_time) {
        (Some(job), _) => match serving(node, job) {
            // What held for its server has to hold still.
            Standing { starts: Some(role), address, .. } => {
                Standing { address, ..begin(situation, run, node, pools, taken, role) }
            }
            standing => standing,
        },
        (None, Some(started)) => unseen(situation, started, "its server's Job was deleted"),
        (None, None) => begin(situation, run, node, pools, taken, Role::Server),
    }
}

fn find<'a>(situation: &Situation<'a>, run: &ActiveRun, name: &str) -> Option<&'a JobView> {
    situation.jobs.iter().find(|job| job.name == name && job.run == run.id)
}

/// The node of the part that is no longer there.
fn absent<'a>(situation: &Situation<'_>, node: &'a ActiveNode) -> Option<&'a str> {
    let is_there = |name: &str| situation.nodes.iter().any(|one| one.name == name);
    sites(node).map(|(_, node)| node).find(|node| !is_there(node))
}

/// A Job that was made and is not there: the cache may not have it yet.
fn unseen(situation: &Situation<'_>, started: &Time, gone: &str) -> Standing {
    let lag = situation.now.duration_since(started.0) <= CACHE_LAG;
    if lag { Standing::new(NodePhase::Running, None) } else { Standing::failed(gone) }
}

/// Two runs in one pool would measure each other, and so would two parts on one node.
fn begin(
    situation: &Situation<'_>,
    run: &ActiveRun,
    node: &ActiveNode,
    pools: &[Pool],
    taken: &BTreeSet<String>,
    role: Role,
) -> Standing {
    if situation.generation != run.generation {
        return Standing::failed("the Benchmark was changed before it was measured");
    }
    // A part whose server is there keeps its nodes.
    let phase = if role == Role::Client { NodePhase::Running } else { NodePhase::Waiting };
    let waits = |message| Standing::new(phase, Some(message));
    for (pool, own) in sites(node) {
        let of_pool = pools.iter().find(|one| one.name == pool).map(|pool| pool.nodes.as_slice());
        let own = own.to_owned();
        let mut of_pool = of_pool.unwrap_or_default().iter().chain([&own]);
        if let Some(other) = of_pool.find(|node| situation.busy.contains(*node)) {
            return waits(format!("another Benchmark's run measures node {other} of this pool"));
        }
        if taken.contains(&own) {
            return waits(format!("node {own} is being measured"));
        }
    }
    Standing::starting(role)
}

/// A server whose client has not begun.
fn serving(node: &ActiveNode, job: &JobView) -> Standing {
    let pod = job.pod.as_ref();
    match &job.state {
        JobState::Active => match pod.and_then(|pod| pod.address) {
            Some(address) => {
                let address = SocketAddr::new(address, SERVER_PORT).to_string();
                Standing { address: Some(address), ..Standing::starting(Role::Client) }
            }
            None => {
                let why = pod.map_or(Some("its Job has no pod yet"), |pod| pod.waits.as_deref());
                let why = why.map(|why| format!("{}{why}", of_server(&job.node)));
                Standing::new(NodePhase::Running, why)
            }
        },
        JobState::Over { failure, .. } => {
            let why = failure.as_deref().unwrap_or("it ended before anything was measured");
            let told = node.message.as_deref().and_then(|told| told.strip_prefix(&of_server(&job.node)));
            let why = with_cause(why, pod.and_then(|pod| pod.waits.as_deref()).or(told));
            let server = node.server.as_ref().map_or(job.node.as_str(), |server| &server.node);
            Standing::failed(format!("{}{why}", of_server(server)))
        }
    }
}

fn of_server(node: &str) -> String {
    format!("its server on node {node}: ")
}

/// A Job that ran out of time deletes its pod, and with it what the pod waited for: the status still has what it said last, which
/// is empty once the pod ran.
fn with_cause(failure: &str, waited: Option<&str>) -> String {
    match waited {
        Some(waited) => format!("{failure}; its pod did not run: {waited}"),
        None => failure.to_owned(),
    }
}

/// A Job that measures.
fn measuring(situation: &Situation<'_>, run: &ActiveRun, node: &ActiveNode, job: &JobView) -> Standing {
    match &job.state {
        JobState::Active => {
            if let Some(gone) = absent(situation, node) {
                return Standing::failed(format!("node {gone} left the cluster in the middle of the run"));
            }
            let waits = match &job.pod {
                Some(pod) => pod.waits.clone(),
                None => Some("its Job has no pod yet; the Job's events say why, if this stays".to_owned()),
            };
            Standing::new(NodePhase::Running, waits)
        }
        JobState::Over { at, failure } => {
            let said = job.pod.as_ref().and_then(|pod| pod.said.as_deref()).unwrap_or_default();
            if !said.is_empty() {
                return heard(run, node, said);
            }
            match failure {
                Some(failure) => {
                    let waits = job.pod.as_ref().and_then(|pod| pod.waits.as_deref());
                    Standing::failed(with_cause(failure, waits.or(node.message.as_deref())))
                }
                None if situation.now.duration_since(*at) <= CACHE_LAG => {
                    Standing::new(NodePhase::Running, None)
                }
                None => Standing::failed("its pod was gone before its result was read, or said nothing"),
            }
        }
    }
}

/// What a pod said at its end is a result only if the run's key signed it for this part.
fn heard(run: &ActiveRun, node: &ActiveNode, said: &str) -> Standing {
    let place = Place {
        run: run.id.clone(),
        pool: node.pool.clone(),
        node: node.node.clone(),
        server: server_site(node),
    };
    let sealed = Sealed::new(said);
    match run.key.parse::<RunPublicKey>().and_then(|key| sealed.open(&key, &place)) {
        Ok(summary) => {
            let standing = if summary.sound {
                Standing::new(NodePhase::Succeeded, None)
            } else {
                let first = summary.failures.first().map_or("a result was wrong", String::as_str);
                Standing::failed(first)
            };
            Standing { sealed: Some(said.trim_end().to_owned()), ..standing }
        }
        Err(error) => Standing::failed(format!("what its pod said is ignored: {error}")),
    }
}
