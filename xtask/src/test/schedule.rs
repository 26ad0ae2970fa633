//! Runs stages as processes, side by side where their order and the machine's cores allow it.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;

use super::{files::Files, processes, stacks, stages::Stage};
use crate::{process, progress};

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a run says what it does.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// A stage that writes nothing for so long hangs. Its budget tells nothing about that on a slow machine. What takes longest
/// without a word is a build of ten minutes; cargo-nextest notes a slow test every few minutes, and ends it later.
const SILENCE_MAX: Duration = Duration::from_secs(40 * 60);
const CORES: u32 = 2;

/// How a stage ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) stage: &'static Stage,
    pub(super) took: Duration,
    pub(super) result: Result<(), Failure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// What it needs did not pass.
    NotRun(&'static str),
    Failed,
    /// It was ended after [`SILENCE_MAX`]; the stacks of its threads are in its log.
    Hung,
}

struct Running {
    stage: &'static Stage,
    child: Child,
    began: Instant,
    progress: Progress,
}

/// What a stage writes while it lives: its log, and how its tests end.
struct Progress {
    files: [PathBuf; 2],
    size: u64,
    grew: Instant,
}

impl Progress {
    fn of(files: &Files) -> Self {
        Self { files: [files.log(), files.events()], size: 0, grew: Instant::now() }
    }

    /// How long nothing was written.
    fn silence(&mut self) -> Duration {
        let size = self.files.iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
        if size != self.size {
            (self.size, self.grew) = (size, Instant::now());
        }
        self.grew.elapsed()
    }
}

/// Runs `stages` to their ends with `environment`, also after a failure: one run tells all that is wrong.
///
/// # Errors
/// A stage that cannot be started.
pub(super) fn run(
    root: &Path,
    stages: &[&'static Stage],
    environment: &[(&str, String)],
) -> Result<Vec<Ended>> {
    let mut waiting = stages.to_vec();
    let mut running: Vec<Running> = Vec::new();
    let mut ended: BTreeMap<&'static str, Ended> = BTreeMap::new();
    let mut told = Instant::now();
    while !waiting.is_empty() || !running.is_empty() {
        for stage in not_possible(&mut waiting, &ended) {
            finish(&mut ended, stage);
        }
        while let Some(stage) = next(&mut waiting, &running, &ended) {
            running.push(start(root, stage, environment)?);
        }
        for one in std::mem::take(&mut running) {
            match one.look(root)? {
                Ok(done) => finish(&mut ended, done),
                Err(still) => running.push(still),
            }
        }
        if told.elapsed() > TELL_EVERY {
            told = Instant::now();
            let lines =
                running.iter().map(|one| format!("{} ({:.0} s)", one.stage.name, one.took().as_secs_f64()));
            progress::note(&format!("  … {}", lines.collect::<Vec<_>>().join(", ")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(stages.iter().filter_map(|stage| ended.remove(stage.name)).collect())
}

fn finish(ended: &mut BTreeMap<&'static str, Ended>, one: Ended) {
    progress::note(&one.to_string());
    ended.insert(one.stage.name, one);
}

/// Takes out what can never run any more, because something before it did not pass.
fn not_possible(waiting: &mut Vec<&'static Stage>, ended: &BTreeMap<&'static str, Ended>) -> Vec<Ended> {
    let broken = |stage: &Stage| {
        stage
            .after
            .iter()
            .find(|name| ended.get(**name).is_some_and(|one| one.result.is_err() && one.stage.is_needed))
    };
    let mut gone = Vec::new();
    waiting.retain(|stage| match broken(stage) {
        Some(cause) => {
            gone.push(Ended { stage, took: Duration::ZERO, result: Err(Failure::NotRun(cause)) });
            false
        }
        None => true,
    });
    gone
}

/// The first stage whose time has come: what it comes after has ended, and there are cores for it.
fn next(
    waiting: &mut Vec<&'static Stage>,
    running: &[Running],
    ended: &BTreeMap<&'static str, Ended>,
) -> Option<&'static Stage> {
    let busy: u32 = running.iter().map(|one| one.stage.cores).sum();
    let waits = |name: &&str| {
        waiting.iter().any(|stage| stage.name == *name) || running.iter().any(|one| one.stage.name == *name)
    };
    let fits = |stage: &Stage| busy + stage.cores <= CORES || running.is_empty();
    let ready = |stage: &Stage| {
        fits(stage) && !stage.after.iter().any(|name| waits(name) && !ended.contains_key(name))
    };
    let index = waiting.iter().position(|stage| ready(stage))?;
    Some(waiting.remove(index))
}

fn start(root: &Path, stage: &'static Stage, environment: &[(&str, String)]) -> Result<Running> {
    let files = Files::of(root, stage.name);
    let log = File::create(files.log()).with_context(|| format!("creating the log of {}", stage.name))?;
    let mut command = Command::new(process::own_program());
    command
        .args(["test", "--stage", stage.name])
        .env("SEALANE_SKIPS", files.skips())
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stderr(log.try_clone()?)
        .stdout(log)
        // What it starts ends with it.
        .process_group(0)
        .current_dir(root);
    let child = command.spawn().map_err(|error| process::start_error(&command, error))?;
    Ok(Running { stage, child, began: Instant::now(), progress: Progress::of(&files) })
}

impl Running {
    fn took(&self) -> Duration {
        self.began.elapsed()
    }

    /// How it ended, or itself if it runs.
    fn look(mut self, root: &Path) -> Result<Result<Ended, Self>> {
        let took = self.took();
        if let Some(status) = self.child.try_wait()? {
            let result = if status.success() { Ok(()) } else { Err(Failure::Failed) };
            return Ok(Ok(Ended { stage: self.stage, took, result }));
        }
        if self.progress.silence() < SILENCE_MAX {
            return Ok(Err(self));
        }
        stacks::write(self.child.id(), &Files::of(root, self.stage.name).log());
        processes::end(self.child.id());
        self.child.wait()?;
        Ok(Ok(Ended { stage: self.stage, took, result: Err(Failure::Hung) }))
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.result.is_ok() { '✓' } else { '✗' };
        let (took, budget) = (self.took.as_secs_f64(), self.stage.budget);
        write!(f, "  {mark} {:<46} {took:>7.1} of {budget:>4} s", self.stage.name)?;
        match &self.result {
            Ok(()) if took > f64::from(budget) => write!(f, "  over its budget"),
            Ok(()) => Ok(()),
            Err(Failure::NotRun(cause)) => write!(f, "  not run: {cause}"),
            Err(Failure::Failed) => write!(f, "  failed"),
            Err(Failure::Hung) => write!(f, "  hung; stacks in its log"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_silent_while_neither_its_log_nor_its_events_grow() {
        let root = tempfile::tempdir().unwrap();
        Files::clear(root.path()).unwrap();
        let files = Files::of(root.path(), "one");
        let mut progress = Progress::of(&files);
        let long_ago = Instant::now() - 2 * SILENCE_MAX;
        for file in [files.log(), files.events()] {
            progress.grew = long_ago;
            assert!(progress.silence() > SILENCE_MAX);
            std::fs::write(file, "a line").unwrap();
            assert!(progress.silence() < SILENCE_MAX);
        }
    }
}
