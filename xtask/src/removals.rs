//! Takes the answers of docs/attacks.md away, one at a time, and demands that a test notices.
//!
//! The list is `tests/removals.yaml`, of Rust and of the Python client. Every edit is made in a copy of the tree with a build folder of its own, so that
//! nothing which lacks an answer can ever be started by mistake.

mod copy;
mod judge;
mod list;
mod outcome;
mod python;
mod suite;
mod switch;

use std::{
    fmt,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use self::{copy::Copy, judge::judge_all, list::Removal, outcome::Outcome};
use crate::progress;

/// One line of the summary.
struct Row<'a> {
    removal: &'a Removal,
    outcome: Outcome,
    took: Duration,
}

/// Runs every removal whose attack or suite contains `only`, and goes on after one that nobody noticed.
///
/// # Errors
/// An answer that no test misses, a test that fails with the answer in place, or an edit that does not compile.
pub fn run(root: &Path, only: Option<&str>) -> Result<()> {
    let chosen = list::chosen(root, only)?;
    let began = Instant::now();
    let copying = "Copying the tree, and the dependencies that are built";
    let copy = progress::step(copying, || Copy::make(root))?;
    let mut rows = Vec::with_capacity(chosen.len());
    // The list comes sorted, so that what has one test program lies together.
    for group in chosen.chunk_by(|one, next| one.suite() == next.suite()) {
        judge_all(&copy, group, |removal, outcome, took| {
            let row = Row { removal, outcome, took };
            progress::print(&format!("{:>4}/{} {row}", rows.len() + 1, chosen.len()));
            rows.push(row);
        })?;
    }
    summary(&rows, began.elapsed())
}

/// The table of everything, and an error that counts what is wrong.
fn summary(rows: &[Row<'_>], took: Duration) -> Result<()> {
    progress::print("");
    rows.iter().for_each(|row| progress::print(&row.to_string()));
    let troubles: Vec<_> = rows.iter().filter(|row| !row.outcome.is_noticed()).collect();
    let minutes = took.as_secs().div_ceil(60);
    if troubles.is_empty() {
        let count = rows.len();
        progress::print(&format!("{count} answers, and a test that misses each of them: {minutes} min"));
        return Ok(());
    }
    let lines: Vec<_> =
        troubles.iter().map(|row| format!("{}: {}", row.removal.attack, row.outcome)).collect();
    bail!("{} of {} answers after {minutes} min:\n{}", troubles.len(), rows.len(), lines.join("\n"))
}

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { removal, outcome, took } = self;
        let suite = removal.suite().to_string();
        write!(f, "{:>6.1} s  {suite:<31} {}: {outcome}", took.as_secs_f64(), removal.attack)
    }
}
