//! Python tests in an environment of their own, outside the tree, keyed by the pinned requirements.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use aws_lc_rs::digest::{SHA256, digest};

use super::stages::finish;
use crate::{cluster, process, target::Target};

const REQUIREMENTS: &str = "tests/requirements.txt";

/// The client's own tests, against real sidecars, and the vectors that Rust and Python both read.
pub(super) fn run(root: &Path) -> Result<()> {
    let python = environment(root)?;
    finish(
        Command::new(&python)
            .args(["-m", "pytest", "--quiet", "clients/python/tests", "tests/vectors"])
            .env("PYTHONPATH", root.join("clients/python/src"))
            .env("SEALANE_TEST_BINARIES", root.join("target/debug"))
            .current_dir(root),
    )
}

/// What the chart renders, with the helm that the cluster uses.
pub(super) fn chart(root: &Path) -> Result<()> {
    let python = environment(root)?;
    let target = Target::local()?;
    finish(
        Command::new(&python)
            .args(["-m", "pytest", "--quiet", "tests/chart"])
            .env("SEALANE_TEST_TOOLS", target.kubectl.bin())
            .current_dir(root),
    )
}

/// The interpreter of a virtual environment with exactly the pinned packages.
fn environment(root: &Path) -> Result<PathBuf> {
    let pins = std::fs::read(root.join(REQUIREMENTS)).with_context(|| format!("reading {REQUIREMENTS}"))?;
    let folder =
        cluster::cache_folder()?.join(format!("python-{}", &hex::encode(digest(&SHA256, &pins))[..16]));
    let python = folder.join("bin/python");
    let ready = folder.join("ready");
    if ready.exists() {
        return Ok(python);
    }
    process::check(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    process::check(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary=:all:", "-r"])
            .arg(root.join(REQUIREMENTS)),
    )?;
    std::fs::write(&ready, "").context("marking the Python environment ready")?;
    Ok(python)
}
