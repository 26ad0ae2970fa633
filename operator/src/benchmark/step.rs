//! What a Benchmark does next: begin a run, bring one forward, end one, or rest. Pure.
//!
//! All that a run is made of lies in the API server: the plan in the status, the work in Jobs, the results in a ConfigMap.
//! An operator that starts in the middle of a run finds all of it, and every step can be taken twice.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sealane_operator_api::{ActiveNode, ActiveRun, ConcurrencyPolicy, NodePhase, RunOutcome, word};
use sealane_results::{NodeRecord, RunPublicKey};

use super::pool::{Pool, pools};
use super::schedule::Schedule;
use super::situation::Situation;
use super::standing::look;
use super::view::JobView;
use crate::spec::Problem;

/// Nodes of one run: their results have to fit a ConfigMap.
const NODES_MAX: usize = 128;
/// How soon to look again at what no event tells.
const AGAIN: Duration = Duration::from_secs(5);
/// What a status holds of a request; what is beyond it makes no other request.
const REQUEST_CHARS_MAX: usize = 64;
/// What a status holds of a message.
const MESSAGE_CHARS_MAX: usize = 256;

/// What is done next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Rest,
    Begin(Begin),
    Advance(Advance),
    Finish(Finish),
}

/// A run that begins. Its key is made by whoever takes the step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Begin {
    pub(super) id: String,
    /// Pools and nodes.
    pub(super) nodes: Vec<(String, String)>,
    pub(super) cause: Cause,
}

/// Why a run begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    Once,
    Schedule(Timestamp),
    Request(String),
}

/// A run that goes on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Advance {
    /// How its nodes stand after this step.
    pub(super) nodes: Vec<ActiveNode>,
    /// Those whose Jobs have to be there.
    pub(super) start: Vec<ActiveNode>,
    /// What came back, to be kept before the status says so.
    pub(super) results: Vec<NodeRecord>,
}

/// A run that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finish {
    pub(super) outcome: RunOutcome,
    pub(super) message: Option<String>,
}

/// What the conditions tell, beside the step.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outlook {
    /// When a run begins by itself, or why none will.
    pub(super) next: Result<Option<Timestamp>, Problem>,
    /// Pools that cannot be measured now.
    pub(super) problems: Vec<Problem>,
    /// What the nodes' labels say of each pool's hardware.
    pub(super) tees: BTreeMap<String, &'static str>,
    /// Jobs of runs that nobody follows or keeps.
    pub(super) surplus: Vec<String>,
    /// When to look again, whatever happens.
    pub(super) again: Option<Duration>,
}

/// Decides.
#[must_use]
pub(super) fn decide(situation: &Situation<'_>) -> (Step, Outlook) {
    let known: Vec<String> = situation.status.pools.iter().map(|pool| pool.name.clone()).collect();
    let pools = pools(&situation.spec.node_pools, situation.nodes, &known);
    let mut outlook = Outlook {
        next: Ok(None),
        problems: pools.iter().filter_map(|pool| pool.chosen.clone().err()).collect(),
        tees: pools.iter().filter_map(|pool| Some((pool.name.clone(), pool.tee?))).collect(),
        surplus: surplus(situation),
        again: None,
    };
    let chosen: usize = pools.iter().flat_map(|pool| &pool.chosen).map(Vec::len).sum();
    if chosen > NODES_MAX {
        let message =
            format!("a run measures {NODES_MAX} nodes at most: {} are left out", chosen - NODES_MAX);
        outlook.problems.push(Problem { reason: word::POOL_UNUSABLE, message });
    }
    if let Err(why) = &situation.enabled {
        outlook.next = Err(Problem { reason: word::NAMESPACE_NOT_ENABLED, message: why.clone() });
        outlook.again = Some(AGAIN);
        return (Step::Rest, outlook);
    }
    let due = match due(situation) {
        Ok(due) => {
            outlook.next = Ok(due.next);
            due.cause
        }
        Err(problem) => {
            outlook.next = Err(problem);
            None
        }
    };
    if let Some(next) = outlook.next.as_ref().ok().copied().flatten() {
        outlook.again = Some(until(situation.now, next));
    }
    let step = match (&situation.status.active, due) {
        (Some(_), Some(_)) if situation.spec.concurrency_policy == ConcurrencyPolicy::Replace => {
            Step::Finish(Finish { outcome: RunOutcome::Replaced, message: None })
        }
        (Some(run), _) => {
            outlook.again = Some(outlook.again.map_or(AGAIN, |again| again.min(AGAIN)));
            advance(situation, run, &pools)
        }
        (None, Some(cause)) => begin(situation, cause, &pools, &mut outlook),
        (None, None) => Step::Rest,
    };
    (step, outlook)
}

