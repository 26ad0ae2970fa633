//! One test program: building it in the copy, and hearing what it says.

use std::{
    collections::BTreeSet,
    fmt,
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    copy::Copy,
    python::{self, Pytest},
    switch,
};
use crate::{process, test};

/// Every test has deadlines of its own, which are shorter.
const RUN_TIME_MAX: Duration = Duration::from_secs(300);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The tests in the library of a package (`lib`) or in its program (`bin`), one of its test targets, or a file of tests of the
/// Python client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Suite<'a> {
    pub(super) package: &'a str,
    pub(super) name: &'a str,
}

/// What a build gave.
pub(super) enum Built {
    Program(Program),
    Broken(Broken),
}

/// Why there is no program.
pub(super) struct Broken {
    /// The first error of the compiler.
    pub(super) error: String,
    /// Where there are errors, from the root of the tree on.
    pub(super) files: BTreeSet<PathBuf>,
}

/// A test program that can be run.
pub(super) enum Program {
    Rust { path: PathBuf, package: PathBuf },
    Python(Pytest),
}

/// What the tests of a program said.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) passed: Vec<String>,
    pub(super) failed: Vec<String>,
    pub(super) success: bool,
    pub(super) hung: bool,
}

impl Suite<'_> {
    pub(super) fn is_python(&self) -> bool {
        self.package == python::PACKAGE
    }

    /// Builds what it takes to run these tests, and no more.
    pub(super) fn build(&self, copy: &Copy) -> Result<Built> {
        if self.is_python() {
            let interpreter = test::python_environment(&copy.tree())?;
            return Ok(Built::Program(Program::Python(Pytest::new(interpreter, self.name))));
        }
        let mut command = copy.cargo();
        command.args(["test", "--no-run", "--message-format=json", "--package", self.package]);
        match self.name {
            "lib" => command.arg("--lib"),
            "bin" => command.arg("--bins"),
            name => command.args(["--test", name]),
        };
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| process::start_error(&command, error))?;
        let told = String::from_utf8_lossy(&output.stdout);
        let told: Vec<Value> = told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        match told.iter().find_map(program).filter(|_| output.status.success()) {
            Some(program) => Ok(Built::Program(program)),
            None => {
                let errors: Vec<_> = told.iter().filter_map(error).collect();
                // What cargo itself refuses, an unknown package for one, it says elsewhere.
                let said = || process::tail(&String::from_utf8_lossy(&output.stderr)).trim().to_owned();
                let first = errors.first().map(|(text, _)| text.clone());
                let files = errors.into_iter().flat_map(|(_, files)| files).collect();
                Ok(Built::Broken(Broken { error: first.unwrap_or_else(said), files }))
            }
        }
    }
}

impl fmt::Display for Suite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.package, self.name)
    }
}

