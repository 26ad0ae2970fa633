//! What there is to say about a run, for every form of a report.

use sealane_operator_api::{KnownTransports, Regressed, RunOutcome, Transport};
use sealane_results::{Line, RowId, Summary};

use super::pools::{Pool, pools};
use super::runs::{Found, Run, Runs};

/// The word of a run whose figures mean nothing.
const SMOKE: &str = "smoke";

/// A run of a Benchmark, ready to be shown.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    pub(super) runs: &'a Runs,
    pub(super) run: &'a Run,
    pub(super) pools: Vec<Pool<'a>>,
    /// Pool by pool, as the operator tells them.
    pub(super) regressions: Vec<(&'a str, &'a Regressed)>,
}

/// A sentence beside the figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    /// Somebody has to do something about it.
    pub(super) grave: bool,
    pub(super) text: String,
}

impl<'a> Findings<'a> {
    pub(super) fn new(runs: &'a Runs, run: &'a Run) -> Self {
        // Status tells the regressions of one run alone.
        let told = runs.succeeded().next().is_some_and(|last| last.id == run.id);
        let of_pools = runs.pools.iter().map(|pool| (pool.name.as_str(), &pool.regressions));
        let of_pairs = runs.pairs.iter().map(|pair| (pair.name.as_str(), &pair.regressions));
        let regressions = of_pools
            .chain(of_pairs)
            .filter(|_| told)
            .flat_map(|(name, rows)| rows.iter().map(move |regressed| (name, regressed)))
            .collect();
        Self { runs, run, pools: pools(run), regressions }
    }

    /// The run in a sentence.
    pub(super) fn headline(&self) -> String {
        let Run { id, outcome, measured, start_time, .. } = self.run;
        let ended = match outcome {
            RunOutcome::Succeeded => "succeeded",
            RunOutcome::Failed => "failed",
            RunOutcome::Replaced => "was replaced by another",
        };
        let level = self.run.level().map(|level| format!(", level {level}")).unwrap_or_default();
        format!("Run {id}, begun {}, {ended}: {measured} nodes measured{level}", start_time.0)
    }

    /// What sessions with `Auto` would take within each group, whatever their policies list; known of the last run that
    /// succeeded alone.
    pub(super) fn recommended(&self) -> Vec<(&'a str, String)> {
        let last = self.runs.succeeded().next().is_some_and(|last| last.id == self.run.id);
        let of_pools = self.runs.pools.iter().map(|pool| (pool.name.as_str(), &pool.known));
        let of_pairs = self.runs.pairs.iter().map(|pair| (pair.name.as_str(), &pair.known));
        let told = |(name, known): (&'a str, &KnownTransports)| {
            let Transport { carrier, cipher } = known.recommended.as_ref()?;
            let run = known.transports_run.as_ref().filter(|run| **run != self.run.id);
            let run = run.map(|run| format!(" (as of run {run})")).unwrap_or_default();
            Some((name, format!("{carrier}+{cipher}{run}")))
        };
        of_pools.chain(of_pairs).filter(|_| last).filter_map(told).collect()
    }

    /// What the labels of a pool's nodes say of their hardware.
    pub(super) fn tee(&self, pool: &str) -> Option<&'a str> {
        self.runs.pools.iter().find(|known| known.name == pool)?.tee.as_deref()
    }

    pub(super) fn regressed(&self, pool: &str, row: &RowId) -> Option<&'a Regressed> {
        let of_row = self.regressions.iter().find(|(of, regressed)| *of == pool && regressed.row == row.0);
        of_row.map(|(_, regressed)| *regressed)
    }

    /// Whether its figures mean nothing.
    pub(super) fn is_smoke(&self) -> bool {
        self.run.level() == Some(SMOKE)
    }

    /// What has to be known beside the figures, what is wrong first.
    pub(super) fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut say = |grave, text: String| notes.push(Note { grave, text });
        if let Some(message) = self.run.message.as_ref().filter(|_| self.run.outcome != RunOutcome::Succeeded)
        {
            say(true, message.clone());
        }
        if let Some(problem) = &self.run.problem {
            say(true, problem.clone());
        }
        for node in &self.run.nodes {
            let place = node.told();
            match &node.found {
                Found::Refused { problem } => {
                    say(true, format!("{place}: what is kept of it is not used: {problem}"));
                }
                Found::Missing { problem } => say(true, format!("{place}: not measured: {problem}")),
                Found::Verified { summary } => summary.failures.iter().for_each(|failure| {
                    say(true, format!("{place}: {failure}"));
                }),
            }
        }
        for ignored in &self.runs.ignored {
            say(true, format!("{ignored} in the ConfigMap is of no run of this Benchmark, and is not used"));
        }
        if self.is_smoke() {
            say(true, "Level smoke: everything ran and was checked, and no figure means anything".to_owned());
        }
        self.left_out().into_iter().for_each(|text| say(false, text));
        notes
    }

    fn left_out(&self) -> Vec<String> {
        let place = |node: &Summary| format!("{}/{}", node.place.group(), node.place.node);
        let short = self.run.summaries().filter(|node| node.left_out > 0);
        let short = short.map(|node| format!("{}: rows that found no room: {}", place(node), node.left_out));
        let partial =
            self.pools.iter().map(|pool| (pool, pool.partial())).filter(|(_, rows)| !rows.is_empty());
        let partial = partial.map(|(pool, rows)| {
            let rows: Vec<&str> = rows.into_iter().map(|row| row.0.as_str()).collect();
            format!("{}: not on every node: {}", pool.name, rows.join(", "))
        });
        short.chain(partial).collect()
    }
}

