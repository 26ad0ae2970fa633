//! The command line of both sidecar binaries, and the order in which a sidecar starts and stops.

mod keygen;
mod probe;
mod serve;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tracing_subscriber::EnvFilter;

use crate::agent::{self, AgentArguments};
use crate::config::{Config, environment, file};
use crate::evidence::Platforms;
use crate::node::WallClock;

/// Exit code of bad usage and of configuration that cannot be used.
const USAGE: u8 = 2;

/// Attested, post-quantum data lanes for the containers of this pod.
#[derive(Debug, Parser)]
#[command(name = "sealane-sidecar", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the sidecar, configured by the environment that the webhook sets or by a file
    Run {
        /// Use this YAML file in place of the environment and the operator
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Run the agent of this node
    Agent(Box<AgentArguments>),
    /// Ask the sidecar in this container whether it has started; exit 0 if it has
    Probe {
        /// Its admin port; 0 asks the one that it has told beside its door
        #[arg(long, env = "SEALANE_ADMIN_PORT", default_value_t = crate::config::ADMIN_PORT)]
        port: u16,
        /// Its door
        #[arg(long, env = "SEALANE_DOOR", default_value = crate::config::DOOR, value_name = "SOCKET")]
        door: PathBuf,
    },
    /// Make the key of a Peer that has no TEE (`provider: Key`), and print its public half
    Keygen(keygen::Arguments),
}

/// Runs the command line with the platforms that the binary was linked with. Exits 2 on bad usage or configuration.
#[must_use]
pub fn main_with(platforms: Platforms) -> ExitCode {
    main_with_clock(platforms, None)
}

/// As [`main_with`], with `wall` in place of the machine's clock where there is one. Called by `sealane-sidecar-sim`, never
/// from configuration.
#[must_use]
pub fn main_with_clock(platforms: Platforms, wall: Option<Arc<dyn WallClock>>) -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are answers, not errors; clap knows where each belongs.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    if let Err(error) = hide_memory() {
        return finish(Err(error));
    }
    match arguments.command {
        // It runs in the sidecar's container, and needs nothing of what that was given.
        Command::Probe { port, door } => {
            finish(serve::give_up_capabilities().and_then(|()| probe::ask(port, &door)))
        }
        Command::Keygen(arguments) => finish(keygen::run(arguments)),
        Command::Agent(arguments) => {
            log();
            match agent::Config::try_from(*arguments) {
                Ok(config) => finish(agent::run(config, &platforms)),
                Err(error) => {
                    report(&error.into());
                    ExitCode::from(USAGE)
                }
            }
        }
        Command::Run { config } => {
            log();
            match configuration(config) {
                Ok(config) => finish(serve::run(&config, platforms, wall)),
                Err(error) => {
                    report(&error);
                    ExitCode::from(USAGE)
                }
            }
        }
    }
}

/// Keeps this process's memory, which holds keys, out of core dumps and from other processes of the same user (prctl(2),
/// `PR_SET_DUMPABLE`).
fn hide_memory() -> anyhow::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("memory cannot be kept from core dumps")
}

fn configuration(path: Option<PathBuf>) -> anyhow::Result<Config> {
    let lookup = |name: &'static str| std::env::var(name).ok();
    Ok(match path {
        Some(path) => Config { traces: environment::traces(&lookup)?, ..file::load(&path)? },
        None => environment::parse(&lookup)?,
    })
}

fn finish(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, in one line for the log of the pod.
#[expect(clippy::print_stderr, reason = "the last words of a process that stops are for whoever started it")]
fn report(error: &anyhow::Error) {
    eprintln!("sealane-sidecar: {error:#}");
}

/// JSON where nobody watches, text on a terminal; `RUST_LOG` chooses what.
fn log() {
    use std::io::IsTerminal;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second subscriber is refused, which leaves the first one in charge.
    let _ = if std::io::stderr().is_terminal() { builder.try_init() } else { builder.json().try_init() };
}
