//! What a run says at its end, and leaves as JUnit.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};

use super::{
    case::{Case, Outcome},
    files::Files,
    schedule::Ended,
};
use crate::{process, progress::print};

const SLOWEST: usize = 15;
/// Names of tests that skipped for one reason.
const SKIPS_SHOWN: usize = 3;
/// Lines of one failure's output that the summary repeats.
const MESSAGE_LINES: usize = 6;
/// Of these, how many from the front if there are more.
const FIRST_LINES: usize = 2;
/// Failures whose output it repeats, so that a red run ends with all names.
const MESSAGES_MAX: usize = 8;

/// Everything that a run found.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) stages: Vec<Ended>,
    /// By stage.
    pub(super) cases: Vec<(&'static str, Case)>,
    /// Reason by test.
    pub(super) skips: BTreeMap<String, String>,
    /// What makes the run red besides failed stages.
    pub(super) troubles: Vec<String>,
}

impl Findings {
    fn count(&self, wanted: impl Fn(&Outcome) -> bool) -> usize {
        self.cases.iter().filter(|(_, case)| wanted(&case.outcome)).count()
    }

    fn failed(&self) -> impl Iterator<Item = &(&'static str, Case)> {
        self.cases.iter().filter(|(_, case)| matches!(case.outcome, Outcome::Failed(_)))
    }

    pub(super) fn flaky(&self) -> impl Iterator<Item = &(&'static str, Case)> {
        self.cases.iter().filter(|(_, case)| matches!(case.outcome, Outcome::Flaky(_)))
    }

    /// Prints the tables and, last, each failure with its message and its log.
    pub(super) fn print(&self, root: &Path, seconds: f64) {
        print("\nThe slowest tests");
        let mut slowest: Vec<_> = self.cases.iter().collect();
        slowest.sort_by(|(_, one), (_, other)| other.seconds.total_cmp(&one.seconds));
        slowest
            .iter()
            .take(SLOWEST)
            .for_each(|(_, case)| print(&format!("  {:>7.1} s  {}", case.seconds, case.name)));
        self.print_skips();
        print("\nStages");
        self.stages.iter().for_each(|stage| print(&stage.to_string()));
        for (stage, case) in self.flaky() {
            print(&format!("FLAKY {} ({stage})\n{}", case.name, message(case.failure().unwrap_or_default())));
        }
        for (index, (stage, case)) in self.failed().enumerate() {
            let log = Files::of(root, stage).log();
            let shown = if index < MESSAGES_MAX {
                message(case.failure().unwrap_or_default())
            } else {
                String::new()
            };
            print(&format!("FAILED {} ({})\n{shown}", case.name, log.display()));
        }
        self.of_stages(root);
        self.troubles.iter().for_each(|trouble| print(&format!("red: {trouble}")));
        if let Some(unchecked) = super::stages::unchecked() {
            print(&unchecked);
        }
        let (minutes, rest) = ((seconds / 60.0).floor(), seconds % 60.0);
        print(&format!(
            "{} tests: {} passed, {} failed, {} flaky, {} skipped, {} for FULL=1; took {minutes:.0} min {rest:02.0} s",
            self.cases.len() - self.count(|outcome| *outcome == Outcome::Ignored),
            self.count(|outcome| *outcome == Outcome::Passed).saturating_sub(self.skips.len()),
            self.failed().count(),
            self.flaky().count(),
            self.skips.len(),
            self.count(|outcome| *outcome == Outcome::Ignored),
        ));
    }

