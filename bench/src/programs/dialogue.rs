//! A process that is told a line and answers with a line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::child::Child;

/// See the module's documentation. Its errors stand on standard error.
#[derive(Debug)]
pub(super) struct Dialogue {
    // In this order: its input ends before it is killed.
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    child: Child,
    /// What people call it.
    who: &'static str,
}

impl Dialogue {
    pub(super) fn start(who: &'static str, command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = Child::start(command)?;
        let input = child.inner().stdin.take().with_context(|| format!("no pipe to {who}"))?;
        let output = child.inner().stdout.take().with_context(|| format!("no pipe from {who}"))?;
        Ok(Self { input, output: BufReader::new(output), child, who })
    }

    /// Its first line, once it is ready.
    pub(super) fn greeting(&mut self) -> Result<String> {
        self.line().with_context(|| format!("waiting for {} to be ready", self.who))
    }

    pub(super) fn tell(&mut self, order: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_string(order)?;
        line.push('\n');
        self.input.write_all(line.as_bytes()).with_context(|| format!("telling {} what to do", self.who))
    }

    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.line().with_context(|| format!("waiting for {}", self.who))?;
        serde_json::from_str(&line).with_context(|| format!("{} said {line:?}", self.who))
    }

    pub(super) const fn child(&self) -> &Child {
        &self.child
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            bail!("it ended; its error stands above");
        }
        Ok(line.trim_end().to_owned())
    }
}
