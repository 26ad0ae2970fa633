//! `cargo xtask judge`: every piece of evidence in an index, judged at its time and under its policy.
//!
//! Invariant: a line that says `accept` is a verdict on the evidence alone. No handshake, no Peer and no reference value
//! is asked for, and a revocation list only where the entry names one.
//!
//! Deliberately absent: anything that ships. It is a program apart from xtask, which builds without the verifiers.

mod entry;
mod line;
mod nitro;
mod policy;
mod snp;
mod tdx;
mod trust;
mod verdict;

use std::{fs, path::Path};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use entry::{Entry, Kind};
pub use line::Line;
use verdict::Verdict;

/// Entries of one index, and its bytes.
const ENTRIES_MAX: usize = 100_000;
const INDEX_BYTES_MAX: u64 = 256 << 20;

/// The lines of an index, one after the other. With `test_roots`, an entry that says so brings the root that counts as
/// the vendor's for that entry alone, simulated or not.
///
/// # Errors
/// An index that cannot be read. What is wrong with an entry is said in its line.
pub fn judge(index: &Path, test_roots: bool) -> Result<impl Iterator<Item = Line>> {
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
    Ok(entries.map(move |(number, entry)| line(&folder, number, &entry, test_roots)))
}

fn line(folder: &Path, number: usize, entry: &Value, test_roots: bool) -> Line {
    let id = entry.get("id").and_then(Value::as_str);
    let id = id.map_or_else(|| format!("entries[{number}]"), str::to_owned);
    let verdict = Entry::read(folder, entry, test_roots).and_then(|entry| match entry.kind {
        Kind::SevSnp => snp::judge(&entry),
        Kind::Tdx => tdx::judge(&entry),
        Kind::Nitro => nitro::judge(&entry),
    });
    Line::new(id, verdict.unwrap_or_else(Verdict::from))
}
