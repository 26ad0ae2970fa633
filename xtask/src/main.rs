//! `cargo xtask`: see `lib.rs`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::{
    bench,
    cluster::ClusterCommand,
    demo, fuzz, images, install, judge, model,
    progress::note,
    removals,
    target::Target,
    test::{self, Scope},
    tidy,
};

/// The project's own tooling
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The benchmark report of this machine
    Bench(bench::Options),
    /// The local two-node Kubernetes cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Build the container images, and load or push them
    Images(images::Options),
    /// The main job end to end: MiniLM split over two nodes
    Demo {
        /// What carries its session: Auto, Tcp, Udp or AfXdp
        #[arg(long, env = "CARRIER", default_value_t)]
        carrier: demo::Carrier,
    },
    /// Build and load the images, install the chart
    Install {
        /// Install the simulated platform: software evidence, for clusters without a TEE
        #[arg(long, env = "SIMULATED", value_parser = clap::builder::FalseyValueParser::new())]
        simulated: bool,
    },
    /// Judge the evidence of an index, one line of JSON per entry
    Judge(judge::Options),
    /// Look for attacks on the handshake with a symbolic analyser
    Model,
    /// Every test, with one summary
    Test(Scope),
    /// The quick check before a submission: all static checks, and the tests that a change can break
    Gate,
    /// Search for inputs that break a parser or a rule, led by coverage
    Fuzz(fuzz::Options),
    /// Take each answer to an attack away in a copy of the tree, and demand that a test notices
    Removals {
        /// Only attacks with this word in their names, or in that of their tests: `sealane-protocol/pair`
        #[arg(long)]
        only: Option<String>,
    },
    /// Check the rules of the codebase that a compiler does not
    Tidy,
    /// Write docs/attacks.md from tests/attacks.yaml
    Attacks,
}

fn main() -> ExitCode {
    match run(Arguments::parse().command, &root()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, root: &Path) -> Result<()> {
    match command {
        Command::Bench(options) => bench::run(root, &options),
        Command::Cluster(command) => command.run(),
        Command::Images(options) => options.run(),
        Command::Demo { carrier } => demo::run(root, carrier),
        Command::Fuzz(options) => options.run(root),
        Command::Install { simulated } => {
            let target = Target::resolve()?;
            let images = target.supply(&install::IMAGES)?;
            install::run(root, &target, &images, simulated)
        }
        Command::Judge(options) => options.run(root),
        Command::Model => model::run(root),
        Command::Gate => test::gate(root),
        Command::Test(scope) => test::run(root, &scope),
        Command::Removals { only } => removals::run(root, only.as_deref()),
        Command::Tidy => tidy::run(root),
        Command::Attacks => tidy::answers::write(root),
    }
}

/// The repository: this program runs from its build folder only.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}
