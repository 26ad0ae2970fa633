//! From a request to the end of its run, as the Benchmark's status tells it. Holds no client and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sealane_operator_api::well_known::condition::SCHEDULED;
use sealane_operator_api::{ActiveNode, ActiveRun, Benchmark, BenchmarkStatus, NodePhase};

/// Within this time an operator answers a request, unless another run goes on.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// A condition that says for so long why no run begins is an answer too.
const REFUSAL_WITHIN: Duration = Duration::from_secs(5);

/// A request for a run, and how far it is.
#[derive(Debug)]
pub(super) struct Progress {
    request: String,
    timeout: Duration,
    /// Runs that were there before.
    earlier: BTreeSet<String>,
    /// The last time that one of these went on.
    busy: Duration,
    /// The run that goes on in place of the one that was asked for, once that is said.
    other: Option<String>,
    /// The run that answers the request.
    run: Option<String>,
    /// What was said of each node last.
    nodes: BTreeMap<String, String>,
}

/// What there is to say, and whether that is all.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// What changed, a line each.
    pub(super) lines: Vec<String>,
    /// The run, once it is over.
    pub(super) over: Option<String>,
}

impl Progress {
    /// `asked` is the Benchmark when the request was written.
    pub(super) fn new(request: String, timeout: Duration, asked: &Benchmark) -> Self {
        let status = asked.status.as_ref();
        let past = status.into_iter().flat_map(|status| &status.runs).map(|run| run.id.clone());
        let active = status.and_then(|status| status.active.as_ref()).map(|active| active.id.clone());
        Self {
            request,
            timeout,
            earlier: past.chain(active).collect(),
            busy: Duration::ZERO,
            other: None,
            run: None,
            nodes: BTreeMap::new(),
        }
    }

    /// Takes in the Benchmark as it is `elapsed` after the request.
    ///
    /// # Errors
    /// Nothing more is to be waited for: why, and what to do.
    pub(super) fn see(&mut self, elapsed: Duration, benchmark: &Benchmark) -> Result<Step> {
        let status = benchmark.status.clone().unwrap_or_default();
        let mut step = Step::default();
        if self.run.is_none() {
            self.run = self.answer(&status);
            step.lines.extend(self.run.iter().map(|run| format!("run {run} begins")));
        }
        let Some(run) = self.run.clone() else {
            step.lines.extend(self.unanswered(elapsed, &status)?);
            return Ok(step);
        };
        if let Some(active) = status.active.as_ref().filter(|active| active.id == run) {
            step.lines.extend(self.changes(active));
            if elapsed >= self.timeout {
                bail!(
                    "run {run} still goes on after {} s; it is not stopped: `kubectl sealane bench report` tells of it when it is over",
                    self.timeout.as_secs()
                );
            }
            return Ok(step);
        }
        if !status.runs.iter().any(|past| past.id == run) {
            bail!("run {run} is gone: it neither goes on nor is it kept");
        }
        step.over = Some(run);
        Ok(step)
    }

    fn answer(&self, status: &BenchmarkStatus) -> Option<String> {
        let answered = status.last_request.as_ref() == Some(&self.request);
        let active = status.active.iter().map(|active| &active.id);
        let mut runs = active.chain(status.runs.iter().map(|run| &run.id)).filter(|_| answered);
        runs.find(|run| !self.earlier.contains(*run)).cloned()
    }

    /// What there is to say while no run has begun; an error when it is no use to wait any longer.
    fn unanswered(&mut self, elapsed: Duration, status: &BenchmarkStatus) -> Result<Option<String>> {
        if let Some(active) = status.active.as_ref().filter(|_| elapsed < self.timeout) {
            self.busy = elapsed;
            let is_news = self.other.as_ref() != Some(&active.id);
            self.other = Some(active.id.clone());
            return Ok(
                is_news.then(|| format!("run {} goes on; two at once would measure each other", active.id))
            );
        }
        let waited = elapsed.saturating_sub(self.busy);
        let refusal = status.conditions.iter().find(|condition| {
            condition.type_ == SCHEDULED && condition.status == "False" && waited >= REFUSAL_WITHIN
        });
        if let Some(Condition { reason, message, .. }) = refusal {
            bail!("no run begins: {reason}: {message}; `kubectl sealane explain {reason}` tells what to do");
        }
        if elapsed >= self.timeout {
            bail!("no run began within {} s; the request stays", self.timeout.as_secs());
        }
        if waited >= ANSWER_WITHIN {
            bail!(
                "the operator did not answer within {} s: `kubectl sealane check` tells whether it is well",
                ANSWER_WITHIN.as_secs()
            );
        }
        Ok(None)
    }

