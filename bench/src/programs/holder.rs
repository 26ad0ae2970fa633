//! The process that holds connections.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use super::child;
use crate::bench::Programs;
use crate::held::Held;

/// Lets a fresh process hold so many `connections` and tell what they take.
pub(crate) fn held(programs: &Programs, connections: u32) -> Result<Held> {
    let mut command = child::command(&programs.bench);
    command.arg("hold").args(["--connections", &connections.to_string()]);
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("starting {}", programs.bench.display()))?;
    ensure!(output.status.success(), "the process that holds connections ended with {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).with_context(|| format!("the process that holds connections said {text:?}"))
}
