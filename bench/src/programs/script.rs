//! The Python ends: applications as users write them. One process per end; it reads a task per line and answers each
//! with a line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::child::Child;
use crate::bench::Programs;
use crate::programs::Host;

const SOURCE: &str = include_str!("script/ends.py");

/// What an end does next: `count` messages of `bytes` bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Task {
    pub(crate) bytes: usize,
    pub(crate) count: u64,
    /// Compare every byte.
    pub(crate) thorough: bool,
    /// Messages per second; none: as fast as it goes.
    pub(crate) rate: Option<u32>,
    /// Messages that are put by one call; none: each by its own.
    pub(crate) batch: Option<u32>,
}

/// What an end says of a task. Times are readings of the machine's monotonic clock.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Told {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) wrong: Option<String>,
    /// Microseconds from put to taken, for tasks with a rate; of each round trip, for an end that asks.
    pub(crate) latencies: Vec<f64>,
}

#[derive(Debug)]
pub(crate) struct Script {
    // In this order: its input ends before it is killed.
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    child: Child,
}

impl Script {
    /// Starts an end on `host`; it says a word when it is connected.
    pub(crate) fn start(programs: &Programs, host: &Host, arguments: &[&str]) -> Result<Self> {
        let command = host.command(&programs.python);
        Self::launch(command, &programs.client, arguments)
    }

    fn launch(mut command: Command, client: &Path, arguments: &[&str]) -> Result<Self> {
        // Nothing may be written into the source tree.
        command.args(["-B", "-c", SOURCE]).args(arguments).env("PYTHONPATH", client);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = Child::start(&mut command)?;
        let input = child.inner().stdin.take().context("no pipe to the script")?;
        let output = child.inner().stdout.take().context("no pipe from the script")?;
        Ok(Self { input, output: BufReader::new(output), child })
    }

    /// Waits until the end is connected, and returns what it says of itself: its port, if it listens.
    pub(crate) fn ready(&mut self) -> Result<String> {
        self.line().context("waiting for a Python end to be ready")
    }

    pub(crate) fn order(&mut self, task: Task) -> Result<()> {
        let mut line = serde_json::to_string(&task)?;
        line.push('\n');
        self.input.write_all(line.as_bytes()).context("telling a Python end what to do")
    }

    pub(crate) fn told(&mut self) -> Result<Told> {
        let line = self.line().context("waiting for a Python end")?;
        serde_json::from_str(&line).with_context(|| format!("a Python end said {line:?}"))
    }

    /// Seconds that it has used of all cores so far.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        self.child.processor_seconds()
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("it ended; its error stands above");
        }
        Ok(line.trim_end().to_owned())
    }
}
