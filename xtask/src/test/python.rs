//! Python tests, and the environment that they and some tools come from.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::{files::Files, stages::finish};
use crate::{cluster, process, python, target::Target};

/// Environment of a stage: which Python tests were changed.
pub(super) const TOUCHED: &str = "SEALANE_TEST_TOUCHED_PYTHON";
/// Environment of pytest: tests do all that they can. The part of `make test` that asks for it says so, and no other: what takes
/// minutes takes an hour under load.
const FULL: &str = "FULL";
const REQUIREMENTS: &str = "tests/requirements.txt";

/// The client's own tests, against real sidecars, and the vectors that Rust and Python both read.
pub(super) fn run(root: &Path, files: &Files) -> Result<()> {
    let mut pytest = pytest(root, files, &["clients/python/tests", "tests/vectors"])?;
    // What a file starts is started once. A test that takes its worker with it would be begun again sixteen times.
    pytest.args(["-n", "4", "--dist", "loadfile", "--max-worker-restart", "0"]);
    finish(pytest.env("SEALANE_TEST_BINARIES", root.join("target/debug")))
}

/// What of the client's tests takes minutes if it is done in full.
pub(super) fn long(root: &Path, files: &Files) -> Result<()> {
    let mut pytest = pytest(root, files, &["clients/python/tests/test_leaks.py"])?;
    finish(pytest.env("SEALANE_TEST_BINARIES", root.join("target/debug")).env(FULL, "1"))
}

/// Runs the named tests so often, one after another.
pub(super) fn repeat(root: &Path, files: &Files, tests: &[&str], times: u32) -> Result<()> {
    let mut pytest = pytest(root, files, tests)?;
    pytest.env("SEALANE_TEST_BINARIES", root.join("target/debug"));
    finish(pytest.env("SEALANE_REPEATS", times.to_string()))
}

/// What the chart renders, with the helm that the cluster uses.
pub(super) fn chart(root: &Path, files: &Files) -> Result<()> {
    let target = Target::local()?;
    finish(pytest(root, files, &["tests/chart"])?.env("SEALANE_TEST_TOOLS", target.kubectl.bin()))
}

/// The chart's alerts by Prometheus's own tool, which has to be built.
pub(super) fn alerts(root: &Path, files: &Files) -> Result<()> {
    let target = Target::local()?;
    let mut pytest = pytest(root, files, &["tests/chart/test_monitoring.py"])?;
    finish(pytest.env("SEALANE_TEST_TOOLS", target.kubectl.bin()).env(FULL, "1"))
}

/// pytest over `suites`, or over those of their tests that alone shall run.
fn pytest(root: &Path, files: &Files, suites: &[&str]) -> Result<Command> {
    let mut command = Command::new(environment(root)?);
    command.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-p", "pytest_events"]);
    let paths = [root.join("clients/python/src"), root.join("tests/support")];
    command
        .env("PYTHONPATH", std::env::join_paths(paths)?)
        .env("SEALANE_EVENTS", files.events())
        .env_remove(FULL)
        .current_dir(root);
    match std::fs::read_to_string(files.only()) {
        Ok(names) => command.args(names.lines().filter_map(|name| name.strip_prefix("pytest$"))),
        Err(_) => command.args(suites),
    };
    Ok(command)
}

/// The interpreter that tests run in.
pub(crate) fn environment(root: &Path) -> Result<PathBuf> {
    python::environment(root, REQUIREMENTS)
}

/// A program of the Rust tool chain that a pinned wheel holds; built where there is no wheel for this machine.
pub(super) fn tool(root: &Path, name: &str, version: &str) -> Result<PathBuf> {
    let wheel = environment(root)?.with_file_name(name);
    if wheel.exists() {
        return Ok(wheel);
    }
    let folder = cluster::cache_folder()?.join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if !program.exists() {
        let install = ["install", name, "--version", version, "--locked", "--quiet", "--root"];
        process::check(Command::new("cargo").args(install).arg(&folder))?;
    }
    Ok(program)
}
