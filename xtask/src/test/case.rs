//! Test cases and how they ended, from the events that cargo-nextest and pytest write in libtest's JSON format.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

/// One test of a stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    /// `BINARY$module::test`, or `pytest$file.py::test[case]`.
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// Left out by an attribute or a marker.
    Ignored,
    /// With what it printed.
    Failed(String),
    /// It failed, with this output, and passed alone.
    Flaky(String),
}

impl Case {
    /// The message and the output of a test that failed at least once.
    pub(super) fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Failed(output) | Outcome::Flaky(output) => Some(output),
            Outcome::Passed | Outcome::Ignored => None,
        }
    }

    /// The name of its function, without modules and parameters.
    pub(super) fn function(&self) -> &str {
        let path = self.name.split('[').next().unwrap_or_default();
        path.rsplit(['$', ':']).next().unwrap_or_default()
    }

    fn parse(line: &str) -> Option<Self> {
        let event: Value = serde_json::from_str(line).ok()?;
        if event.get("type")? != "test" {
            return None;
        }
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let outcome = match event.get("event")?.as_str()? {
            "ok" => Outcome::Passed,
            "ignored" => Outcome::Ignored,
            "failed" => Outcome::Failed(text("stdout")),
            _ => return None,
        };
        let seconds = event.get("exec_time").and_then(Value::as_f64).unwrap_or_default();
        Some(Self { name: text("name"), seconds, outcome })
    }
}

/// The cases in a file of events. A line that a stopped program left half written counts for nothing.
///
/// # Errors
/// A file that cannot be read; one that is not there has no cases.
pub(super) fn read(events: &Path) -> Result<Vec<Case>> {
    if !events.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(events).with_context(|| format!("reading {}", events.display()))?;
    Ok(text.lines().filter_map(Case::parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_libtest_become_cases() {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("events");
        assert_eq!(read(&events).unwrap(), []);
        let lines = [
            r#"{"type":"suite","event":"started","test_count":3}"#,
            r#"{"type":"test","event":"started","name":"xtask$a::b"}"#,
            r#"{"type":"test","event":"ok","name":"xtask$a::b","exec_time":0.5}"#,
            r#"{"type":"test","event":"failed","name":"sealane-sim::sim$c","exec_time":1,"stdout":"why"}"#,
            r#"{"type":"test","event":"ignored","name":"pytest$test_x.py::test_d[1]"}"#,
            r#"{"type":"test","event":"o"#,
        ];
        fs::write(&events, lines.join("\n")).unwrap();
        let cases = read(&events).unwrap();
        let seen: Vec<_> = cases.iter().map(|case| (case.function(), case.failure())).collect();
        assert_eq!(seen, [("b", None), ("c", Some("why")), ("test_d", None)]);
        assert_eq!(cases[2].outcome, Outcome::Ignored);
    }
}
