//! The stages of a test run, cheap ones first.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{Scope, python};
use crate::{cluster, fuzz::Options, images, install, process, target::Target, target::image, tidy};

pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) run: fn(&Path) -> Result<()>,
}

/// Tests that touch more than their namespace, such as upgrade, uninstall, the loss of a leader and of a node, have one
/// of these in their names; they run alone, after the others.
const ALONE: [&str; 4] = ["chart_", "operator_", "node_", "scale_"];

pub(super) fn all(scope: Scope) -> Vec<Stage> {
    let mut stages = vec![
        Stage { name: "format", run: |root| shell(root, "cargo", &["fmt", "--all", "--check"]) },
        Stage { name: "tidy: walls and source rules", run: tidy::run },
        Stage { name: "versions of the fuzzing engine are locked", run: engine_lock },
        Stage { name: "clippy", run: clippy },
        Stage { name: "Rust", run: rust },
        Stage { name: "sidecars, all of it over UDP", run: over_udp },
        Stage { name: "rings of AF_XDP, every interleaving", run: interleavings },
        Stage { name: "programs of the images", run: programs },
        Stage { name: "Python: client and vectors", run: python::run },
    ];
    if scope.cluster {
        stages.extend([
            Stage { name: "cluster, images, chart installed", run: prepare },
            Stage { name: "chart: rendered", run: python::chart },
            Stage { name: "local cluster: faults, and down leaves nothing", run: cluster_life },
            Stage { name: "end to end", run: |root| end_to_end(root, &together()) },
            Stage { name: "end to end: release and nodes", run: |root| end_to_end(root, &alone()) },
        ]);
    }
    if scope.full {
        if scope.cluster {
            stages.extend([
                Stage { name: "image of the long tests", run: |_| prepare_long() },
                Stage { name: "end to end, long", run: |root| end_to_end(root, &long(together())) },
                Stage {
                    name: "end to end, long: release and nodes",
                    run: |root| end_to_end(root, &long(alone())),
                },
            ]);
        }
        stages.push(Stage { name: "licences, sources and bans", run: deny });
        stages.push(Stage { name: "model of the connection, long", run: model });
        stages.push(Stage {
            name: "fuzzing, a minute a target",
            run: |root| Options::every_target().run(root),
        });
        stages.push(Stage { name: "cluster-down leaves nothing", run: |_| cluster::down() });
    }
    stages
}

fn together() -> Vec<&'static str> {
    ALONE.into_iter().flat_map(|name| ["--skip", name]).chain(["--test-threads=2"]).collect()
}

fn alone() -> Vec<&'static str> {
    ALONE.into_iter().chain(["--test-threads=1"]).collect()
}

/// What takes minutes is marked as ignored.
fn long(mut filter: Vec<&'static str>) -> Vec<&'static str> {
    filter.push("--ignored");
    filter
}

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

fn rust(root: &Path) -> Result<()> {
    shell(root, "cargo", &["test", "--workspace", "--locked", "--quiet", "--exclude", "sealane-e2e"])
}

/// What sidecars do over TCP they do over UDP as well.
fn over_udp(root: &Path) -> Result<()> {
    // The whole workspace resolves the features that everything was built with.
    let workspace = ["test", "--workspace", "--locked", "--quiet", "--exclude", "sealane-e2e"];
    let arguments =
        workspace.into_iter().chain(["--test", "sidecars", "--test", "idle", "--test", "observed"]);
    finish(Command::new("cargo").args(arguments).env("SEALANE_TEST_CARRIER", "Udp").current_dir(root))
}

/// Loom needs the crate built with its own atomics, and so a folder of its own.
fn interleavings(root: &Path) -> Result<()> {
    let arguments =
        ["test", "--package", "sealane-xdp", "--locked", "--quiet", "--release", "--lib", "model"];
    let folder = root.join("target/loom");
    finish(
        Command::new("cargo")
            .args(arguments)
            .env("RUSTFLAGS", "--cfg loom")
            .env("CARGO_TARGET_DIR", folder)
            .current_dir(root),
    )
}

/// The version of cargo-deny that deny.toml is written for.
const DENY: &str = "0.20.2";

/// Without advisories: their database does not come from a package registry.
fn deny(root: &Path) -> Result<()> {
    let folder = cluster::cache_folder()?.join(format!("cargo-deny-{DENY}"));
    let program = folder.join("bin/cargo-deny");
    if !program.exists() {
        let folder = folder.to_string_lossy();
        shell(
            root,
            "cargo",
            &["install", "cargo-deny", "--version", DENY, "--locked", "--quiet", "--root", &folder],
        )?;
    }
    // The list of licences spans targets for which nothing is built here.
    shell(root, "cargo", &["fetch", "--locked", "--quiet"])?;
    finish(
        Command::new(program).args(["--offline", "check", "licenses", "bans", "sources"]).current_dir(root),
    )
}

/// The model of the connection, far longer than in the ordinary run.
fn model(root: &Path) -> Result<()> {
    let arguments = ["test", "--package", "sealane-sim", "--locked", "--quiet"];
    finish(Command::new("cargo").args(arguments).env("PROPTEST_CASES", "60000").current_dir(root))
}

/// A second cluster beside the first: interrupted starts, killed parts, and nothing left at the end.
fn cluster_life(root: &Path) -> Result<()> {
    shell(
        root,
        "cargo",
        &["test", "--package", "xtask", "--test", "cluster", "--locked", "--quiet", "--", "--ignored"],
    )
}

/// The binaries that images carry and that the Python tests start.
fn programs(root: &Path) -> Result<()> {
    let mut arguments = vec!["build", "--locked", "--quiet"];
    for package in ["sealane-operator", "sealane-sidecar", "sealane-sidecar-sim", "kubectl-sealane"] {
        arguments.extend(["--package", package]);
    }
    shell(root, "cargo", &arguments)
}

fn prepare(root: &Path) -> Result<()> {
    let target = Target::local()?;
    let images = target.supply(&images::NAMES)?;
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

fn end_to_end(root: &Path, filter: &[&str]) -> Result<()> {
    let target = Target::local()?;
    let image = noted_image(WORKLOAD)?;
    let mut command = Command::new("cargo");
    command
        .args(["test", "--package", "sealane-e2e", "--locked", "--quiet", "--no-fail-fast", "--"])
        .args(filter)
        .env("KUBECONFIG", target.kubectl.kubeconfig())
        .env("SEALANE_TEST_TOOLS", target.kubectl.bin())
        .env("SEALANE_TEST_IMAGE", image)
        .env("SEALANE_TEST_XTASK", process::own_program())
        // Failures tell what was seen; a backtrace would bury it.
        .env("RUST_BACKTRACE", "0")
        .env("SEALANE_TEST_PLUGIN", root.join("target/debug/kubectl-sealane"))
        .current_dir(root);
    // Only long runs have it, and only their tests ask for it.
    if let Ok(torch) = noted_image(TORCH) {
        command.env("SEALANE_TEST_TORCH_IMAGE", torch);
    }
    finish(&mut command)
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