/// The test program, if this message of cargo is about it.
fn program(message: &Value) -> Option<Program> {
    let is_test = message.pointer("/profile/test")?.as_bool()?;
    let path = PathBuf::from(message.get("executable")?.as_str()?);
    let package = PathBuf::from(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
    is_test.then_some(Program::Rust { path, package })
}

/// What the compiler says first about an error, and where it is, if this message tells of one.
fn error(message: &Value) -> Option<(String, BTreeSet<PathBuf>)> {
    let is_error = message.pointer("/message/level")?.as_str()? == "error";
    let text = message.pointer("/message/message")?.as_str()?.lines().next().unwrap_or_default();
    let spans = message.pointer("/message/spans").and_then(Value::as_array).into_iter().flatten();
    let files = spans.filter_map(|span| span.get("file_name")?.as_str()).map(PathBuf::from);
    is_error.then(|| (text.to_owned(), files.collect()))
}

impl Program {
    /// Runs the tests whose names contain one of `filters`, without the answer of a switch if one is named.
    pub(super) fn run(&self, copy: &Copy, filters: &[&str], without: Option<usize>) -> Result<Said> {
        let log = copy.log(without.unwrap_or(0));
        let events = log.with_extension("json");
        let mut command = match self {
            Self::Rust { path, package } => rust_tests(path, package, filters),
            Self::Python(pytest) => {
                // Of the run before.
                std::fs::write(&events, "").with_context(|| format!("writing {}", events.display()))?;
                pytest.command(copy, filters, &events)?
            }
        };
        command
            .stdin(Stdio::null())
            .stdout(File::create(&log).with_context(|| format!("creating {}", log.display()))?)
            .stderr(Stdio::null())
            // Programs that a test starts end with it.
            .process_group(0);
        if let Some(number) = without {
            command.env(switch::VARIABLE, number.to_string());
        }
        let mut child = command.spawn().map_err(|error| process::start_error(&command, error))?;
        let status = wait(&mut child)?;
        let (passed, failed): (Vec<_>, Vec<_>) = match self {
            Self::Rust { .. } => {
                let said = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
                (named(&said, "ok").collect(), named(&said, "FAILED").collect())
            }
            Self::Python(_) => (python::named(&events, "ok"), python::named(&events, "failed")),
        };
        let success = match self {
            Self::Rust { .. } => status.is_some_and(|status| status.success()),
            // Whatever else it says is not about a test: an edit that is no Python, for one.
            Self::Python(_) => failed.is_empty(),
        };
        Ok(Said { passed, failed, success, hung: status.is_none() })
    }
}

fn rust_tests(path: &Path, package: &Path, filters: &[&str]) -> Command {
    let mut command = Command::new(path);
    command
        .args(filters)
        .current_dir(package)
        .env("CARGO_MANIFEST_DIR", package)
        // That an input fails is enough to know here; its smallest form is not worth minutes.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
    command
}

/// Waits for the end of a test program, and ends it when it does not come.
fn wait(child: &mut Child) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > RUN_TIME_MAX {
            let group = rustix::process::Pid::from_child(child);
            // It may have ended just now.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The names of the tests that ended so.
fn named<'a>(said: &'a str, end: &str) -> impl Iterator<Item = String> + use<'a> {
    let end = format!(" ... {end}");
    said.lines().filter_map(move |line| {
        let name = line.strip_prefix("test ")?.strip_suffix(&end)?;
        Some(name.trim_end_matches(" - should panic").to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_by_how_they_ended() {
        let said = "\nrunning 3 tests\ntest a::one ... ok\ntest two ... FAILED\ntest three ... ignored\n\
                    test four - should panic ... ok\n\ntest result: FAILED. 2 passed; 1 failed\n";
        assert_eq!(named(said, "ok").collect::<Vec<_>>(), ["a::one", "four"]);
        assert_eq!(named(said, "FAILED").collect::<Vec<_>>(), ["two"]);
    }

    #[test]
    fn messages_of_cargo_are_understood() {
        let built = serde_json::json!({
            "reason": "compiler-artifact", "manifest_path": "/tree/protocol/Cargo.toml",
            "profile": { "test": true }, "executable": "/target/debug/deps/pair-1"
        });
        let Some(Program::Rust { path, package }) = program(&built) else { panic!("no program") };
        assert_eq!(
            (path.to_str(), package.to_str()),
            (Some("/target/debug/deps/pair-1"), Some("/tree/protocol"))
        );
        let library = serde_json::json!({ "profile": { "test": false }, "executable": null });
        assert!(program(&library).is_none());
        let mistake = serde_json::json!({ "message": {
            "level": "error", "message": "mismatched types\nmore", "spans": [{ "file_name": "cli/src/main.rs" }]
        } });
        let (text, files) = error(&mistake).unwrap();
        assert_eq!((text.as_str(), files), ("mismatched types", ["cli/src/main.rs".into()].into()));
        let warning = serde_json::json!({ "message": { "level": "warning", "message": "unused" } });
        assert!(error(&warning).is_none());
    }
}
