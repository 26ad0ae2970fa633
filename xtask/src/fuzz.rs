//! `cargo xtask fuzz`: libFuzzer, led by the coverage of our own code. See `tests/fuzz/README.md`.

mod engine;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};

use crate::progress;
use engine::Engine;

/// What to search, and for how long.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Targets; all of them when none is named
    targets: Vec<String>,
    /// How long to search each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Add to the corpus what reached code that nothing in it reached
    #[arg(long)]
    keep: bool,
    /// Run this input alone
    #[arg(long, conflicts_with_all = ["seconds", "keep"])]
    input: Option<PathBuf>,
}

/// Inputs that one `--keep` adds to a target at most, and their size.
const KEPT_MAX: usize = 24;
const KEPT_BYTES_MAX: u64 = 4_096;

impl Options {
    /// Every target for a minute, as the long suites do.
    #[must_use]
    pub const fn every_target() -> Self {
        Self { targets: Vec::new(), seconds: 60, keep: false, input: None }
    }

    /// # Errors
    /// A target that failed, an unknown one, or an engine that cannot be built.
    pub fn run(self, root: &Path) -> Result<()> {
        let Self { targets, seconds, keep, input } = self;
        let known = targets_in(&corpus(root))?;
        if let Some(unknown) = targets.iter().find(|target| !known.contains(target)) {
            bail!("`{unknown}` is no target; there are {}", known.join(", "));
        }
        let engine = Engine::build(root)?;
        let targets = if targets.is_empty() { known } else { targets };
        if let Some(input) = input {
            let [target] = targets.as_slice() else { bail!("name the one target that shall run the input") };
            return engine.reproduce(target, &input);
        }
        let mut failed = Vec::new();
        for target in &targets {
            match engine.search(target, &corpus(root).join(target), seconds) {
                Ok(found) => progress::print(&format!(
                    "{target:<16} {:>11} runs, {:>6} edges, {:>6} features, {:>5} inputs",
                    found.runs, found.edges, found.features, found.inputs
                )),
                Err(error) => {
                    progress::note(&format!("{error:#}"));
                    failed.push(target.as_str());
                }
            }
            if keep {
                let kept = keep_new(&engine, target, &corpus(root).join(target))?;
                progress::print(&format!("{target:<16} {kept} inputs added to the corpus"));
            }
        }
        ensure!(failed.is_empty(), "these targets failed: {}", failed.join(", "));
        Ok(())
    }
}

fn corpus(root: &Path) -> PathBuf {
    root.join("tests/fuzz/corpus")
}

/// The folders of the corpus name the targets.
fn targets_in(corpus: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(corpus).with_context(|| format!("reading {}", corpus.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Copies small inputs with coverage of their own into the corpus: some of each size, as many as a person might look at.
fn keep_new(engine: &Engine, target: &str, corpus: &Path) -> Result<usize> {
    let merged = engine.merge(target, corpus)?;
    let mut new: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(&merged)? {
        let entry = entry?;
        let bytes = entry.metadata()?.len();
        if bytes <= KEPT_BYTES_MAX {
            new.push((bytes, entry.path()));
        }
    }
    new.sort();
    let stride = new.len().div_ceil(KEPT_MAX).max(1);
    let mut kept = 0;
    for (_, path) in new.iter().step_by(stride) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let short = name.get(..12).unwrap_or(&name);
        fs::copy(path, corpus.join(format!("found-{short}")))?;
        kept += 1;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_corpus_are_targets() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["records", "frames"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        fs::write(folder.path().join("notes"), "").unwrap();
        assert_eq!(targets_in(folder.path()).unwrap(), ["frames", "records"]);
        assert!(targets_in(&folder.path().join("absent")).is_err());
    }
}
