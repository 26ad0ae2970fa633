//! The runs of a Benchmark, and what they found as far as it could be verified.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use sealane_operator_api::{Benchmark, PairStatus, PastRun, PoolStatus, RunOutcome};
use sealane_results::{NodeRecord, Place, Record, RunPublicKey, Sealed, Site, Summary};
use serde::Serialize;

/// What is known of a Benchmark.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) namespace: String,
    pub(super) benchmark: String,
    /// The run that goes on.
    pub(super) active: Option<String>,
    /// Those that are over and kept, the newest first.
    pub(super) runs: Vec<Run>,
    /// What the operator says about the last run that succeeded.
    pub(super) pools: Vec<PoolStatus>,
    /// The same between nodes.
    pub(super) pairs: Vec<PairStatus>,
    /// What lies among the results and belongs to no run.
    pub(super) ignored: Vec<String>,
}

/// A run that is over.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) outcome: RunOutcome,
    /// The key by which its results are known, in hex.
    pub(super) key: String,
    pub(super) start_time: Time,
    pub(super) completion_time: Time,
    /// Nodes that were measured, of those that were to be.
    pub(super) measured: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// Why nothing is known of its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<String>,
    pub(super) nodes: Vec<NodeRun>,
}

/// One node of a run.
#[derive(Debug, Serialize)]
pub(super) struct NodeRun {
    pub(super) pool: String,
    pub(super) node: String,
    /// Where the other end was, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<Site>,
    #[serde(flatten)]
    pub(super) found: Found,
}

/// What came back from a node.
#[derive(Debug, Serialize)]
#[serde(tag = "verification")]
pub(super) enum Found {
    /// Signed with the key of the run, for this node.
    Verified { summary: Box<Summary> },
    /// Something that is no result of the run, and is not used.
    Refused { problem: String },
    /// Nothing.
    Missing { problem: String },
}

impl NodeRun {
    /// How people are told of it.
    pub(super) fn told(&self) -> String {
        let server = self.server.as_ref().map(|Site { pool, node }| format!(" → {pool}/{node}"));
        format!("{}/{}{}", self.pool, self.node, server.unwrap_or_default())
    }
}

impl Runs {
    /// `data` is that of the ConfigMap with the results, where there is one.
    pub(super) fn open(benchmark: &Benchmark, data: Option<&BTreeMap<String, String>>) -> Self {
        let status = benchmark.status.clone().unwrap_or_default();
        let runs: Vec<Run> = status.runs.iter().map(|run| Run::open(run, data)).collect();
        let active = status.active.map(|active| active.id);
        let known = runs.iter().map(|run| &run.id).chain(&active).map(|run| Record::key_of(run));
        let known: BTreeSet<String> = known.collect();
        let strange = data.into_iter().flat_map(BTreeMap::keys).filter(|key| !known.contains(*key));
        Self {
            namespace: benchmark.namespace().unwrap_or_default(),
            benchmark: benchmark.name_any(),
            ignored: strange.cloned().collect(),
            active,
            runs,
            pools: status.pools,
            pairs: status.pairs,
        }
    }

    pub(super) fn succeeded(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.outcome == RunOutcome::Succeeded)
    }
}

impl Run {
    fn open(past: &PastRun, data: Option<&BTreeMap<String, String>>) -> Self {
        let PastRun {
            id,
            generation: _,
            level: _,
            key,
            start_time,
            completion_time,
            outcome,
            nodes,
            message,
        } = past;
        let (found, problem) = match record(id, data) {
            Ok(record) => (opened(&record, key), None),
            Err(problem) => (Vec::new(), Some(problem.to_owned())),
        };
        Self {
            id: id.clone(),
            outcome: *outcome,
            key: key.clone(),
            start_time: start_time.clone(),
            completion_time: completion_time.clone(),
            measured: nodes.clone(),
            message: message.clone(),
            problem,
            nodes: found,
        }
    }

    /// What its nodes found and could be verified.
    pub(super) fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.nodes.iter().filter_map(|node| match &node.found {
            Found::Verified { summary } => Some(&**summary),
            Found::Refused { .. } | Found::Missing { .. } => None,
        })
    }

    /// How much was measured, as its nodes say.
    pub(super) fn level(&self) -> Option<&str> {
        self.summaries().next().map(|summary| summary.level.as_str())
    }
}

fn record(run: &str, data: Option<&BTreeMap<String, String>>) -> Result<Record, &'static str> {
    let text = data.ok_or("there is no ConfigMap with the results of the run")?.get(&Record::key_of(run));
    let text = text.ok_or("the results of the run are not in the ConfigMap")?;
    let record: Record = serde_json::from_str(text).map_err(|_| "the results of the run cannot be read")?;
    if record.run == run { Ok(record) } else { Err("what is kept as the results of the run is of another") }
}

