//! A process that does not outlive its handle, and never has the key of the run.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::process::{self, Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

/// The variable that holds the key of the run, for this program alone.
pub(crate) const KEY: &str = "SEALANE_BENCH_KEY";

/// A command for `program`, which inherits everything but the key.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_remove(KEY);
    command
}

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
        self.status("VmRSS:")
    }

    /// The most that ever was.
    pub(crate) fn peak_mebibytes(&self) -> Result<f64> {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> Result<f64> {
        let path = format!("/proc/{}/status", self.0.id());
        let status = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes =
            line.and_then(|line| line.split_whitespace().next()).with_context(|| format!("no {name}"))?;
        Ok(kibibytes.parse::<f64>()? / 1024.0)
    }

    /// Seconds that its threads have used of all cores so far, in their own code and in the kernel's for them.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        // Not `/proc/PID/stat`, which counts hundredths of a second.
        let clock = clock_getcpuclockid(Pid::from_raw(self.0.id().cast_signed()));
        let used: Duration = clock.and_then(ClockId::now).context("reading a process's clock")?.into();
        Ok(used.as_secs_f64())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that has ended already cannot be killed; that is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_process_tells_its_memory_and_its_time() {
        const COUNTS: &str = "i=0; while [ $i -lt 10000 ]; do i=$((i + 1)); done; echo counted; read -r end";
        let mut command = Command::new("sh");
        // It reads to the end of what nobody writes: another program in its place would have to start first.
        command.args(["-c", COUNTS]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = Child::start(&mut command).unwrap();
        let mut told = String::new();
        BufReader::new(child.inner().stdout.take().unwrap()).read_line(&mut told).unwrap();
        assert_eq!(told, "counted\n");
        let (now, most) = (child.resident_mebibytes().unwrap(), child.peak_mebibytes().unwrap());
        assert!(most > 0.0 && now <= most, "{now} {most}");
        let used = child.processor_seconds().unwrap();
        assert!((1e-4..60.0).contains(&used), "{used} s until it sleeps");
    }
}
