//! Python environments: outside the tree, keyed by their pinned requirements.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use aws_lc_rs::digest::{SHA256, digest};

use crate::{cluster, process};

/// The interpreter of a virtual environment with exactly the packages of `requirements`, a file of the tree that also
/// names what they depend on.
///
/// # Errors
/// There is no Python of a version that they are pinned for, or no way to get them.
pub(crate) fn environment(root: &Path, requirements: &str) -> Result<PathBuf> {
    let pins = std::fs::read(root.join(requirements)).with_context(|| format!("reading {requirements}"))?;
    let folder =
        cluster::cache_folder()?.join(format!("python-{}", &hex::encode(digest(&SHA256, &pins))[..16]));
    let python = folder.join("bin/python");
    let ready = folder.join("ready");
    if ready.exists() {
        return Ok(python);
    }
    let lock = File::create(folder.with_extension("lock")).context("locking the Python environment")?;
    // Stages that begin together wait for the one that makes it.
    lock.lock().context("locking the Python environment")?;
    if ready.exists() {
        return Ok(python);
    }
    process::check(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    process::check(
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--require-hashes",
                "--no-deps",
                "--only-binary=:all:",
                "-r",
            ])
            .arg(root.join(requirements)),
    )?;
    std::fs::write(&ready, "").context("marking the Python environment ready")?;
    Ok(python)
}
