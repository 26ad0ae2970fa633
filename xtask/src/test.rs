//! `cargo xtask test`: everything that decides whether a change is good, in one command and one summary.

mod python;
mod stages;

use std::{path::Path, time::Instant};

use anyhow::{Result, bail};

use crate::progress;

/// One stage: a name, what it runs, and how it went.
struct Outcome {
    name: &'static str,
    seconds: f64,
    failure: Option<String>,
}

/// What a run covers.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// The long suites too (FULL=1).
    pub full: bool,
    /// The end-to-end suites on the local cluster.
    pub cluster: bool,
}

/// Runs every stage, also after a failure: one run tells all that is wrong.
///
/// # Errors
/// At least one stage that failed, each named in the summary.
pub fn run(root: &Path, scope: Scope) -> Result<()> {
    let started = Instant::now();
    let mut outcomes = Vec::new();
    for stage in stages::all(scope) {
        // A stage that needs an earlier one to have passed says so itself by failing quickly.
        progress::note(&format!("\n== {}", stage.name));
        let begun = Instant::now();
        let failure = (stage.run)(root).err().map(|error| format!("{error:#}"));
        if let Some(failure) = &failure {
            progress::note(failure);
        }
        outcomes.push(Outcome { name: stage.name, seconds: begun.elapsed().as_secs_f64(), failure });
    }
    summary(&outcomes, started.elapsed().as_secs_f64())
}

fn summary(outcomes: &[Outcome], seconds: f64) -> Result<()> {
    progress::print("\nmake test");
    for outcome in outcomes {
        let mark = if outcome.failure.is_none() { "✓" } else { "✗" };
        progress::print(&format!("  {mark} {:<44} {:>7.1} s", outcome.name, outcome.seconds));
    }
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    progress::print(&format!("took {:.0} min {:02.0} s", (seconds / 60.0).floor(), seconds % 60.0));
    progress::print(&format!("{} passed, {failed} failed", outcomes.len() - failed));
    if failed > 0 {
        bail!("{failed} stage(s) failed");
    }
    Ok(())
}
