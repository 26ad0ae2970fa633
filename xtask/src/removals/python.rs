//! The tests of the Python client, in the copy.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;
use serde_json::Value;

use super::copy::Copy;

/// What names the client where others name a package.
pub(super) const PACKAGE: &str = "python";

/// One file of tests. Nothing is built: the programs that its tests start are those in the tree's `target/debug`.
pub(super) struct Pytest {
    interpreter: PathBuf,
    file: PathBuf,
}

impl Pytest {
    pub(super) fn new(interpreter: PathBuf, suite: &str) -> Self {
        Self { interpreter, file: Path::new("clients/python/tests").join(suite).with_extension("py") }
    }

    /// Runs the tests whose names contain one of `filters`; how they end is noted in `events`.
    pub(super) fn command(&self, copy: &Copy, filters: &[&str], events: &Path) -> Result<Command> {
        let tree = copy.tree();
        let mut command = Command::new(&self.interpreter);
        let paths = [tree.join("clients/python/src"), tree.join("tests/support")];
        command
            .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-p", "pytest_events"])
            .arg(&self.file)
            .args(["-k", &filters.join(" or ")])
            .env("PYTHONPATH", std::env::join_paths(paths)?)
            // Python compares times in whole seconds, and an edit may take less.
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("SEALANE_EVENTS", events)
            .env("SEALANE_TEST_BINARIES", copy.programs())
            .current_dir(tree);
        Ok(command)
    }
}

/// The names of the tests that ended so (`ok`, `failed`), as `tests/support/pytest_events.py` notes them.
pub(super) fn named(events: &Path, end: &str) -> Vec<String> {
    let text = std::fs::read_to_string(events).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let name = |event: Value| {
        let name = event["name"].as_str()?.rsplit("::").next()?.to_owned();
        (event["event"] == end).then_some(name)
    };
    events.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_by_how_they_ended() {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("events");
        let lines = [
            r#"{"type": "test", "event": "ok", "name": "pytest$tests/test_aio.py::test_one"}"#,
            r#"{"type": "test", "event": "failed", "name": "pytest$tests/test_aio.py::test_two[3]"}"#,
        ];
        std::fs::write(&events, lines.join("\n")).unwrap();
        assert_eq!(named(&events, "ok"), ["test_one"]);
        assert_eq!(named(&events, "failed"), ["test_two[3]"]);
    }
}
