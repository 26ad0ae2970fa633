//! A process that does not outlive its handle, and never has the key of the run.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::process::{self, Command, ExitStatus};

use anyhow::{Context as _, Result, anyhow};

/// Fields of `/proc/PID/stat`, numbered as in proc_pid_stat(5).
const STATE_PLACE: usize = 3;
const USER_PLACE: usize = 14;
const SYSTEM_PLACE: usize = 15;
/// In which those are counted for all programs, whatever the kernel's own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

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
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes =
            line.and_then(|line| line.split_whitespace().next()).with_context(|| format!("no {name}"))?;
        Ok(kibibytes.parse::<f64>()? / 1024.0)
    }

    /// Seconds that its threads have used of all cores so far, in their own code and in the kernel's for them.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        let stat = self.read("stat")?;
        // The name may hold anything; fields are counted from behind it. See proc_pid_stat(5).
        let (_, fields) = stat.rsplit_once(')').context("a process without a name")?;
        let ticks = |place: usize| -> Result<f64> {
            let field = fields.split_whitespace().nth(place - STATE_PLACE);
            Ok(field.context("a process without times")?.parse()?)
        };
        Ok((ticks(USER_PLACE)? + ticks(SYSTEM_PLACE)?) / TICKS_PER_SECOND)
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.0.id());
        fs::read_to_string(&path).with_context(|| format!("reading {path}"))
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
    use super::*;

    #[test]
    fn a_process_tells_its_memory_and_its_time() {
        let child = Child::start(Command::new("sleep").arg("60")).unwrap();
        let (now, most) = (child.resident_mebibytes().unwrap(), child.peak_mebibytes().unwrap());
        assert!(most > 0.0 && now <= most, "{now} {most}");
        assert!(child.processor_seconds().unwrap() >= 0.0);
    }
}
