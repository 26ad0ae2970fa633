//! `cargo xtask judge`: every piece of evidence in an index, judged at its time and under its policy.
//!
//! Invariant: a line that says `accept` is a verdict on the evidence alone. No handshake, no Peer and no reference value
//! is asked for, and a revocation list only where the entry names one.

mod entry;
mod line;
mod nitro;
mod policy;
mod snp;
mod tdx;
mod trust;
mod verdict;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::progress;
use entry::{Entry, Kind};
pub use line::Line;
use verdict::Verdict;

/// Which evidence to judge
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub struct Options {
    /// An index in the format of `vectors/index.json`; the paths in it are relative to it
    index: PathBuf,
}

const HELP: &str = "\
One line of JSON per entry: {id, outcome, reason, micros}. Outcomes are accept, reject, missing (a file that the entry
names is not there; reason says which) and error (the entry itself cannot be read). `micros` is the fastest of five runs
of the verifier alone, in this build's profile: files are read, and collateral that a verifier keeps is parsed, before.

Whose root counts follows from an entry's `trust`: a text that begins with AMD, Intel or AWS, or none, means the roots that
this release pins, and a root file that is another is refused. Any other text means the entry's own files.

Keys of `policy`, what is not stated being refused:
  sev-snp  allow_debug, allow_migration, allow_vlek, max_vmpl (0), and, allowed unless stated: allow_smt, allow_cxl, allow_tio
  tdx      tcb_status ([\"UpToDate\"]), allow_debug, allow_migration, allow_sept_ve, allow_perfmon, allow_key_locker,
           allow_dynamic_platform, allow_cached_keys, allow_smt
  nitro    allow_debug, max_age (300 s)
An entry with any other key is rejected, because what it demands cannot be checked.

The exit status says whether the index was read: it is 0 whatever the outcomes are.";

/// Entries of one index, and its bytes.
const ENTRIES_MAX: usize = 100_000;
const INDEX_BYTES_MAX: u64 = 256 << 20;

impl Options {
    /// # Errors
    /// An index that cannot be read. What is wrong with an entry is said in its line.
    pub fn run(&self) -> Result<()> {
        for line in judge(&self.index)? {
            progress::print(&line.to_json());
        }
        Ok(())
    }
}

/// The lines of an index, one after the other.
///
/// # Errors
/// As [`Options::run`].
pub fn judge(index: &Path) -> Result<impl Iterator<Item = Line>> {
    let shown = index.display();
    let size = fs::metadata(index).with_context(|| format!("there is no index at {shown}"))?.len();
    ensure!(size <= INDEX_BYTES_MAX, "{shown} is larger than {INDEX_BYTES_MAX} bytes");
    let text = fs::read(index).with_context(|| format!("{shown} cannot be read"))?;
    let tree: Value = serde_json::from_slice(&text).with_context(|| format!("{shown} is not JSON"))?;
    let Some(Value::Array(entries)) = tree.get("entries") else {
        anyhow::bail!("{shown} is no index: it has no list `entries`")
    };
    ensure!(entries.len() <= ENTRIES_MAX, "{shown} has more than {ENTRIES_MAX} entries");
    let folder = index.parent().unwrap_or(Path::new("")).to_owned();
    let entries = entries.clone().into_iter().enumerate();
    Ok(entries.map(move |(number, entry)| line(&folder, number, &entry)))
}

fn line(folder: &Path, number: usize, entry: &Value) -> Line {
    let id = entry.get("id").and_then(Value::as_str);
    let id = id.map_or_else(|| format!("entries[{number}]"), str::to_owned);
    let verdict = Entry::read(folder, entry).and_then(|entry| match entry.kind {
        Kind::SevSnp => snp::judge(&entry),
        Kind::Tdx => tdx::judge(&entry),
        Kind::Nitro => nitro::judge(&entry),
    });
    Line::new(id, verdict.unwrap_or_else(Verdict::from))
}
