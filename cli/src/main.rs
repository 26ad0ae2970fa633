//! `kubectl sealane`: makes, signs and explains policies; shows and diagnoses an installation; audits Peers; reports
//! benchmarks.
//!
//! Invariant: private keys of owners and auditors are read from files and never leave this process, and nothing that is
//! signed is changed after the signature. Results go to stdout, everything said to a person goes to stderr.
//! `collateral import` applies one ConfigMap, `bench run` sets one annotation of a Benchmark, and `restart --yes` one of the
//! pod templates of workloads; deliberately absent are other changes to a cluster. What is to be applied is printed, for
//! `kubectl apply`.

mod arguments;
mod auditor;
mod bench;
mod check;
mod clock;
mod cluster;
mod collateral;
mod creations;
mod explain;
mod freshness;
mod lifetime;
mod nearest;
mod objects;
mod outdated;
mod output;
mod policy;
mod render;
mod restart;
mod source;
mod status;
mod verify;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let Arguments { connection, command } = Arguments::parse();
    let outcome = match command {
        Command::Policy(command) => policy::run(command, &connection),
        Command::Collateral(command) => collateral::run(command, &connection),
        Command::Render(arguments) => render::run(&arguments, &connection),
        Command::Status(arguments) => status::run(&arguments, &connection),
        Command::Restart(arguments) => restart::run(&arguments, &connection),
        Command::Verify(arguments) => verify::run(&arguments, &connection),
        Command::Check(arguments) => check::run(&arguments, &connection),
        Command::Bench(command) => bench::run(&command, &connection),
        Command::Explain(arguments) => explain::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("error: {}", output::causes(&error)));
            ExitCode::FAILURE
        }
    }
}