    fn changes(&mut self, active: &ActiveRun) -> Vec<String> {
        let mut changes = Vec::new();
        for ActiveNode { pool, node, job: _, server, phase, message, start_time: _ } in &active.nodes {
            let word = match phase {
                NodePhase::Waiting => "waits",
                NodePhase::Running => "is being measured",
                NodePhase::Succeeded => "is measured",
                NodePhase::Failed => "FAILED",
            };
            let message = message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
            let said = format!("{word}{message}");
            let server = server.as_ref().map(|server| format!(" → {}/{}", server.pool, server.node));
            let node = format!("{pool}/{node}{}", server.unwrap_or_default());
            if self.nodes.get(&node) != Some(&said) {
                changes.push(format!("{node} {said}"));
                self.nodes.insert(node, said);
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::bench::fixture::Fixture;

    fn with(status: Value) -> Benchmark {
        let mut benchmark = Fixture::new().benchmark;
        let mut merged = serde_json::to_value(benchmark.status.unwrap()).unwrap();
        merged.as_object_mut().unwrap().extend(status.as_object().cloned().unwrap());
        benchmark.status = serde_json::from_value(merged).unwrap();
        benchmark
    }

    fn running(phases: [(&str, Value); 2]) -> Benchmark {
        let node = |(node, (phase, message)): (&str, (&str, Value))| json!({"pool": "gpu", "node": node, "job": "j", "phase": phase, "message": message});
        let nodes: Vec<Value> = ["gpu-0", "gpu-1"].into_iter().zip(phases).map(node).collect();
        with(json!({"lastRequest": "now", "active": {
            "id": "run-5", "generation": 1, "key": "00", "secret": "s", "startTime": "2026-11-25T03:00:00Z",
            "nodes": nodes,
        }}))
    }

    fn over() -> Benchmark {
        let mut runs = serde_json::to_value(Fixture::new().status().runs.clone()).unwrap();
        let mut last = runs[0].clone();
        last["id"] = "run-5".into();
        runs.as_array_mut().unwrap().insert(0, last);
        with(json!({"lastRequest": "now", "runs": runs}))
    }

    fn progress() -> Progress {
        Progress::new("now".to_owned(), Duration::from_secs(60), &with(json!({})))
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn refusal(seconds: u64, benchmark: &Benchmark) -> Option<String> {
        progress().see(at(seconds), benchmark).err().map(|error| error.to_string())
    }

    #[test]
    fn a_run_is_followed_to_its_end_and_nothing_is_said_twice() {
        let mut progress = progress();
        assert_eq!(progress.see(at(0), &with(json!({}))).unwrap(), Step::default());
        let busy = running([("Running", Value::Null), ("Waiting", "its pool is busy".into())]);
        let lines = progress.see(at(1), &busy).unwrap().lines;
        assert_eq!(
            lines,
            ["run run-5 begins", "gpu/gpu-0 is being measured", "gpu/gpu-1 waits: its pool is busy"]
        );
        assert_eq!(progress.see(at(2), &busy).unwrap(), Step::default());
        let later = running([("Succeeded", Value::Null), ("Waiting", "its pool is busy".into())]);
        assert_eq!(progress.see(at(3), &later).unwrap().lines, ["gpu/gpu-0 is measured"]);
        assert_eq!(progress.see(at(4), &over()).unwrap().over.as_deref(), Some("run-5"));
    }

    #[test]
    fn a_run_that_was_over_before_anybody_looked_is_found() {
        let step = progress().see(at(1), &over()).unwrap();
        assert_eq!((step.over.as_deref(), step.lines.len()), (Some("run-5"), 1));
    }

    #[test]
    fn a_run_that_another_request_began_is_waited_for() {
        let mut foreign = running([("Running", Value::Null), ("Running", Value::Null)]);
        foreign.status.as_mut().unwrap().last_request = Some("then".to_owned());
        let mut progress = progress();
        let lines = progress.see(at(1), &foreign).unwrap().lines;
        assert_eq!(lines, ["run run-5 goes on; two at once would measure each other"]);
        assert_eq!(progress.see(at(40), &foreign).unwrap(), Step::default());
        // An operator has its time to answer from then on.
        assert_eq!(progress.see(at(59), &with(json!({}))).unwrap(), Step::default());
        let error = progress.see(at(60), &foreign).unwrap_err().to_string();
        assert_eq!(error, "no run began within 60 s; the request stays");
    }

    #[test]
    fn nothing_is_waited_for_without_end() {
        let silent = with(json!({}));
        assert_eq!(refusal(29, &silent), None);
        assert!(refusal(30, &silent).unwrap().contains("kubectl sealane check"));
        let mut progress = progress();
        let busy = running([("Running", Value::Null), ("Running", Value::Null)]);
        assert!(progress.see(at(59), &busy).is_ok());
        assert!(progress.see(at(60), &busy).unwrap_err().to_string().contains("still goes on after 60 s"));
        assert!(progress.see(at(61), &with(json!({}))).unwrap_err().to_string().contains("run-5 is gone"));
    }

    #[test]
    fn a_refusal_is_told_in_the_operators_words() {
        let refused = with(json!({"conditions": [{
            "type": "Scheduled", "status": "False", "reason": "Suspended", "message": "spec.suspend is true",
            "lastTransitionTime": "2026-11-20T00:00:00Z",
        }]}));
        assert_eq!(refusal(4, &refused), None);
        let told = refusal(5, &refused).unwrap();
        assert!(
            told.starts_with("no run begins: Suspended: spec.suspend is true; `kubectl sealane explain"),
            "{told}"
        );
    }
}
