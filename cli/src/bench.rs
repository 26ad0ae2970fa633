//! `kubectl sealane bench`: runs of a Benchmark and what they found.
//!
//! `runs.rs` alone opens results; what is rendered is what it let through.

mod cluster;
mod compare;
mod findings;
#[cfg(test)]
mod fixture;
mod page;
mod pools;
mod report;
mod run;
mod runs;
mod text;

use anyhow::Result;
use clap::Subcommand;

use crate::cluster::Connection;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Arguments),
    Report(report::Arguments),
    Compare(compare::Arguments),
}

pub(crate) fn run(command: &Command, connection: &Connection) -> Result<()> {
    match command {
        Command::Run(arguments) => run::run(arguments, connection),
        Command::Report(arguments) => report::run(arguments, connection),
        Command::Compare(arguments) => compare::run(arguments, connection),
    }
}
