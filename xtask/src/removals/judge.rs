//! The removals of one test program.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use super::{
    copy::Copy,
    list::Removal,
    outcome::Outcome,
    suite::{Broken, Built, Program, Said},
    switch::switched,
};
use crate::progress;

/// Runs of one program at once, for each core: most of them wait, some for minutes, until a test gives up.
const RUNS_PER_CORE: usize = 2;

/// Judges a group, which has one program, and tells of each when it is known.
pub(super) fn judge_all<'a>(
    copy: &Copy,
    group: &'a [Removal],
    mut tell: impl FnMut(&'a Removal, Outcome, Duration),
) -> Result<()> {
    let Some(suite) = group.first().map(Removal::suite) else { return Ok(()) };
    let step = format!("{suite} as it is");
    let Prepared { before, program, switched } = progress::step(&step, || prepare(copy, group))?;
    let runs = Mutex::new(group.iter().enumerate().filter(|(number, _)| switched.contains(number)));
    let next = || runs.lock().unwrap_or_else(PoisonError::into_inner).next();
    let judge_switched = |(number, removal): (usize, &'a Removal)| {
        let began = Instant::now();
        let outcome = match unusable(&before, &removal.tests) {
            Some(outcome) => outcome,
            None => said(program.run(copy, &[&removal.tests], Some(number))?),
        };
        anyhow::Ok((removal, outcome, began.elapsed()))
    };
    thread::scope(|scope| {
        let (judged, outcomes) = mpsc::channel();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores * RUNS_PER_CORE {
            let judged = judged.clone();
            // Nobody hears the rest once one could not be run.
            scope
                .spawn(move || std::iter::from_fn(next).try_for_each(|run| judged.send(judge_switched(run))));
        }
        drop(judged);
        outcomes.into_iter().try_for_each(|judged| {
            let (removal, outcome, took) = judged?;
            tell(removal, outcome, took);
            anyhow::Ok(())
        })
    })?;
    for (_, removal) in group.iter().enumerate().filter(|(number, _)| !switched.contains(number)) {
        let began = Instant::now();
        let outcome = match unusable(&before, &removal.tests) {
            Some(outcome) => outcome,
            None => judge(copy, removal)?,
        };
        tell(removal, outcome, began.elapsed());
    }
    Ok(())
}

/// A program with as many switches as could be made, and what its tests say while all of them are off.
struct Prepared {
    before: Said,
    program: Program,
    switched: Vec<usize>,
}

fn prepare(copy: &Copy, group: &[Removal]) -> Result<Prepared> {
    let filters: Vec<&str> = group.iter().map(|removal| removal.tests.as_str()).collect();
    let mut unfit = BTreeSet::new();
    let is_python = group.first().is_some_and(|removal| removal.suite().is_python());
    loop {
        let mut edits = Edits::default();
        let mut switches = Vec::new();
        for (number, removal) in group.iter().enumerate() {
            let both = |source: &str| match is_python {
                true => None,
                false => switched(source, &removal.find, &removal.replace, number),
            };
            if !unfit.contains(&removal.file) && edits.make(copy, removal, both)? {
                switches.push(number);
            }
        }
        let built = build(copy, group);
        edits.undo()?;
        match built? {
            Built::Program(program) => {
                let before = program.run(copy, &filters, None)?;
                return Ok(Prepared { before, program, switched: switches });
            }
            // Something does not bear a switch: what is in its file is built by itself.
            Built::Broken(Broken { error, files }) => {
                let known = unfit.len();
                unfit.extend(files);
                if unfit.len() == known {
                    bail!("it does not compile: {error}");
                }
            }
        }
    }
}

fn build(copy: &Copy, group: &[Removal]) -> Result<Built> {
    group.first().context("no removals")?.suite().build(copy)
}

/// What the tests say once the answer is gone, in a program of its own.
fn judge(copy: &Copy, removal: &Removal) -> Result<Outcome> {
    let mut edits = Edits::default();
    let mut wrong = None;
    edits.make(copy, removal, |source| removal.apply(source).map_err(|error| wrong = Some(error)).ok())?;
    if let Some(error) = wrong {
        return Ok(Outcome::NotEdited(error.to_string()));
    }
    let judged = removal.suite().build(copy).and_then(|built| match built {
        Built::Program(program) => Ok(said(program.run(copy, &[&removal.tests], None)?)),
        Built::Broken(Broken { error, .. }) => Ok(Outcome::NotEdited(error)),
    });
    edits.undo()?;
    judged
}

/// Files of the copy that were edited, as they were.
#[derive(Default)]
struct Edits(BTreeMap<PathBuf, String>);

impl Edits {
    /// Whether there was an edit to make.
    fn make(
        &mut self,
        copy: &Copy,
        removal: &Removal,
        edit: impl FnOnce(&str) -> Option<String>,
    ) -> Result<bool> {
        let path = copy.tree().join(&removal.file);
        let source = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let Some(edited) = edit(&source) else { return Ok(false) };
        std::fs::write(&path, edited)?;
        self.0.entry(path).or_insert(source);
        Ok(true)
    }

    fn undo(self) -> Result<()> {
        Ok(self.0.into_iter().try_for_each(|(path, source)| std::fs::write(path, source))?)
    }
}

/// Why the tests of a removal can say nothing, if they cannot.
fn unusable(before: &Said, tests: &str) -> Option<Outcome> {
    if before.hung {
        return Some(Outcome::Hung);
    }
    let of_it = |names: &[String]| names.iter().find(|name| name.contains(tests)).cloned();
    match (of_it(&before.failed), of_it(&before.passed)) {
        (Some(failed), _) => Some(Outcome::FailsAnyway(failed)),
        (None, None) => Some(Outcome::NoTest),
        (None, Some(_)) => None,
    }
}

fn said(Said { passed: _, failed, success, hung }: Said) -> Outcome {
    match (hung, success) {
        (true, _) => Outcome::Hung,
        (false, true) => Outcome::Missed,
        (false, false) => Outcome::Noticed(failed.first().cloned(), failed.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(passed: &[&str], failed: &[&str]) -> Said {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Said { passed: owned(passed), failed: owned(failed), success: failed.is_empty(), hung: false }
    }

    #[test]
    fn tests_that_are_missing_or_broken_say_nothing() {
        let before = told(&["trust::a_peer_is_refused"], &["trust::time_passes"]);
        assert_eq!(unusable(&before, "a_peer_is"), None);
        assert_eq!(unusable(&before, "renamed"), Some(Outcome::NoTest));
        assert_eq!(unusable(&before, "trust"), Some(Outcome::FailsAnyway("trust::time_passes".to_owned())));
        assert_eq!(unusable(&Said { hung: true, ..before }, "a_peer_is"), Some(Outcome::Hung));
    }

    #[test]
    fn only_a_failure_is_noticed() {
        assert_eq!(said(told(&["a"], &[])), Outcome::Missed);
        assert_eq!(said(told(&[], &["b", "c"])), Outcome::Noticed(Some("b".to_owned()), 2));
        // A test that ends the whole process has noticed as well.
        assert_eq!(said(Said { success: false, ..Said::default() }), Outcome::Noticed(None, 0));
    }
}
