//! What a Benchmark's status says. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sealane_operator_api::well_known::condition::{COMPLETE, DEGRADED, READY, REGRESSED, RUNNING, SCHEDULED};
use sealane_operator_api::{
    ActiveRun, Against, BenchmarkStatus, Level, NodePhase, PastRun, Regressed, RunOutcome, word,
};
use sealane_results::Summary;
use sealane_types::UnixSeconds;

use super::part::ends;
use super::records::Records;
use super::situation::Situation;
use super::step::{Cause, Finish, Outlook, bounded};
use super::transports::{self, Judgement};
use super::verdict;
use crate::condition::{Finding, conditions};

/// The status of a run that has begun.
pub(super) fn begun(status: &BenchmarkStatus, run: ActiveRun, cause: &Cause) -> BenchmarkStatus {
    let mut status = BenchmarkStatus { active: Some(run), ..status.clone() };
    match cause {
        Cause::Once => {}
        Cause::Schedule(time) => status.last_schedule_time = Some(Time(*time)),
        Cause::Request(request) => status.last_request = Some(request.clone()),
    }
    status
}

/// The status after a run, whose record ends in `records`; those of runs that are no longer kept go.
pub(super) fn finished(
    situation: &Situation<'_>,
    outlook: &Outlook,
    finish: &Finish,
    records: &mut Records,
) -> BenchmarkStatus {
    let mut status = situation.status.clone();
    let Some(run) = status.active.take() else { return status };
    records.end(&run, &situation.now.to_string());
    let mut finish = finish.clone();
    let measured = run.nodes.iter().filter(|node| node.phase == NodePhase::Succeeded).count();
    let found = match records.summaries(&run.id, &run.key, measured) {
        Ok(found) => found,
        // Somebody else has written to the ConfigMap.
        Err(why) if finish.outcome == RunOutcome::Succeeded => {
            finish = Finish { outcome: RunOutcome::Failed, message: Some(bounded(&why)) };
            Vec::new()
        }
        Err(_) => Vec::new(),
    };
    status.runs.insert(0, past(situation, run, measured, finish));
    let outcome = status.runs.first().map(|run| run.outcome);
    if outcome == Some(RunOutcome::Succeeded) {
        status.last_successful_time = Some(Time(situation.now));
        status.baseline = baseline(situation, &status);
        let (before, doubt) = match earlier(situation, &status, records) {
            Ok(before) => (before, None),
            Err(why) => (None, Some(bounded(&format!("not compared: {why}")))),
        };
        if let Some(run) = status.runs.first_mut() {
            run.message = doubt;
        }
        let tolerance =
            situation.spec.regression.as_ref().map_or(0, |regression| regression.tolerance_percent);
        let tolerance = f64::from(tolerance);
        let mut pools = verdict::pools(&found, before.as_deref(), tolerance, &outlook.tees);
        let mut pairs = verdict::pairs(&found, before.as_deref(), tolerance);
        if let Some(run) = status.runs.first() {
            let judgement = Judgement { found: &found, run, rules: &situation.spec.recommendation };
            judgement.complete(&mut pools, &status.pools, &outlook.present);
            judgement.complete(&mut pairs, &status.pairs, &outlook.present);
        }
        (status.pools, status.pairs) = (pools, pairs);
    }
    records.drop_runs(&prune(situation, &mut status));
    status
}

fn past(situation: &Situation<'_>, run: ActiveRun, measured: usize, finish: Finish) -> PastRun {
    PastRun {
        nodes: format!("{measured}/{}", run.nodes.len()),
        id: run.id,
        generation: run.generation,
        level: run.level,
        key: run.key,
        start_time: run.start_time,
        completion_time: Time(situation.now),
        outcome: finish.outcome,
        message: finish.message,
    }
}

