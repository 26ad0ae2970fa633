//! What a Benchmark does next: begin a run, bring one forward, end one, or rest. Pure.
//!
//! All that a run is made of lies in the API server: the plan in the status, the work in Jobs, the results in a ConfigMap.
//! An operator that starts in the middle of a run finds all of it, and every step can be taken twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sealane_operator_api::{
    ActiveNode, ActiveRun, ActiveServer, ConcurrencyPolicy, NodePhase, RunOutcome, word,
};
use sealane_results::{NodeRecord, RunPublicKey, Site};

use super::job::Role;
use super::pairs::{Part, parts};
use super::part::{ends, is_final, record, sites};
use super::pool::{Pool, pools};
use super::schedule::Schedule;
use super::situation::Situation;
use super::standing::look;
use super::view::JobView;
use crate::spec::Problem;

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
    pub(super) parts: Vec<Part>,
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
    /// Jobs that have to be there.
    pub(super) start: Vec<(ActiveNode, Role)>,
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
    /// Pools that have nodes, whether or not they can be measured.
    pub(super) present: BTreeSet<String>,
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
    let (parts, left_out) = parts(&situation.spec.pairs, &pools);
    let unusable = pools.iter().filter_map(|pool| pool.chosen.clone().err());
    let mut outlook = Outlook {
        next: Ok(None),
        problems: unusable.chain(left_out).collect(),
        present: pools.iter().filter(|pool| !pool.nodes.is_empty()).map(|pool| pool.name.clone()).collect(),
        tees: pools.iter().filter_map(|pool| Some((pool.name.clone(), pool.tee?))).collect(),
        surplus: surplus(situation),
        again: None,
    };
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
        (None, Some(cause)) => begin(situation, cause, parts, &mut outlook),
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

fn begin(situation: &Situation<'_>, cause: Cause, parts: Vec<Part>, outlook: &mut Outlook) -> Step {
    let Situation { now, owner, generation, .. } = situation;
    let uid = owner.uid.get(..8).unwrap_or(owner.uid);
    let id = match &cause {
        Cause::Once => format!("{uid}-{generation}"),
        Cause::Schedule(time) => format!("{uid}-{generation}-{}", time.as_second()),
        Cause::Request(_) => format!("{uid}-{generation}-{}", now.as_second()),
    };
    if parts.is_empty() {
        let why: Vec<&str> = outlook.problems.iter().map(|problem| problem.message.as_str()).collect();
        let message = format!("a run is due, and there is no node to measure: {}", why.join("; "));
        outlook.next = Err(Problem { reason: word::NO_NODES, message });
        outlook.again = Some(AGAIN);
        return Step::Rest;
    }
    Step::Begin(Begin { id, parts, cause })
}

fn advance(situation: &Situation<'_>, run: &ActiveRun, pools: &[Pool]) -> Step {
    if run.nodes.iter().all(is_final) {
        let failed: Vec<&ActiveNode> =
            run.nodes.iter().filter(|node| node.phase == NodePhase::Failed).collect();
        let message = failed.first().map(|node| {
            let why = node.message.as_deref().unwrap_or("no result");
            bounded(&format!("{} of {} nodes failed; {}: {why}", failed.len(), run.nodes.len(), ends(node)))
        });
        let outcome = if failed.is_empty() { RunOutcome::Succeeded } else { RunOutcome::Failed };
        return Step::Finish(Finish { outcome, message });
    }
    let mut step = Advance { nodes: Vec::new(), start: Vec::new(), results: Vec::new() };
    for (place, node) in run.nodes.iter().enumerate() {
        let mut node = node.clone();
        if !is_final(&node) {
            let others = run.nodes.iter().skip(place.saturating_add(1));
            let mut taken = taken(step.nodes.iter().chain(others));
            // A Job of a part that is over, or of another run, may not have left its node yet.
            let lingering = situation.jobs.iter().filter(|job| job.is_active() && !is_of(job, &node));
            taken.extend(lingering.map(|job| job.node.clone()));
            let standing = look(situation, run, &node, pools, &taken);
            (node.phase, node.message) = (standing.phase, standing.message.as_deref().map(bounded));
            if let Some(role) = standing.starts {
                started(&mut node, role, standing.address, situation.now);
                step.start.push((node.clone(), role));
            }
            if is_final(&node) {
                step.results.push(record(&node, standing.sealed));
            }
        }
        step.nodes.push(node);
    }
    Step::Advance(step)
}

/// Notes that a Job of a part is made now.
fn started(node: &mut ActiveNode, role: Role, address: Option<String>, now: Timestamp) {
    match (role, &mut node.server) {
        (Role::Server, Some(server)) => server.start_time = Some(Time(now)),
        (_, server) => {
            node.start_time = Some(Time(now));
            server.iter_mut().for_each(|server| server.address.clone_from(&address));
        }
    }
}

/// Whether a Job is one of a part's.
fn is_of(job: &JobView, node: &ActiveNode) -> bool {
    node.job == job.name || node.server.as_ref().is_some_and(|server| server.job == job.name)
}

/// Nodes on which other parts go on.
fn taken<'a>(others: impl Iterator<Item = &'a ActiveNode>) -> BTreeSet<String> {
    let running = others.filter(|node| node.phase == NodePhase::Running);
    running.flat_map(sites).map(|(_, node)| node.to_owned()).collect()
}

/// Jobs that nobody needs: those of runs that are not kept, and those that go on although their run is over.
fn surplus(situation: &Situation<'_>) -> Vec<String> {
    let Situation { status, jobs, .. } = situation;
    // A server whose client is over serves nobody, and a client that has been given up measures for nobody.
    let serves = |run: &ActiveRun, job: &JobView| {
        !run.nodes.iter().find(|node| is_of(job, node)).is_some_and(is_final)
    };
    let needed = |job: &JobView| {
        let active = status.active.as_ref().filter(|run| run.id == job.run);
        active.is_some_and(|run| !job.is_active() || serves(run, job))
            || status.runs.iter().any(|run| run.id == job.run && !job.is_active())
    };
    jobs.iter().filter(|job| !needed(job)).map(|job| job.name.clone()).collect()
}

/// The run that `begin` describes, under a key that was made for it.
#[must_use]
pub(super) fn active(situation: &Situation<'_>, begin: &Begin, key: &RunPublicKey) -> ActiveRun {
    let key = key.to_string();
    let tail = key.get(..8).unwrap_or_default();
    // With the key, so that a run which takes the name of an earlier one takes none of its Jobs.
    let job = |parts: &[&str]| job_name(situation.owner.name, &[&[begin.id.as_str(), &key], parts].concat());
    let node = |Part { client, server }: &Part| {
        let Site { pool, node } = client;
        let to = server.iter().flat_map(|Site { pool, node }| [pool.as_str(), node.as_str()]);
        let ends: Vec<&str> = [pool.as_str(), node.as_str()].into_iter().chain(to).collect();
        ActiveNode {
            job: job(&ends),
            server: server.as_ref().map(|Site { pool, node }| ActiveServer {
                pool: pool.clone(),
                node: node.clone(),
                job: job(&[&ends, ["server"].as_slice()].concat()),
                start_time: None,
                address: None,
            }),
            pool: pool.clone(),
            node: node.clone(),
            phase: NodePhase::Waiting,
            start_time: None,
            message: None,
        }
    };
    ActiveRun {
        id: begin.id.clone(),
        generation: situation.generation,
        level: situation.spec.level,
        secret: format!("{}-{tail}", stem(situation.owner.name)),
        start_time: Time(situation.now),
        nodes: begin.parts.iter().map(node).collect(),
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
