//! The lines that the programs write, see `programs/ledger.py`.

use anyhow::{Context, Result};
use serde::Deserialize;

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Sender,
    Receiver,
}

/// One thing that happened to an application.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Entry {
    /// A process began.
    Run { role: Role },
    /// Its lane opened.
    Opened,
    /// It is about to put these tensors, which it numbers for itself.
    Putting { indexes: Vec<u64> },
    /// They were accepted under these numbers, after this many seconds.
    Put { indexes: Vec<u64>, sequences: Vec<u64>, waited: f64 },
    /// They were not accepted.
    Refused { indexes: Vec<u64>, kind: String, reason: String },
    /// `Uncertain` was raised.
    Uncertain { first: u64, last: u64 },
    /// A flush returned, after this many tensors.
    Flushed { through: u64 },
    /// The lane was closed, after this many tensors.
    Closed { through: u64 },
    /// It is about to take a tensor.
    Taking,
    /// It has one: `index` of the process `of`, whose bytes were the very ones that were put if `whole`.
    Took { of: String, index: u64, sequence: u64, sender: String, whole: bool },
    /// `Interrupted` was raised.
    Interrupted { sender: String },
    /// Iteration ended: every sender has closed.
    Ended,
    /// It left because its pod was to end.
    Left,
    /// It takes nothing for a while, as the test wanted.
    Still,
    /// It takes again.
    Moves,
    /// Any other exception; the process is done.
    Error { during: String, kind: String, reason: String, message: String },
}

#[derive(Debug, Deserialize)]
struct Line {
    run: String,
    /// On the machine's monotonic clock, which all pods of a local cluster share. For people who read a ledger.
    millis: u64,
    #[serde(flatten)]
    entry: Entry,
}

/// One process of an application.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: String,
    pub role: Role,
    pub entries: Vec<(u64, Entry)>,
}

impl Run {
    /// Whether it came to an end of its own: it closed, ended, left or failed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.entries.iter().any(|(_, entry)| {
            matches!(entry, Entry::Closed { .. } | Entry::Ended | Entry::Left | Entry::Error { .. })
        })
    }

    /// Whether it closed its lane.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.entries.iter().any(|(_, entry)| matches!(entry, Entry::Closed { .. }))
    }

    /// Whether it opened its lane, so that the other side knows of it.
    #[must_use]
    pub fn has_opened(&self) -> bool {
        self.entries.iter().any(|(_, entry)| *entry == Entry::Opened)
    }

    /// Whether its last word on tensors is that it is about to take one.
    #[must_use]
    pub fn was_taking(&self) -> bool {
        let last =
            self.entries.iter().rev().find(|(_, entry)| matches!(entry, Entry::Taking | Entry::Took { .. }));
        matches!(last, Some((_, Entry::Taking)))
    }
}

/// The ledger of one pod: its processes in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Book {
    pub peer: String,
    pub pod: String,
    pub runs: Vec<Run>,
}

impl Book {
    /// Reads a pod's ledger.
    ///
    /// # Errors
    /// A line that no program writes.
    pub fn parse(peer: &str, pod: &str, text: &str) -> Result<Self> {
        let mut runs: Vec<Run> = Vec::new();
        for text in text.lines() {
            let line: Line =
                serde_json::from_str(text).with_context(|| format!("ledger of {pod}: {text:?}"))?;
            if let Entry::Run { role } = line.entry {
                runs.push(Run { id: line.run, role, entries: Vec::new() });
                continue;
            }
            let run = runs
                .iter_mut()
                .find(|run| run.id == line.run)
                .with_context(|| format!("ledger of {pod}: a process wrote before it began: {text:?}"))?;
            run.entries.push((line.millis, line.entry));
        }
        Ok(Self { peer: peer.to_owned(), pod: pod.to_owned(), runs })
    }

    /// As lanes name the pod.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.peer, self.pod)
    }

    /// Processes that ended without a word: all that are not over, unless the last one still runs.
    pub fn dead<'a>(&'a self, rules: &'a super::rules::Rules) -> impl Iterator<Item = &'a Run> {
        let last = self.runs.len().saturating_sub(1);
        let gone = rules.gone.contains(&self.pod);
        self.runs
            .iter()
            .enumerate()
            .filter(move |(index, run)| !run.is_over() && (*index != last || gone))
            .map(|(_, run)| run)
    }
}