/// Keeps what the limits say: the newest of each kind, and the baseline.
fn prune(situation: &Situation<'_>, status: &mut BenchmarkStatus) -> Vec<String> {
    let limit = |limit: i32| usize::try_from(limit).unwrap_or(1);
    let mut succeeded = limit(situation.spec.successful_runs_history_limit);
    let mut others = limit(situation.spec.failed_runs_history_limit);
    let baseline = status.baseline.clone();
    let mut dropped = Vec::new();
    status.runs.retain(|run| {
        let left = if run.outcome == RunOutcome::Succeeded { &mut succeeded } else { &mut others };
        let kept = *left > 0 || baseline.as_deref() == Some(&run.id);
        *left = left.saturating_sub(1);
        if !kept {
            dropped.push(run.id.clone());
        }
        kept
    });
    dropped
}

/// The figures that those of the newest run are compared with, if any are to be, or why none can be.
fn earlier(
    situation: &Situation<'_>,
    status: &BenchmarkStatus,
    records: &Records,
) -> Result<Option<Vec<Summary>>, String> {
    let Some(regression) = &situation.spec.regression else { return Ok(None) };
    let Some(newest) = status.runs.first() else { return Ok(None) };
    if newest.level == Level::Smoke {
        return Err("figures of level Smoke mean nothing".to_owned());
    }
    let succeeded = |run: &&PastRun| run.outcome == RunOutcome::Succeeded && run.level == newest.level;
    let mut earlier = status.runs.iter().skip(1).filter(succeeded);
    let (count, enough) = (earlier.clone().count(), usize::try_from(regression.minimum_runs).unwrap_or(1));
    if count < enough {
        return Err(format!("{count} earlier runs of this level succeeded, and {enough} are asked for"));
    }
    let reference = match regression.against {
        Against::Previous => earlier.next(),
        Against::Baseline => earlier.find(|run| status.baseline.as_deref() == Some(&run.id)),
    };
    let Some(reference) = reference else { return Err("this run is the baseline".to_owned()) };
    let measured = reference.nodes.split('/').next().and_then(|count| count.parse().ok()).unwrap_or(0);
    records.summaries(&reference.id, &reference.key, measured).map(Some)
}

/// The run that is the baseline from now on.
fn baseline(situation: &Situation<'_>, status: &BenchmarkStatus) -> Option<String> {
    let named = situation.spec.regression.as_ref().and_then(|regression| regression.baseline_run.as_ref());
    let level = situation.spec.level;
    let succeeded = |run: &&PastRun| run.outcome == RunOutcome::Succeeded && run.level == level;
    let named = named.and_then(|id| status.runs.iter().filter(succeeded).find(|run| run.id == *id));
    let held =
        status.baseline.as_ref().filter(|id| status.runs.iter().filter(succeeded).any(|run| run.id == **id));
    let first = || status.runs.iter().rev().find(succeeded).map(|run| run.id.clone());
    named.map(|run| run.id.clone()).or_else(|| held.cloned()).or_else(first)
}

/// The same status with its conditions and times.
pub(super) fn told(
    situation: &Situation<'_>,
    outlook: &Outlook,
    mut status: BenchmarkStatus,
) -> BenchmarkStatus {
    let now = UnixSeconds(u64::try_from(situation.now.as_second()).unwrap_or_default());
    let (scheduled, complete) = (scheduled(situation, outlook), complete(&status));
    let findings = vec![
        ready(&scheduled, &complete),
        scheduled,
        running(&status),
        complete,
        regressed(situation, &status),
        transports::recommended(situation, &status),
        degraded(outlook),
    ];
    status.next_schedule_time = outlook.next.as_ref().ok().copied().flatten().map(Time);
    status.conditions = conditions(&situation.status.conditions, findings, Some(situation.generation), now);
    status.observed_generation = Some(situation.generation);
    status
}

/// Runs begin when they are due, and the newest one did not fail.
fn ready(scheduled: &Finding, complete: &Finding) -> Finding {
    let decisive = if scheduled.holds() && complete.is_false() { complete } else { scheduled };
    decisive.of(READY)
}

