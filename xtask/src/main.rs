//! `cargo xtask`: see `lib.rs`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{cluster::ClusterCommand, images, progress::note};

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
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Cluster(command) => command.run(),
        Command::Images(options) => options.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
