//! The results of all runs that are kept, as a ConfigMap holds them. Pure.

use std::collections::BTreeMap;

use sealane_operator_api::{ActiveRun, NodePhase};
use sealane_results::{NodeRecord, Record, Summary};

use super::part;

/// What a ConfigMap may hold, with room for what surrounds it.
const RESULTS_BYTES_MAX: usize = 900 << 10;

/// What the ConfigMap with the results holds: JSON by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Records(pub(super) BTreeMap<String, String>);

impl Records {
    /// The record of a run. One that cannot be read counts as none: it was not written by this operator.
    #[must_use]
    pub(super) fn of(&self, run: &str) -> Option<Record> {
        serde_json::from_str(self.0.get(&Record::key_of(run))?).ok()
    }

    /// What a run found on the nodes that it measured, `measured` of them, or why it cannot be believed.
    pub(super) fn summaries(&self, run: &str, key: &str, measured: usize) -> Result<Vec<Summary>, String> {
        let record = self.of(run).ok_or_else(|| format!("there is no record of run {run}"))?;
        let key = key.parse().map_err(|_| format!("the key of run {run} is no key"))?;
        let ignored = |why: &dyn std::fmt::Display| format!("the record of run {run} is ignored: {why}");
        let found = record.open(&key).map_err(|error| ignored(&error))?;
        let sound = found.iter().filter(|summary| summary.sound).count();
        if sound < measured {
            return Err(ignored(&format_args!("it has {sound} results, and {measured} nodes were measured")));
        }
        Ok(found)
    }

    /// Adds what came back; a node that is there already keeps what it has.
    pub(super) fn add(&mut self, run: &ActiveRun, results: Vec<NodeRecord>) {
        let mut record = self.of(&run.id).unwrap_or_else(|| Record {
            run: run.id.clone(),
            began: run.start_time.0.to_string(),
            ..Record::default()
        });
        for result in results {
            if !record.nodes.iter().any(|node| record.place(node) == record.place(&result)) {
                record.nodes.push(result);
            }
        }
        self.put(&record);
    }

    /// Notes that a run is over, also for nodes of which nothing came.
    pub(super) fn end(&mut self, run: &ActiveRun, now: &str) {
        let silent = run.nodes.iter().filter(|node| node.phase != NodePhase::Succeeded);
        let silent = silent.map(|node| {
            let failure = node.message.clone().unwrap_or_else(|| "it was not measured".to_owned());
            NodeRecord { failure: Some(failure), ..part::record(node, None) }
        });
        self.add(run, silent.collect());
        if let Some(mut record) = self.of(&run.id) {
            record.ended = Some(now.to_owned());
            self.put(&record);
        }
    }

    pub(super) fn drop_runs(&mut self, runs: &[String]) {
        runs.iter().for_each(|run| _ = self.0.remove(&Record::key_of(run)));
    }

    fn put(&mut self, record: &Record) {
        // A record has no map whose keys are not text, which is all that JSON refuses.
        if let Ok(text) = serde_json::to_string(record) {
            self.0.insert(Record::key_of(&record.run), text);
        }
    }

    pub(super) fn bound(&mut self, newest: &[&str]) {
        let bytes = |data: &BTreeMap<String, String>| {
            data.iter().map(|(key, text)| key.len() + text.len()).sum::<usize>()
        };
        for run in newest.iter().skip(1).rev() {
            if bytes(&self.0) <= RESULTS_BYTES_MAX {
                return;
            }
            self.0.remove(&Record::key_of(run));
        }
    }
}