/// What begins now, and when something begins next.
struct Due {
    cause: Option<Cause>,
    next: Option<Timestamp>,
}

fn due(situation: &Situation<'_>) -> Result<Due, Problem> {
    let Situation { now, spec, status, generation, created, .. } = situation;
    if spec.suspend {
        let message = "spec.suspend is true: no run begins";
        return Err(Problem { reason: word::SUSPENDED, message: message.to_owned() });
    }
    let asked = situation.request.map(|request| request.chars().take(REQUEST_CHARS_MAX).collect::<String>());
    let asked = asked.filter(|request| status.last_request.as_ref() != Some(request)).map(Cause::Request);
    let Some(schedule) = &spec.schedule else {
        let of_this = |one: i64| one == *generation;
        let ran = status.runs.iter().any(|run| of_this(run.generation))
            || status.active.as_ref().is_some_and(|run| of_this(run.generation));
        return Ok(Due { cause: asked.or_else(|| (!ran).then_some(Cause::Once)), next: None });
    };
    let invalid = |error: super::schedule::ScheduleError| Problem {
        reason: word::SCHEDULE_INVALID,
        message: error.to_string(),
    };
    let schedule = Schedule::parse(schedule, spec.time_zone.as_deref()).map_err(invalid)?;
    let since = status.last_schedule_time.as_ref().map_or(*created, |time| time.0);
    let in_time = |due: &Timestamp| {
        spec.starting_deadline_seconds
            .is_none_or(|seconds| now.duration_since(*due) <= SignedDuration::from_secs(seconds))
    };
    let scheduled = schedule.due(since, *now).filter(in_time).map(Cause::Schedule);
    Ok(Due { cause: asked.or(scheduled), next: schedule.next(*now) })
}

fn begin(situation: &Situation<'_>, cause: Cause, pools: &[Pool], outlook: &mut Outlook) -> Step {
    let Situation { now, owner, generation, .. } = situation;
    let uid = owner.uid.get(..8).unwrap_or(owner.uid);
    let id = match &cause {
        Cause::Once => format!("{uid}-{generation}"),
        Cause::Schedule(time) => format!("{uid}-{generation}-{}", time.as_second()),
        Cause::Request(_) => format!("{uid}-{generation}-{}", now.as_second()),
    };
    let chosen = pools.iter().flat_map(|pool| {
        let nodes = pool.chosen.iter().flatten();
        nodes.map(|node| (pool.name.clone(), node.clone()))
    });
    let nodes: Vec<(String, String)> = chosen.take(NODES_MAX).collect();
    if nodes.is_empty() {
        let why: Vec<&str> = outlook.problems.iter().map(|problem| problem.message.as_str()).collect();
        let message = format!("a run is due, and there is no node to measure: {}", why.join("; "));
        outlook.next = Err(Problem { reason: word::NO_NODES, message });
        outlook.again = Some(AGAIN);
        return Step::Rest;
    }
    Step::Begin(Begin { id, nodes, cause })
}

