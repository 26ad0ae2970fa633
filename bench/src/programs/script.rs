//! The Python ends: applications as users write them. One process per end; it reads a task per line and answers each
//! with a line.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::dialogue::Dialogue;
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
pub(crate) struct Script(Dialogue);

impl Script {
    /// Starts an end on `host`; it says a word when it is connected.
    pub(crate) fn start(programs: &Programs, host: &Host, arguments: &[&str]) -> Result<Self> {
        let mut command = host.command(&programs.python);
        // Nothing may be written into the source tree.
        command.args(["-B", "-c", SOURCE]).args(arguments).env("PYTHONPATH", &programs.client);
        Dialogue::start("a Python end", &mut command).map(Self)
    }

    /// Waits until the end is connected, and returns what it says of itself: its port, if it listens.
    pub(crate) fn ready(&mut self) -> Result<String> {
        self.0.greeting()
    }

    pub(crate) fn order(&mut self, task: Task) -> Result<()> {
        self.0.tell(&task)
    }

    pub(crate) fn told(&mut self) -> Result<Told> {
        self.0.hear()
    }

    /// Seconds that it has used of all cores so far.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        self.0.child().processor_seconds()
    }
}
