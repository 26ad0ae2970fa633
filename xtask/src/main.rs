//! `cargo xtask`: see `lib.rs`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask::{cluster::ClusterCommand, crdgen, images, progress::note, tidy};

/// The project's own tooling
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The local two-node Kubernetes cluster
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Build the container images, and load or push them
    Images(images::Options),
    /// Write the custom resource definitions
    Crdgen {
        /// Change nothing, and fail if a file differs
        #[arg(long)]
        check: bool,
    },
    /// Check the rules of the codebase that a compiler does not
    Tidy,
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
        Command::Cluster(command) => command.run(),
        Command::Images(options) => options.run(),
        Command::Crdgen { check } => crdgen::run(root, check),
        Command::Tidy => tidy::run(root),
    }
}

/// The repository: this program runs from its build folder only.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}
