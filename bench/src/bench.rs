//! One run: what is wanted, what came of it, and who is told meanwhile.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Level, Plan, Selection, Suite};
use crate::remote::Server;
use crate::row::{Missing, Row, RowId, Verdict};
use crate::suites;

/// Hears what is being measured.
pub trait Observer {
    /// A row begins.
    fn measuring(&mut self, id: &RowId);
    /// A row is there.
    fn measured(&mut self, row: &Row);
}

/// An observer that does not listen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silence;

impl Observer for Silence {
    fn measuring(&mut self, _: &RowId) {}
    fn measured(&mut self, _: &Row) {}
}

/// Where the programs are that some suites start.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `sealane-sidecar-sim`, as it would run in a pod.
    pub sidecar: PathBuf,
    /// This program: it floods from a process of its own.
    pub bench: PathBuf,
    /// The same program built for this processor alone, if there is one.
    pub native: Option<PathBuf>,
    /// Python 3.9 or newer.
    pub python: PathBuf,
    /// The folder that holds the package `sealane`.
    pub client: PathBuf,
}

/// What a suite could not do, in words for whoever runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    pub suite: Suite,
    pub error: String,
}

/// The state of a run.
pub struct Bench<'a> {
    pub plan: Plan,
    pub selection: Selection,
    pub programs: Programs,
    /// Where the other end of suites between machines is.
    server: Option<Server>,
    observer: &'a mut dyn Observer,
    rows: Vec<Row>,
    missing: Vec<Missing>,
    failures: Vec<Failure>,
}

/// What a run leaves behind.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    pub rows: Vec<Row>,
    pub missing: Vec<Missing>,
    pub failures: Vec<Failure>,
}

impl<'a> Bench<'a> {
    #[must_use]
    pub fn new(plan: Plan, selection: Selection, programs: Programs, observer: &'a mut dyn Observer) -> Self {
        let (rows, missing, failures) = (Vec::new(), Vec::new(), Vec::new());
        Self { plan, selection, programs, server: None, observer, rows, missing, failures }
    }

    /// With the other end of suites between machines on `server`.
    pub(crate) fn with_server(self, server: Option<Server>) -> Self {
        Self { server, ..self }
    }

    pub(crate) const fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// Runs every selected suite. One that fails, or panics, does not keep the others from running.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        for suite in Suite::ALL {
            if !self.selection.includes(suite) {
                continue;
            }
            // Rows are kept whole or not at all, and a suite shares nothing else with the next one.
            let ran = catch_unwind(AssertUnwindSafe(|| suites::run(suite, &mut self)));
            if let Err(error) = ran.unwrap_or_else(|panic| Err(panicked(&*panic))) {
                self.failures.push(Failure { suite, error: format!("{error:#}") });
            }
        }
        for missing in suites::not_measured(&self.selection) {
            self.missing(missing);
        }
        let Self { rows, missing, failures, .. } = self;
        Outcome { rows, missing, failures }
    }

    /// Whether any of a suite's rows is wanted; its set-up may be costly.
    pub(crate) fn wants_any<'i>(&self, ids: impl IntoIterator<Item = &'i RowId>) -> bool {
        ids.into_iter().any(|id| self.selection.wants(id))
    }

    pub(crate) fn measuring(&mut self, id: &RowId) {
        self.observer.measuring(id);
    }

    /// Keeps a row that is wanted. Nothing follows from the counts of a smoke run.
    pub(crate) fn row(&mut self, mut row: Row) {
        if self.plan.level == Level::Smoke {
            row.limits.iter_mut().for_each(|limit| limit.verdict = Verdict::Unclear);
        }
        if self.selection.wants(&row.id) {
            self.observer.measured(&row);
            self.rows.push(row);
        }
    }

    pub(crate) fn missing(&mut self, missing: Missing) {
        if self.selection.wants(&missing.id) {
            self.missing.push(missing);
        }
    }
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench")
            .field("plan", &self.plan)
            .field("rows", &self.rows.len())
            .finish_non_exhaustive()
    }
}

impl Outcome {
    /// Whether every suite ran and every result was right. Missed limits do not count: they are findings.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.failures.is_empty() && self.rows.iter().all(|row| row.correct)
    }
}

fn panicked(panic: &(dyn Any + Send)) -> anyhow::Error {
    let said = panic.downcast_ref::<&str>().copied();
    let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    anyhow!("it panicked: {}", said.unwrap_or("without a word"))
}

/// A result that every suite gives.
pub(crate) type Ran = Result<()>;

#[cfg(test)]
mod tests {
    use super::*;

    /// An observer that cannot stand rows of `frame`.
    #[derive(Debug)]
    struct Delicate;

    impl Observer for Delicate {
        fn measuring(&mut self, _: &RowId) {}
        fn measured(&mut self, row: &Row) {
            assert_ne!(row.suite, "frame", "no more");
        }
    }

    #[test]
    fn a_suite_that_panics_has_failed_and_the_next_one_runs() {
        let selection = Selection {
            suites: vec![Suite::Frame, Suite::Evidence],
            rows: vec!["W7".to_owned(), "verify/nitro".to_owned()],
            peers: Vec::new(),
        };
        let programs = Programs {
            sidecar: PathBuf::new(),
            bench: PathBuf::new(),
            native: None,
            python: PathBuf::new(),
            client: PathBuf::new(),
        };
        let outcome = Bench::new(Plan::of(Level::Smoke), selection, programs, &mut Delicate).run();
        let [Failure { suite: Suite::Frame, error }] = outcome.failures.as_slice() else {
            panic!("{:?}", outcome.failures)
        };
        assert!(error.starts_with("it panicked: ") && error.contains("no more"), "{error}");
        assert_eq!(outcome.rows.len(), 1, "the one of the suite after it");
    }
}