fn scheduled(situation: &Situation<'_>, outlook: &Outlook) -> Finding {
    match &outlook.next {
        Ok(Some(next)) => {
            Finding::yes(SCHEDULED, word::ON_SCHEDULE, format!("the next run begins at {next}"))
        }
        Ok(None) => Finding::yes(
            SCHEDULED,
            word::ONCE,
            format!(
                "without a schedule there is one run for each generation; this is {}",
                situation.generation
            ),
        ),
        Err(problem) => Finding::not(SCHEDULED, problem),
    }
}

fn running(status: &BenchmarkStatus) -> Finding {
    let Some(run) = &status.active else { return Finding::no(RUNNING, word::NO_RUN, "no run goes on") };
    let of = |phase| run.nodes.iter().filter(|node| node.phase == phase).count();
    let over = of(NodePhase::Succeeded).saturating_add(of(NodePhase::Failed));
    let waits = run.nodes.iter().find_map(|node| Some((node, node.message.as_ref()?)));
    let waits = waits.map(|(node, message)| format!("; {}: {message}", ends(node))).unwrap_or_default();
    let message = format!("run {}: {over} of {} nodes are over{waits}", run.id, run.nodes.len());
    Finding::yes(RUNNING, word::MEASURING, message)
}

fn complete(status: &BenchmarkStatus) -> Finding {
    let Some(run) = status.runs.iter().find(|run| run.outcome != RunOutcome::Replaced) else {
        return Finding::unknown(COMPLETE, word::NO_RUN, "no run is over yet");
    };
    let nodes = format!("run {} measured {} nodes", run.id, run.nodes);
    match run.outcome {
        RunOutcome::Succeeded => Finding::yes(COMPLETE, word::RUN_SUCCEEDED, nodes),
        RunOutcome::Failed | RunOutcome::Replaced => {
            let why = run.message.as_deref().unwrap_or_default();
            Finding::no(COMPLETE, word::RUN_FAILED, format!("{nodes}: {why}"))
        }
    }
}

fn regressed(situation: &Situation<'_>, status: &BenchmarkStatus) -> Finding {
    if situation.spec.regression.is_none() {
        return Finding::no(REGRESSED, word::NOT_COMPARED, "spec.regression asks for no comparison");
    }
    let of_pools = status
        .pools
        .iter()
        .flat_map(|pool| pool.regressions.iter().map(move |row| ("in pool", &pool.name, row)));
    let of_pairs = status
        .pairs
        .iter()
        .flat_map(|pair| pair.regressions.iter().map(move |row| ("between", &pair.name, row)));
    let worse: Vec<String> = of_pools
        .chain(of_pairs)
        .map(|(place, name, Regressed { row, before, after, percent })| {
            format!("{row} {place} {name}: {after} after {before}, {percent} % worse")
        })
        .collect();
    let newest = status.runs.iter().find(|run| run.outcome == RunOutcome::Succeeded);
    if let Some(doubt) = newest.and_then(|run| run.message.as_deref()) {
        return Finding::unknown(REGRESSED, word::NOT_COMPARED, doubt);
    }
    if worse.is_empty() {
        return if newest.is_none() {
            Finding::no(REGRESSED, word::NOT_COMPARED, "no run has succeeded yet")
        } else {
            Finding::no(REGRESSED, word::NOT_WORSE, "nothing is worse beyond doubt and tolerance")
        };
    }
    Finding::yes(REGRESSED, word::WORSE, worse.join("; "))
}

fn degraded(outlook: &Outlook) -> Finding {
    let Some(first) = outlook.problems.first() else {
        return Finding::no(DEGRADED, word::AS_DECLARED, "every pool can be measured");
    };
    let all: Vec<&str> = outlook.problems.iter().map(|problem| problem.message.as_str()).collect();
    Finding::yes(DEGRADED, first.reason, all.join("; "))
}
