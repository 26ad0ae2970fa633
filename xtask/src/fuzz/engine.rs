//! The instrumented program of `tests/fuzz/engine`, built and run in `target/fuzz`.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::progress;

/// Longest input that a search makes. What is larger meets a limit first.
const INPUT_BYTES_MAX: u32 = 8_192;
/// An input that takes this long is a find.
const INPUT_SECONDS_MAX: u32 = 20;
const MEMORY_MEBIBYTES_MAX: u32 = 3_072;

pub(super) struct Engine {
    program: PathBuf,
    folder: PathBuf,
}

/// What a search came to, as libFuzzer counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) runs: u64,
    pub(super) edges: u64,
    pub(super) features: u64,
    pub(super) inputs: u64,
}

impl Engine {
    pub(super) fn build(root: &Path) -> Result<Self> {
        let source = root.join("tests/fuzz/engine");
        let folder = root.join("target/fuzz");
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let mut command = Command::new("cargo");
        command
            .args(["build", "--locked", "--quiet", "--manifest-path"])
            .arg(source.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(&folder)
            .env("RUSTC_WRAPPER", source.join("instrument.sh"))
            .env_remove("CARGO_TARGET_DIR")
            .current_dir(&source);
        progress::step("Building the fuzzing engine (about 10 minutes the first time)", || {
            let status = command.status().context("starting cargo")?;
            ensure!(
                status.success(),
                "the engine does not build; it needs a C++ compiler (apt-get install g++)"
            );
            Ok(())
        })?;
        Ok(Self { program: folder.join("debug/sealane-fuzz-engine"), folder })
    }

    /// Searches from the committed corpus and from what earlier searches on this machine have found.
    pub(super) fn search(&self, target: &str, corpus: &Path, seconds: u64) -> Result<Found> {
        let own = self.place("corpus", target)?;
        let found = self.place("found", target)?;
        let log = self.place("log", target)?.join("search");
        let output = File::create(&log).with_context(|| format!("writing {}", log.display()))?;
        let status = self
            .command(target)
            .arg(&own)
            .arg(corpus)
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", found.display()))
            .arg("-print_final_stats=1")
            .stderr(output)
            .status()
            .with_context(|| format!("starting {}", self.program.display()))?;
        let text = fs::read_to_string(&log).unwrap_or_default();
        if !status.success() {
            let from = text.lines().position(|line| line.contains("panicked at")).unwrap_or_default();
            let story: Vec<&str> = text.lines().skip(from).take(12).collect();
            bail!("{target} failed; the input lies in {}\n{}", found.display(), story.join("\n"));
        }
        summary(&text).with_context(|| format!("{} tells of no search", log.display()))
    }

    /// A fresh folder with the inputs that reach what `corpus` does not.
    pub(super) fn merge(&self, target: &str, corpus: &Path) -> Result<PathBuf> {
        let all = self.place("merged", target)?;
        for entry in fs::read_dir(&all)? {
            fs::remove_file(entry?.path())?;
        }
        let committed: Vec<_> =
            fs::read_dir(corpus)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
        for path in &committed {
            if let Some(name) = path.file_name() {
                fs::copy(path, all.join(name))?;
            }
        }
        let own = self.place("corpus", target)?;
        let output = self.command(target).arg("-merge=1").arg(&all).arg(&own).output()?;
        ensure!(output.status.success(), "merging {target}: {}", String::from_utf8_lossy(&output.stderr));
        for path in committed {
            if let Some(name) = path.file_name() {
                fs::remove_file(all.join(name))?;
            }
        }
        Ok(all)
    }

    /// Runs one input; what goes wrong is shown as it is.
    pub(super) fn reproduce(&self, target: &str, input: &Path) -> Result<()> {
        let status = self.command(target).arg(input).status()?;
        ensure!(status.success(), "{target} fails on {}", input.display());
        Ok(())
    }

    fn command(&self, target: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("SEALANE_FUZZ_TARGET", target)
            .arg(format!("-max_len={INPUT_BYTES_MAX}"))
            .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
            .arg(format!("-rss_limit_mb={MEMORY_MEBIBYTES_MAX}"));
        command
    }

    fn place(&self, kind: &str, target: &str) -> Result<PathBuf> {
        let place = self.folder.join(kind).join(target);
        fs::create_dir_all(&place).with_context(|| format!("making {}", place.display()))?;
        Ok(place)
    }
}

/// The last line of progress, such as `#4096 DONE cov: 511 ft: 1532 corp: 99/4056b lim: 43 exec/s: 512 rss: 61Mb`.
fn summary(log: &str) -> Option<Found> {
    let line = log.lines().rev().find(|line| line.starts_with('#') && line.contains("cov: "))?;
    let number = |word: &str| {
        let mut words = line.split_whitespace().skip_while(|each| *each != word).skip(1);
        words.next()?.split('/').next()?.parse().ok()
    };
    let runs = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"))?;
    Some(Found {
        runs: runs.trim().parse().ok()?,
        edges: number("cov:")?,
        features: number("ft:")?,
        inputs: number("corp:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_search_is_read() {
        let log = "INFO: seed\n#2\tINITED cov: 11 ft: 12 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                   #4096\tDONE   cov: 511 ft: 1532 corp: 99/4056b lim: 43 exec/s: 512 rss: 61Mb\n\
                   Done 4096 runs in 8 second(s)\nstat::number_of_executed_units: 4096\n";
        let found = Found { runs: 4096, edges: 511, features: 1532, inputs: 99 };
        assert_eq!(summary(log), Some(found));
        assert_eq!(summary("nothing"), None);
    }
}
