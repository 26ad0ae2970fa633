//! `cargo xtask bench`: builds what is measured as it would ship, notes how it was built, and measures.

pub(crate) mod facts;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{
    process::{check, require},
    progress::{print, step},
    python,
};

/// Fat LTO, one code generation unit, no debug assertions, no instruction beyond the architecture's baseline: the
/// programs choose at run time, as the ones in images do.
const PROFILE: &str = "measured";
const PROFILE_MEANS: &str = "measured: optimised, fat LTO, portable (no target-cpu)";

/// Environment of the benchmarks: the interpreter of the suite `lane`, with the libraries that are its peers.
pub(crate) const PYTHON: &str = "SEALANE_BENCH_PYTHON";
const REQUIREMENTS: &str = "bench/requirements.txt";

const SIDECAR: &str = "sealane-sidecar-sim";
const BENCH: &str = "sealane-bench";

/// Where the same program lies that knows this machine's processor, under the target folder; a figure of the suite
/// `portable` is all that it is for.
const NATIVE: &str = "native";

/// What to measure, and where the report goes.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// As long as steady figures take, not only a few minutes
    #[arg(long, env = "FULL", value_parser = clap::builder::FalseyValueParser::new())]
    full: bool,
    /// Build the program once more for this processor alone, which the suite `portable` compares with; part of --full
    #[arg(long)]
    native: bool,
    /// Where report.json, report.md and report.html go
    #[arg(long, env = "OUT", default_value = "target/bench", value_name = "DIR")]
    out: PathBuf,
    /// What else `sealane-bench run` takes, such as `-- --suite stream`
    #[arg(last = true)]
    more: Vec<String>,
}

/// Builds and measures.
///
/// # Errors
/// A build that fails, a result that was wrong, a suite that could not run.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    require(&["gcc", "python3"])?;
    let target = root.join("target");
    // One package at a time: built together, each would be compiled with the other's features.
    for package in [SIDECAR, BENCH] {
        step(&format!("Building {package} as it is measured (5 to 10 minutes the first time)"), || {
            check(build(root, package).env_remove("RUSTFLAGS"))
        })?;
    }
    let program = target.join(PROFILE).join(BENCH);
    let facts = facts::told(root, PROFILE_MEANS)?;
    let beside = program.with_file_name(facts::FILE);
    fs::write(&beside, facts).with_context(|| format!("writing {}", beside.display()))?;
    let mut bench = Command::new(&program);
    if std::env::var_os(PYTHON).is_none() {
        let peers = step("Installing what Python programs would take in place of a lane", || {
            python::environment(root, REQUIREMENTS)
        });
        match peers {
            Ok(python) => _ = bench.env(PYTHON, python),
            Err(error) => print(&format!("without them: {error:#}; their rows say so")),
        }
    }
    bench.arg("run").arg(if options.full { "--full" } else { "--quick" });
    bench.arg("--out").arg(root.join(&options.out));
    if options.native || options.full {
        let folder = target.join(NATIVE);
        step(&format!("Building {BENCH} for this processor (5 to 10 minutes the first time)"), || {
            check(
                build(root, BENCH).arg("--target-dir").arg(&folder).env("RUSTFLAGS", "-C target-cpu=native"),
            )
        })?;
        bench.arg("--native").arg(folder.join(PROFILE).join(BENCH));
    }
    bench.args(&options.more).current_dir(root);
    let status = bench.status().with_context(|| format!("starting {}", program.display()))?;
    ensure!(status.success(), "{BENCH} ended with {status}");
    Ok(())
}

fn build(root: &Path, package: &str) -> Command {
    let mut build = Command::new("cargo");
    build
        .args(["build", "--quiet", "--locked", "--profile", PROFILE, "--package", package])
        .current_dir(root);
    build
}
