//! A process that does not outlive its handle.

use std::fs;
use std::io::ErrorKind;
use std::process::{self, Command, ExitStatus};

use anyhow::{Context as _, Result, anyhow};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Child(process::Child);

impl Child {
    /// Starts `command`; an error names the program.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.spawn().map(Self).map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!("{program} is not there"),
            _ => anyhow!(error).context(format!("starting {program}")),
        })
    }

    pub(crate) const fn inner(&mut self) -> &mut process::Child {
        &mut self.0
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().ok().flatten()
    }

    /// Memory that is in RAM now.
    pub(crate) fn resident_mebibytes(&self) -> Result<f64> {
        let path = format!("/proc/{}/status", self.0.id());
        let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()).context("no VmRSS")?;
        Ok(kibibytes.parse::<f64>()? / 1024.0)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended already cannot be killed; that is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
