//! cargo-nextest over the test programs of the one build, see `.config/nextest.toml`.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{files::Files, python, stages::finish};
use crate::{bench, dependencies, process, progress::print};

/// Environment of a stage: which Rust tests a narrowed run has, and which were changed.
pub(super) const FILTER: &str = "SEALANE_TEST_FILTER";
pub(super) const TOUCHED: &str = "SEALANE_TEST_TOUCHED";

/// How long changed tests are repeated, and how many at a time.
const REPEAT_SECONDS: Duration = Duration::from_secs(60);
const REPEAT_AT_ONCE: usize = 8;
const REPEATS: u32 = 10;

/// Where no wheel of it exists, it is built from source.
const VERSION: &str = "0.9.148";

/// One call of cargo-nextest.
#[derive(Debug)]
pub(super) struct Run<'a> {
    pub(super) profile: &'a str,
    /// Which tests: an expression in its filterset language.
    pub(super) filter: &'a str,
    /// Tests that are marked as ignored, instead of the others.
    pub(super) ignored: bool,
    pub(super) environment: Vec<(&'a str, String)>,
}

impl<'a> Run<'a> {
    pub(super) const fn of(filter: &'a str) -> Self {
        Self { profile: "default", filter, ignored: false, environment: Vec::new() }
    }

    /// Runs the tests, their events into the stage's file and the report for people into its log.
    ///
    /// # Errors
    /// A test failed, or there was none to run.
    pub(super) fn run(&self, root: &Path, files: &Files) -> Result<()> {
        let events = File::create(files.events()).context("creating the file of events")?;
        let mut command = nextest(root, files)?;
        command
            .args(["--profile", self.profile])
            .args(["--message-format", "libtest-json"])
            .env("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdout(events);
        if let Some(only) = only(files) {
            command.args(["--filterset", &only, "--test-threads", "1"]);
        } else {
            // Of a run that was narrowed, a stage may have nothing.
            let changed = std::env::var(FILTER).unwrap_or_else(|_| "all()".to_owned());
            command.args(["--filterset", &format!("({}) & ({changed})", self.filter), "--no-tests", "pass"]);
        }
        if self.ignored {
            command.args(["--run-ignored", "only"]);
        }
        finish(&mut command)
    }
}

/// Runs the named tests ten times each, as many of them as [`REPEAT_SECONDS`] allow, and says how many it left out.
///
/// # Errors
/// One of them failed once.
pub(super) fn repeat(root: &Path, files: &Files) -> Result<()> {
    let rust = std::env::var(TOUCHED).unwrap_or_default();
    let python = std::env::var(python::TOUCHED).unwrap_or_default();
    let [rust, python]: [Vec<_>; 2] = [&rust, &python].map(|names| names.split_whitespace().collect());
    let (began, all) = (Instant::now(), rust.len() + python.len());
    let mut left = all;
    let some = rust.chunks(REPEAT_AT_ONCE).map(|some| (false, some));
    for (is_python, some) in some.chain(python.chunks(REPEAT_AT_ONCE).map(|some| (true, some))) {
        if began.elapsed() > REPEAT_SECONDS {
            break;
        }
        if is_python {
            python::repeat(root, files, some, REPEATS)?;
        } else {
            let of = some.iter().map(|name| format!("test(/(^|::){name}$/)")).collect::<Vec<_>>().join(" | ");
            let mut command = nextest(root, files)?;
            command.args(["--stress-count", &REPEATS.to_string(), "--no-tests", "pass", "--filterset"]);
            finish(command.arg(format!("({of}) & not package(sealane-e2e)")))?;
        }
        left -= some.len();
    }
    if left > 0 {
        print(&format!("{left} of {all} new or changed tests were not repeated for want of time"));
    }
    Ok(())
}

/// cargo-nextest over what [`build`] built.
fn nextest(root: &Path, files: &Files) -> Result<Command> {
    let mut command = Command::new(python::tool(root, "cargo-nextest", VERSION)?);
    command
        .args(["nextest", "run", "--no-fail-fast", "--hide-progress-bar", "--no-input-handler"])
        .arg("--cargo-metadata")
        .arg(files.metadata())
        .arg("--binaries-metadata")
        .arg(files.binaries())
        .current_dir(root);
    if std::env::var_os(bench::PYTHON).is_none() {
        // With libraries that the system's interpreter may lack.
        command.env(bench::PYTHON, python::environment(root)?);
    }
    Ok(command)
}

/// Builds every program, library and test of the workspace, in the one form that everything of a run uses.
///
/// # Errors
/// The compiler's.
pub(super) fn build(root: &Path, files: &Files) -> Result<()> {
    let everything = ["--workspace", "--all-targets", "--locked"];
    finish(Command::new("cargo").arg("build").args(everything).current_dir(root))?;
    dependencies::keep(root).context("keeping what was built of registries")?;
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--format-version", "1", "--locked", "--all-features"]);
    write(metadata.current_dir(root), &files.metadata())?;
    let mut list = Command::new(python::tool(root, "cargo-nextest", VERSION)?);
    list.args(["nextest", "list", "--list-type", "binaries-only", "--message-format", "json"])
        .args(everything);
    write(list.current_dir(root), &files.binaries())
}

fn write(command: &mut Command, to: &Path) -> Result<()> {
    // A stage that runs by itself finds no folder that a whole run made.
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    }
    let file = File::create(to).with_context(|| format!("creating {}", to.display()))?;
    let status = command.stdout(file).stdin(Stdio::null()).status();
    let status = status.map_err(|error| process::start_error(command, error))?;
    ensure!(status.success(), "{} failed: {status}", command.get_program().display());
    Ok(())
}

/// The expression for the tests of the stage that failed before, if only those are asked for.
fn only(files: &Files) -> Option<String> {
    let names = fs::read_to_string(files.only()).ok()?;
    Some(names.lines().filter_map(named).collect::<Vec<_>>().join(" | "))
}

/// The expression for one test, as its event names it: `PACKAGE::PROGRAM$TEST`.
fn named(event: &str) -> Option<String> {
    let (binary, test) = event.split_once('$')?;
    let (package, program) = binary.split_once("::")?;
    Some(format!("(package(={package}) & binary(={program}) & test(={test}))"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_failed_is_found_again_by_its_event() {
        let found = named("sealane-sidecar::sealane_sidecar$door::tests::a").unwrap();
        assert_eq!(found, "(package(=sealane-sidecar) & binary(=sealane_sidecar) & test(=door::tests::a))");
    }
}
