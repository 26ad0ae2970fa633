//! The few steps that need root: namespaces, mounts, cgroups, and `apt-get update`.

use std::{env, ffi::OsStr, os::unix::fs::chown, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::place::Place;
use crate::process::{own_program, require, start_error};

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command that runs as root: unchanged for root, through sudo for anyone else.
pub(super) fn command(program: impl AsRef<OsStr>) -> Result<Command> {
    if is_root() {
        return Ok(Command::new(program));
    }
    require(&["sudo"])?;
    let mut command = Command::new("sudo");
    command.arg("--").arg(program);
    Ok(command)
}

/// Lets sudo ask for its password, which it then remembers for some minutes.
pub(super) fn ask() -> Result<()> {
    if is_root() {
        return Ok(());
    }
    require(&["sudo"])?;
    let status = Command::new("sudo").arg("--validate").status().context("start sudo")?;
    ensure!(status.success(), "the local cluster needs root for some steps, and sudo refused");
    Ok(())
}

/// Does `work` at once for root. For anyone else, runs this program again as `cluster ARGUMENTS` through sudo, which
/// then gets here as root.
pub(super) fn as_root(place: &Place, arguments: &[&OsStr], work: impl FnOnce() -> Result<()>) -> Result<()> {
    if is_root() {
        return work();
    }
    // sudo clears the environment and changes HOME, so both folders are named to it.
    let mut command = command("env")?;
    for (name, folder) in [("SEALANE_CACHE", &place.cache), ("SEALANE_STATE", &place.state)] {
        command.arg(format!("{name}={}", folder.display()));
    }
    command.arg(own_program()).arg("cluster").args(arguments);
    let status = command.status().map_err(|error| start_error(&command, error))?;
    ensure!(status.success(), "the steps that need root failed");
    Ok(())
}

/// Gives a file to the person who called sudo, if anyone did.
pub(super) fn give_to_caller(path: &Path) -> Result<()> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse().ok());
    if let (true, Some(user), Some(group)) = (is_root(), number("SUDO_UID"), number("SUDO_GID")) {
        chown(path, Some(user), Some(group))
            .with_context(|| format!("change the owner of {}", path.display()))?;
    }
    Ok(())
}