fn advance(situation: &Situation<'_>, run: &ActiveRun, pools: &[Pool]) -> Step {
    let is_final = |node: &ActiveNode| matches!(node.phase, NodePhase::Succeeded | NodePhase::Failed);
    if run.nodes.iter().all(is_final) {
        let failed: Vec<&ActiveNode> =
            run.nodes.iter().filter(|node| node.phase == NodePhase::Failed).collect();
        let message = failed.first().map(|node| {
            let why = node.message.as_deref().unwrap_or("no result");
            bounded(&format!("{} of {} nodes failed; {}: {why}", failed.len(), run.nodes.len(), node.node))
        });
        let outcome = if failed.is_empty() { RunOutcome::Succeeded } else { RunOutcome::Failed };
        return Step::Finish(Finish { outcome, message });
    }
    let mut step = Advance { nodes: Vec::new(), start: Vec::new(), results: Vec::new() };
    for node in &run.nodes {
        let mut node = node.clone();
        if !is_final(&node) {
            let (standing, sealed) = look(situation, run, &node, pools);
            (node.phase, node.message) = (standing.phase, standing.message.as_deref().map(bounded));
            match node.phase {
                NodePhase::Succeeded | NodePhase::Failed => step.results.push(NodeRecord {
                    pool: node.pool.clone(),
                    node: node.node.clone(),
                    sealed,
                    failure: node.message.clone(),
                }),
                NodePhase::Running if standing.starts => {
                    node.start_time = Some(Time(situation.now));
                    step.start.push(node.clone());
                }
                NodePhase::Running | NodePhase::Waiting => {}
            }
        }
        step.nodes.push(node);
    }
    Step::Advance(step)
}

/// Jobs that nobody needs: those of runs that are not kept, and those that go on although their run is over.
fn surplus(situation: &Situation<'_>) -> Vec<String> {
    let Situation { status, jobs, .. } = situation;
    let needed = |job: &JobView| {
        status.active.as_ref().is_some_and(|run| run.id == job.run)
            || status.runs.iter().any(|run| run.id == job.run && !job.is_active())
    };
    jobs.iter().filter(|job| !needed(job)).map(|job| job.name.clone()).collect()
}

/// The run that `begin` describes, under a key that was made for it.
#[must_use]
pub(super) fn active(situation: &Situation<'_>, begin: &Begin, key: &RunPublicKey) -> ActiveRun {
    let key = key.to_string();
    let tail = key.get(..8).unwrap_or_default();
    let node = |(pool, node): &(String, String)| ActiveNode {
        // With the key, so that a run which takes the name of an earlier one takes none of its Jobs.
        job: job_name(situation.owner.name, &[&begin.id, &key, pool, node]),
        pool: pool.clone(),
        node: node.clone(),
        phase: NodePhase::Waiting,
        start_time: None,
        message: None,
    };
    ActiveRun {
        id: begin.id.clone(),
        generation: situation.generation,
        level: situation.spec.level,
        secret: format!("{}-{tail}", stem(situation.owner.name)),
        start_time: Time(situation.now),
        nodes: begin.nodes.iter().map(node).collect(),
        key,
    }
}

/// A name that is the same each time, and short enough for a pod's host name.
fn job_name(benchmark: &str, parts: &[&str]) -> String {
    // FNV-1a: the names of one Benchmark's Jobs have to differ, and nobody gains by making two alike.
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{}-{hash:016x}", stem(benchmark))
}

/// The beginning of a name, as a DNS label.
fn stem(name: &str) -> String {
    let stem: String = name.replace('.', "-").chars().take(40).collect();
    stem.trim_end_matches('-').to_owned()
}

/// As far as a status holds it.
pub(super) fn bounded(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(MESSAGE_CHARS_MAX).collect()
}

/// From `now` to `then`, and a moment more, so that it has come.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    let wait = Duration::try_from(then.duration_since(now)).unwrap_or_default();
    wait.saturating_add(Duration::from_millis(100))
}