    /// Each reason with how many tests have it, and some of their names.
    fn print_skips(&self) {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, reason) in &self.skips {
            reasons.entry(reason).or_default().push(name);
        }
        for (reason, names) in reasons {
            let shown = names.iter().take(SKIPS_SHOWN).copied().collect::<Vec<_>>().join(", ");
            let more = if names.len() > SKIPS_SHOWN { ", …" } else { "" };
            print(&format!("skipped {}: {reason} ({shown}{more})", names.len()));
        }
    }

    /// The ends of the logs of stages that failed without a test that did.
    fn of_stages(&self, root: &Path) {
        let unexplained = |ended: &&Ended| {
            ended.result.is_err() && !self.failed().any(|(stage, _)| *stage == ended.stage.name)
        };
        for ended in self.stages.iter().filter(unexplained) {
            let log = Files::of(root, ended.stage.name).log();
            let said = fs::read(&log).unwrap_or_default();
            print(&format!("FAILED {} ({})", ended.stage.name, log.display()));
            print(process::tail(&String::from_utf8_lossy(&said)).trim_end());
        }
    }

    /// Writes every case, as programs read them that show test results.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn write_junit(&self, path: &Path) -> Result<()> {
        let mut text =
            String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"sealane\">\n");
        for stage in &self.stages {
            writeln!(text, "<testsuite name=\"{}\">", escaped(stage.stage.name))?;
            for (_, case) in self.cases.iter().filter(|(name, _)| *name == stage.stage.name) {
                let (class, name) = case.name.split_once('$').unwrap_or(("", &case.name));
                write!(
                    text,
                    "<testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">",
                    escaped(class),
                    escaped(name),
                    case.seconds
                )?;
                let output = escaped(case.failure().unwrap_or_default());
                match case.outcome {
                    Outcome::Passed => {}
                    Outcome::Ignored => text.push_str("<skipped/>"),
                    Outcome::Failed(_) => write!(text, "<failure>{output}</failure>")?,
                    Outcome::Flaky(_) => {
                        write!(text, "<flakyFailure message=\"passed alone\">{output}</flakyFailure>")?
                    }
                }
                text.push_str("</testcase>\n");
            }
            text.push_str("</testsuite>\n");
        }
        text.push_str("</testsuites>\n");
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }
}

/// The lines of a failure that say most: from the panic on, or the last ones. Of a program's log within an error, the
/// last lines say why it failed.
pub(super) fn message(output: &str) -> String {
    let lines: Vec<_> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let begin = lines.iter().position(|line| line.contains("panicked at") || line.starts_with("Error:"));
    let begin = begin.unwrap_or(lines.len().saturating_sub(MESSAGE_LINES));
    let told = &lines[begin..];
    let is_backtrace = |line: &&str| {
        line.to_lowercase().starts_with("stack backtrace") || line.starts_with("note: run with")
    };
    let told = &told[..told.iter().position(is_backtrace).unwrap_or(told.len())];
    let left_out = told.len().saturating_sub(MESSAGE_LINES);
    let (first, rest) = told.split_at(told.len().min(FIRST_LINES));
    let indented = |line: &&str| format!("    {line}\n");
    let gap = (left_out > 0).then(|| format!("    … {left_out} lines …\n"));
    first.iter().map(indented).chain(gap).chain(rest.iter().skip(left_out).map(indented)).collect()
}

/// For XML, without the control characters that it cannot hold.
fn escaped(text: &str) -> String {
    let allowed = text.chars().filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
    let mut escaped = String::new();
    for letter in allowed {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(outcome: Outcome) -> Case {
        Case { name: "sealane-sim::sim$pair::x".to_owned(), seconds: 1.0, outcome }
    }

    #[test]
    fn a_failure_is_told_from_its_panic_on() {
        let output = "running\nthread 'x' panicked at a.rs:1:\nassertion failed\n\nnote: more".to_owned();
        let told = message(&output);
        assert_eq!(told, "    thread 'x' panicked at a.rs:1:\n    assertion failed\n    note: more\n");
    }

    #[test]
    fn an_error_with_a_log_in_it_is_told_with_its_last_lines() {
        let trace: String = (0..9).map(|line| format!("  frame {line}\n")).collect();
        let output =
            format!("Error: pod/a failed:\n{trace}sealane.Timeout: closing\n\nStack backtrace:\n   0: main");
        let told = message(&output);
        assert!(told.starts_with("    Error: pod/a failed:\n      frame 0\n    … 5 lines …\n"), "{told}");
        assert!(told.ends_with("frame 8\n    sealane.Timeout: closing\n"), "{told}");
    }

    #[test]
    fn junit_tells_flaky_tests_apart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("junit.xml");
        let stage = &super::super::stages::STAGES[0];
        let ended = Ended { stage, took: std::time::Duration::ZERO, result: Ok(()) };
        let cases =
            [Outcome::Passed, Outcome::Flaky("a < b".to_owned())].map(|outcome| (stage.name, case(outcome)));
        let (skips, troubles) = (BTreeMap::new(), Vec::new());
        Findings { stages: vec![ended], cases: cases.into(), skips, troubles }.write_junit(&file).unwrap();
        let written = fs::read_to_string(file).unwrap();
        assert!(
            written.contains("<flakyFailure message=\"passed alone\">a &lt; b</flakyFailure>"),
            "{written}"
        );
        assert_eq!(written.matches("<testcase classname=\"sealane-sim::sim\"").count(), 2);
    }
}