/// Each node of a record counts by itself: one that was tampered with does not take the others along.
fn opened(record: &Record, key: &str) -> Vec<NodeRun> {
    let key: Option<RunPublicKey> = key.parse().ok();
    let mut seen = BTreeSet::new();
    let found = |record: &NodeRecord, place: &Place, first: bool| {
        let Some(sealed) = &record.sealed else {
            let problem = record.failure.clone().unwrap_or_else(|| "nothing came back".to_owned());
            return Found::Missing { problem };
        };
        if !first {
            return Found::Refused { problem: "the node is there twice".to_owned() };
        }
        let Some(key) = &key else {
            return Found::Refused { problem: "status names no key of the run".to_owned() };
        };
        match Sealed::new(sealed).open(key, place) {
            Ok(summary) => Found::Verified { summary: Box::new(summary) },
            Err(error) => Found::Refused { problem: error.to_string() },
        }
    };
    let node = |node: &NodeRecord| {
        let place = record.place(node);
        let found = found(node, &place, seen.insert(place.clone()));
        let Place { pool, node, server, .. } = place;
        NodeRun { pool, node, server, found }
    };
    record.nodes.iter().map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fixture::{Fixture, sealed};

    fn problem(run: &Run, node: usize) -> &str {
        match &run.nodes[node].found {
            Found::Refused { problem } | Found::Missing { problem } => problem,
            Found::Verified { .. } => "none",
        }
    }

    #[test]
    fn only_what_the_key_of_the_run_signed_for_the_node_is_believed() {
        let mut fixture = Fixture::new();
        let record = fixture.record("run-4");
        let [first, second] = [0, 1].map(|node| record.nodes[node].sealed.clone().unwrap());
        let elsewhere = "it is of run run-4, pool gpu, node gpu-0, not of run run-4, pool gpu, node gpu-1";
        let foreign = sealed("run-4", 3, ("gpu", "gpu-1"), 1.0);
        for (forged, why) in [
            (first, elsewhere),
            (foreign, "it is not signed with the key of its run"),
            ("all is well".to_owned(), "it is not in the form of a benchmark's result"),
            (second, "none"),
        ] {
            fixture.record_mut("run-4", |record| record.nodes[1].sealed = Some(forged));
            let runs = fixture.open();
            assert_eq!(problem(&runs.runs[0], 1), why);
            assert_eq!(problem(&runs.runs[0], 0), "none");
        }
        fixture.record_mut("run-4", |record| record.nodes[1].node = "gpu-0".to_owned());
        assert_eq!(problem(&fixture.open().runs[0], 1), "the node is there twice");
        fixture.status().runs[0].key = "7".to_owned();
        assert_eq!(problem(&fixture.open().runs[0], 0), "status names no key of the run");
    }

    #[test]
    fn a_run_without_readable_results_says_so() {
        let mut fixture = Fixture::new();
        let problem = |fixture: &Fixture| fixture.open().runs[0].problem.clone().unwrap();
        fixture.data.insert("run-4.json".to_owned(), "{".to_owned());
        assert_eq!(problem(&fixture), "the results of the run cannot be read");
        fixture.data.insert("run-4.json".to_owned(), fixture.data["run-3.json"].clone());
        assert_eq!(problem(&fixture), "what is kept as the results of the run is of another");
        fixture.data.remove("run-4.json");
        assert_eq!(problem(&fixture), "the results of the run are not in the ConfigMap");
        let runs = Runs::open(&fixture.benchmark, None);
        assert_eq!(
            runs.runs[0].problem.as_deref(),
            Some("there is no ConfigMap with the results of the run")
        );
    }

    #[test]
    fn results_that_belong_to_no_run_are_named() {
        let mut fixture = Fixture::new();
        assert!(fixture.open().ignored.is_empty());
        fixture.data.insert("run-9.json".to_owned(), "{}".to_owned());
        assert_eq!(fixture.open().ignored, ["run-9.json"]);
    }

    #[test]
    fn json_says_what_was_verified() {
        let value = serde_json::to_value(&Fixture::new().open().runs[1]).unwrap();
        assert_eq!((&value["id"], &value["outcome"]), (&"run-3".into(), &"Failed".into()));
        assert_eq!(value["nodes"][0]["verification"], "Verified");
        assert_eq!(value["nodes"][0]["summary"]["place"]["node"], "gpu-0");
        assert_eq!(value["nodes"][2]["verification"], "Missing");
        assert_eq!(value["nodes"][2]["problem"], "DeadlineExceeded");
    }
}
