//! The Python ends: applications as users write them. One process per end; it reads a task per line and answers each
//! with a line. What is compared with a lane is a file of its own.

use std::fs;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::dialogue::Dialogue;
use crate::bench::Programs;
use crate::programs::Host;

const SOURCES: [(&str, &str); 11] = [
    ("ends.py", include_str!("script/ends.py")),
    ("common.py", include_str!("script/common.py")),
    ("arrivals.py", include_str!("script/arrivals.py")),
    ("lane.py", include_str!("script/lane.py")),
    ("minilm.py", include_str!("script/minilm.py")),
    ("model.py", include_str!("../../../examples/demo/model.py")),
    ("tcp.py", include_str!("script/tcp.py")),
    ("tls.py", include_str!("script/tls.py")),
    ("curve.py", include_str!("script/curve.py")),
    ("grpc_tls.py", include_str!("script/grpc_tls.py")),
    ("flight_tls.py", include_str!("script/flight_tls.py")),
];

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
    /// How often each sentence stands in a request, for ends that run a model.
    pub(crate) repeated: Option<u32>,
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
    /// Percent of each request that was no inference, for an end that runs a model.
    pub(crate) shares: Vec<f64>,
}

#[derive(Debug)]
pub(crate) struct Script {
    dialogue: Dialogue,
    /// Its sources.
    _folder: TempDir,
}

impl Script {
    /// Starts an end on `host`: a module of the sources, a function there, and its arguments.
    pub(crate) fn start(programs: &Programs, host: &Host, arguments: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("sealane-bench-ends-").tempdir()?;
        for (name, source) in SOURCES {
            fs::write(folder.path().join(name), source)?;
        }
        let mut command = host.command(&programs.python);
        // Nothing may be written into the source tree.
        command.arg("-B").arg(folder.path().join("ends.py")).args(arguments);
        command.env("PYTHONPATH", &programs.client);
        let dialogue = Dialogue::start("a Python end", &mut command)?;
        Ok(Self { dialogue, _folder: folder })
    }

    /// Waits until the end is connected, and returns what it says of itself: its port, if it listens.
    pub(crate) fn ready(&mut self) -> Result<String> {
        self.dialogue.greeting()
    }

    pub(crate) fn order(&mut self, task: Task) -> Result<()> {
        self.dialogue.tell(&task)
    }

    pub(crate) fn told(&mut self) -> Result<Told> {
        self.dialogue.hear()
    }

    /// Seconds that it has used of all cores so far.
    pub(crate) fn processor_seconds(&self) -> Result<f64> {
        self.dialogue.child().processor_seconds()
    }
}