/// How far a figure is to be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    None,
    /// The machine was too busy to compare on.
    Noisy,
    /// A result that was timed was not what it had to be.
    Wrong,
}

impl Doubt {
    pub(super) const fn of(line: &Line) -> Self {
        match (line.correct, line.noisy) {
            (false, _) => Self::Wrong,
            (true, true) => Self::Noisy,
            (true, false) => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fixture::Fixture;

    #[test]
    fn what_is_wrong_comes_first_and_by_name() {
        let mut fixture = Fixture::new();
        fixture.data.insert("run-9.json".to_owned(), "{}".to_owned());
        fixture.record_mut("run-3", |record| record.nodes[1].sealed = Some("all is well".to_owned()));
        let runs = fixture.open();
        let notes = Findings::new(&runs, &runs.runs[1]).notes();
        let texts: Vec<_> = notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "1 of 3 nodes failed",
                "gpu/gpu-1: what is kept of it is not used: it is not in the form of a benchmark's result",
                "cpu/cpu-0: not measured: DeadlineExceeded",
                "run-9.json in the ConfigMap is of no run of this Benchmark, and is not used",
            ]
        );
        assert!(notes.iter().all(|note| note.grave));
    }

    #[test]
    fn what_is_left_out_is_said() {
        let runs = Fixture::new().open();
        let notes = Findings::new(&runs, &runs.runs[0]).notes();
        let texts: Vec<_> = notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(texts, ["gpu/gpu-1: rows that found no room: 1", "gpu: not on every node: P2/1048576"]);
    }

    #[test]
    fn regressions_are_of_the_last_run_that_succeeded_alone() {
        let runs = Fixture::new().open();
        let last = Findings::new(&runs, &runs.runs[0]);
        assert!(last.regressed("cpu", &RowId("C3/65536".to_owned())).is_some());
        assert!(last.regressed("gpu", &RowId("C3/65536".to_owned())).is_none());
        assert!(Findings::new(&runs, &runs.runs[1]).regressions.is_empty());
    }

    #[test]
    fn what_is_recommended_is_told_of_the_last_run_and_names_another_that_it_is_from() {
        let mut fixture = Fixture::new();
        let known = |run: &str| KnownTransports {
            transports_run: Some(run.to_owned()),
            recommended: Some(Transport { carrier: "Tcp".to_owned(), cipher: "Aes256Gcm".to_owned() }),
            ..KnownTransports::default()
        };
        fixture.status().pools[0].known = known("run-4");
        fixture.status().pools[1].known = known("run-2");
        let runs = fixture.open();
        let told = Findings::new(&runs, &runs.runs[0]).recommended();
        let expected = ["Tcp+Aes256Gcm", "Tcp+Aes256Gcm (as of run run-2)"];
        assert_eq!(told.iter().map(|(_, words)| words.as_str()).collect::<Vec<_>>(), expected);
        assert!(Findings::new(&runs, &runs.runs[1]).recommended().is_empty());
    }

    #[test]
    fn figures_of_a_smoke_run_mean_nothing() {
        let mut fixture = Fixture::new();
        fixture.reseal("run-4", |summary| summary.level = "smoke".to_owned());
        let runs = fixture.open();
        let findings = Findings::new(&runs, &runs.runs[0]);
        assert!(findings.notes().iter().any(|note| note.grave && note.text.contains("no figure means")));
        assert!(findings.headline().ends_with("3/3 nodes measured, level smoke"), "{}", findings.headline());
    }
}
