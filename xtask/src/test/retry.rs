//! Failed tests run once more, alone: what passes then is flaky, and told as such.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use super::{
    case::{self, Case, Outcome},
    changed,
    files::Files,
    schedule::{Ended, Failure},
};
use crate::{process, progress};

/// More failures than this are no accident.
const CASES_MAX: usize = 10;
/// More flaky tests than this make a run red.
const FLAKY_MAX: usize = 3;

/// Runs the failed tests of each stage that failed because of them again. A stage all of whose tests pass then has passed.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn failed(root: &Path, stages: &mut [Ended], cases: &mut [(&'static str, Case)]) -> Result<()> {
    let is_failed = |case: &Case| matches!(case.outcome, Outcome::Failed(_));
    if cases.iter().filter(|(_, case)| is_failed(case)).count() > CASES_MAX {
        return Ok(());
    }
    for ended in stages.iter_mut().filter(|ended| ended.result == Err(Failure::Failed)) {
        let name = ended.stage.name;
        let mut of_stage: Vec<_> = cases
            .iter_mut()
            .filter(|(stage, case)| *stage == name && is_failed(case))
            .map(|(_, case)| case)
            .collect();
        if of_stage.is_empty() {
            continue;
        }
        progress::note(&format!("  … {name}: {} once more, alone", of_stage.len()));
        let names: Vec<_> = of_stage.iter().map(|case| case.name.clone()).collect();
        let passed = alone(root, name, &names)?;
        for case in &mut of_stage {
            if let Outcome::Failed(output) = &case.outcome
                && passed.contains(&case.name)
            {
                case.outcome = Outcome::Flaky(output.clone());
            }
        }
        if !of_stage.iter().any(|case| is_failed(case)) {
            ended.result = Ok(());
        }
    }
    Ok(())
}

/// Runs these tests of a stage, one after the other, and returns those that passed.
fn alone(root: &Path, stage: &str, names: &[String]) -> Result<Vec<String>> {
    let files = Files::of(root, stage);
    fs::write(files.only(), names.join("\n")).context("naming the failed tests")?;
    let log = File::options().append(true).open(files.log()).context("opening the log of a stage")?;
    let mut command = Command::new(process::own_program());
    command.args(["test", "--stage", stage]).env("SEALANE_SKIPS", files.skips());
    command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).current_dir(root);
    // That some fail again is what this is for.
    let _ = command.status().map_err(|error| process::start_error(&command, error))?;
    let again = case::read(&files.events())?;
    Ok(again.into_iter().filter(|case| case.outcome == Outcome::Passed).map(|case| case.name).collect())
}

/// What makes flaky tests a reason to refuse a run: too many, or one that this change touched.
pub(super) fn troubles<'a>(root: &Path, flaky: impl Iterator<Item = &'a Case>) -> Vec<String> {
    let flaky: Vec<_> = flaky.collect();
    let mut troubles = Vec::new();
    if flaky.len() > FLAKY_MAX {
        troubles.push(format!("{} tests are flaky; {FLAKY_MAX} may be", flaky.len()));
    }
    // Where there is no base, nothing is known to be changed.
    let changed = changed::base(root).and_then(|base| changed::files(root, &base).ok()).unwrap_or_default();
    for case in flaky {
        let defines = |path: &&String| {
            let text = fs::read_to_string(root.join(path)).unwrap_or_default();
            ["fn", "def"].iter().any(|word| text.contains(&format!("{word} {}(", case.function())))
        };
        if let Some(file) = changed.iter().find(defines) {
            troubles.push(format!("{} is flaky, and this change touched {file}", case.name));
        }
    }
    troubles
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Shows what a run makes of a flaky test: with `SEALANE_SHOW_FLAKY=FILE` it fails every other time, counted in the
    /// file; with `SEALANE_SHOW_FLAKY=always` it fails.
    #[test]
    fn fails_every_other_time_if_it_is_asked_to() {
        let Some(file) = std::env::var_os("SEALANE_SHOW_FLAKY") else { return };
        assert!(file != "always", "it fails whenever it runs");
        let times = fs::read(&file).map_or(0, |counted| counted.len());
        File::options().create(true).append(true).open(&file).unwrap().write_all(b".").unwrap();
        assert!(times % 2 == 1, "it fails this time, and passes the next");
    }

    #[test]
    fn more_than_three_flaky_tests_are_too_many() {
        let flaky = |name: &str| Case {
            name: format!("xtask::xtask$a::{name}"),
            seconds: 0.0,
            outcome: Outcome::Flaky(String::new()),
        };
        let cases = ["a", "b", "c", "d"].map(flaky);
        // No work tree: nothing is known to be changed.
        let root = tempfile::tempdir().unwrap();
        assert_eq!(troubles(root.path(), cases[..3].iter()), Vec::<String>::new());
        assert_eq!(troubles(root.path(), cases.iter()), ["4 tests are flaky; 3 may be"]);
    }
}
