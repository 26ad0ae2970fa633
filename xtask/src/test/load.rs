//! `cargo xtask test --under-load`: the tests that run in real time, on a machine that has no time for them.
//!
//! One core for all of them, threads beside that burn it, and every few seconds all of their processes stand still, as
//! those of a virtual machine do that lost its core. The seed decides when: a find can be repeated in kind.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use rustix::{
    process::Signal,
    thread::{CpuSet, sched_setaffinity},
};
use std::os::unix::process::CommandExt;

use super::{
    case::{self, Case, Outcome},
    files::Files,
    nextest::FILTER,
    processes,
    stages::{PYTHON, RUST},
    summary,
};
use crate::{process, progress};

/// Rust programs whose tests see time pass.
const REAL_TIME: &str = "package(sealane-sidecar) | package(sealane-operator) | package(sealane-collateral) | \
    package(sealane-bench) | package(kubectl-sealane) | package(sealane-xdp) & binary(veth)";

/// What burns a core spins and pauses for up to so long.
const SPIN: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(100);
/// Between two stalls, and how long one lasts.
const BETWEEN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(15));
const STALL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(3));

/// How often a pass says that it goes on.
const TELL_EVERY: Duration = Duration::from_secs(300);

/// What a run under load is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Burning threads for each core of the machine.
    pub(super) burners: usize,
    pub(super) times: u64,
    pub(super) seed: u64,
}

impl Load {
    /// As FULL=1 runs it.
    pub(super) const FULL: Self = Self { burners: 3, times: 5, seed: 1 };

    /// Runs everything that was built [`Self::times`] times, each with its own seed, and tells what failed how often.
    ///
    /// # Errors
    /// One test failed once.
    pub(super) fn run(self, root: &Path) -> Result<()> {
        let began = Instant::now();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut one = CpuSet::new();
        one.set(0);
        sched_setaffinity(None, &one).context("keeping to one core")?;
        let done = AtomicBool::new(false);
        let mut failures: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
        let mut tests = 0;
        std::thread::scope(|scope| {
            for number in 0..self.burners * cores {
                let (mut random, done) = (Random(self.seed ^ (number as u64 + 1) << 32), &done);
                scope.spawn(move || burn(&mut random, done));
            }
            let outcome = (self.seed..self.seed + self.times).try_for_each(|seed| {
                for stage in [RUST, PYTHON] {
                    for case in pass(root, stage, seed)? {
                        tests += 1;
                        if let Some(output) = case.failure() {
                            failures.entry(case.name.clone()).or_default().push((seed, output.to_owned()));
                        }
                    }
                    progress::note(&format!(
                        "  seed {seed}: {stage}, {:.0} s so far",
                        began.elapsed().as_secs_f64()
                    ));
                }
                anyhow::Ok(())
            });
            done.store(true, Ordering::Relaxed);
            outcome
        })?;
        for (name, failed) in &failures {
            let seeds: Vec<_> = failed.iter().map(|(seed, _)| seed.to_string()).collect();
            progress::print(&format!(
                "{name}: failed {} of {}, seeds {}",
                failed.len(),
                self.times,
                seeds.join(", ")
            ));
            progress::print(&summary::message(&failed[0].1));
        }
        let minutes = began.elapsed().as_secs_f64() / 60.0;
        progress::print(&format!(
            "{tests} tests under load, {} of them failed, {minutes:.0} min",
            failures.len()
        ));
        if failures.is_empty() { Ok(()) } else { bail!("tests fail on a machine that is busy") }
    }
}

/// What takes five minutes otherwise hangs, and here is slow.
const PYTEST_OPTIONS: &str = "-o faulthandler_timeout=1800";

/// One pass of a stage, and how its tests ended.
fn pass(root: &Path, stage: &'static str, seed: u64) -> Result<Vec<Case>> {
    let files = Files::of(root, stage);
    let log = std::fs::File::create(files.log()).context("creating the log")?;
    let mut command = Command::new(process::own_program());
    command.args(["test", "--stage", stage]).env(FILTER, REAL_TIME).env("SEALANE_SKIPS", files.skips());
    command.env("PYTEST_ADDOPTS", PYTEST_OPTIONS);
    command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).process_group(0).current_dir(root);
    let mut child = command.spawn().map_err(|error| process::start_error(&command, error))?;
    stall(&mut child, &mut Random(seed), stage)?;
    let cases = case::read(&files.events())?;
    if cases.iter().any(|case| case.failure().is_some()) {
        // The next pass writes its own.
        std::fs::copy(files.log(), files.log().with_extension(format!("seed-{seed}.log")))
            .context("keeping the log of a failure")?;
    }
    // That something ran is for each stage to show: an empty one would pass.
    anyhow::ensure!(
        cases.iter().any(|case| case.outcome == Outcome::Passed),
        "{stage} ran no test: {}",
        files.log().display()
    );
    Ok(cases)
}

/// Lets all processes of `child` stand still now and then until it ends.
fn stall(child: &mut Child, random: &mut Random, stage: &str) -> Result<()> {
    let (began, mut told) = (Instant::now(), Instant::now());
    let mut next = Instant::now() + random.between(BETWEEN);
    while child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(50));
        if told.elapsed() > TELL_EVERY {
            told = Instant::now();
            progress::note(&format!("  … {stage}, {:.0} s", began.elapsed().as_secs_f64()));
        }
        if Instant::now() < next {
            continue;
        }
        let stopped = processes::of(child.id());
        let tell = |signal| stopped.iter().for_each(|process| processes::tell(*process, signal));
        tell(Signal::STOP);
        std::thread::sleep(random.between(STALL));
        tell(Signal::CONT);
        next = Instant::now() + random.between(BETWEEN);
    }
    Ok(())
}

fn burn(random: &mut Random, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let until = Instant::now() + random.between((Duration::ZERO, SPIN));
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        std::thread::sleep(random.between((Duration::ZERO, PAUSE)));
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn between(&mut self, (least, most): (Duration, Duration)) -> Duration {
        let micros = u64::try_from((most - least).as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros(self.next() % micros.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_course_of_stalls() {
        let course = |seed| {
            let mut random = Random(seed);
            (0..100).map(|_| random.between(STALL)).collect::<Vec<_>>()
        };
        assert_eq!(course(1), course(1));
        assert_ne!(course(1), course(2));
        assert!(course(3).iter().all(|stall| (STALL.0..=STALL.1).contains(stall)));
    }
}
