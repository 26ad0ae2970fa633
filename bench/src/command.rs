//! The command line.

mod progress;
mod sealing;
mod serve;

use std::io::{stdin, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::bench::{Bench, Outcome, Programs};
use crate::build::Build;
use crate::held;
use crate::machine::Machine;
use crate::plan::{Level, Peer, Plan, Selection, Suite, UDP_ANSWER_SECONDS};
use crate::remote::Server;
use crate::report::{self, Report, Stored};
use crate::sampling;
use crate::stranger;
use progress::{Progress, note, print};
use sealing::Sealing;
use serve::{Serve, token};

/// The sidecar that suites start, beside this program.
const SIDECAR: &str = "sealane-sidecar-sim";
/// The client in the source tree that this program was built from.
const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/python/src");

/// Measures Sealane beside its peers, in turn, on this machine
#[derive(Debug, Parser)]
#[command(name = "sealane-bench", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure, and report; exits 1 when a result was wrong or a suite failed, whatever the figures are
    Run(Box<Run>),
    /// Be the other end of a run elsewhere, until it is over; SEALANE_BENCH_KEY is the run's key
    Serve(Serve),
    /// Print the JSON Schema of report.json
    Schema,
    /// Flood a socket with handshakes that prove nothing, and count what becomes of them
    #[command(hide = true)]
    Flood(stranger::Options),
    /// Hold connections, and tell what they take
    #[command(hide = true)]
    Hold(held::Options),
    /// Take a sample for each line of standard input
    #[command(hide = true)]
    Sample(sampling::Options),
}

#[derive(Debug, Args)]
struct Run {
    /// A few minutes (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// As long as steady figures take
    #[arg(long)]
    full: bool,
    /// Tiny counts: everything runs and is checked, and no figure means anything
    #[arg(long, conflicts_with_all = ["quick", "full"])]
    smoke: bool,
    /// Suites to run; all without it
    #[arg(long = "suite", value_enum, value_delimiter = ',', value_name = "SUITE")]
    suites: Vec<Suite>,
    /// Rows to measure, by id or the beginning of one: C3, C3-tcp/1536, lane
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    rows: Vec<String>,
    /// Write report.json, report.md and report.html here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// An earlier report.json to compare with [default: the one in --out, before it is replaced]
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Whom the suite transport is compared with
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PEER", default_values_t = Peer::ALL)]
    compare_with: Vec<Peer>,
    /// Compare the suite transport with nobody
    #[arg(long, conflicts_with = "compare_with")]
    alone: bool,
    /// Where `sealane-bench serve` is the other end of the suite transport [default: this machine's loopback]
    #[arg(long, env = "SEALANE_BENCH_SERVER", value_name = "ADDRESS:PORT")]
    server: Option<SocketAddr>,
    /// How long the other end may take to answer over UDP
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = UDP_ANSWER_SECONDS)]
    udp_answer: u64,
    /// What to print when it is done
    #[arg(short, long, value_enum, default_value = "table", value_name = "FORM")]
    output: Output,
    /// The sidecar that suites start [default: the one beside this program]
    #[arg(long, value_name = "PROGRAM")]
    sidecar: Option<PathBuf>,
    /// This program built for this processor alone, which the suite portable is about
    #[arg(long, value_name = "PROGRAM")]
    native: Option<PathBuf>,
    /// The Python that plays applications
    #[arg(long, env = "SEALANE_BENCH_PYTHON", default_value = "python3", value_name = "PROGRAM")]
    python: PathBuf,
    /// The folder of the Python package `sealane`
    #[arg(long, env = "SEALANE_BENCH_CLIENT", default_value = CLIENT, value_name = "DIR")]
    client: PathBuf,
    #[command(flatten)]
    result: sealing::Options,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table
    Table,
    /// The whole report
    Json,
}

/// Runs the command line.
#[must_use]
pub fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(run) => {
            let sealing = run.result.sealing().unwrap_or_else(|error| misused(&error));
            run.run(sealing)
        }
        Command::Serve(serve) => serve.run(),
        Command::Schema => report::schema().map(|schema| print(&schema)),
        Command::Flood(options) => flood(&options),
        Command::Hold(options) => hold(options),
        Command::Sample(options) => sampling::take(options, stdin().lock(), stdout().lock()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

impl Run {
    const fn level(&self) -> Level {
        match (self.smoke, self.full) {
            (true, _) => Level::Smoke,
            (_, true) => Level::Full,
            _ => Level::Quick,
        }
    }

    fn programs(&self) -> Result<Programs> {
        let own = std::env::current_exe().context("finding this program")?;
        let sidecar = self.sidecar.clone().unwrap_or_else(|| own.with_file_name(SIDECAR));
        let (native, python, client) = (self.native.clone(), self.python.clone(), self.client.clone());
        Ok(Programs { sidecar, bench: own, native, python, client })
    }

    /// Measures, and tells. A result is left whatever comes of it, and before all else that can fail.
    fn run(self, sealing: Option<Sealing>) -> Result<()> {
        let mut machine = Machine::look();
        let began = OffsetDateTime::now_utc().format(&Rfc3339).context("telling the time")?;
        let clock = Instant::now();
        let (measured, fault) = match self.measure() {
            Ok(measured) => (measured, None),
            Err(error) => ((Build::unknown(), None, Outcome::default()), Some(error)),
        };
        machine.look_again();
        let (build, stored, outcome) = measured;
        let when = (began, clock.elapsed().as_secs_f64());
        let report = Report::new(self.level(), when, machine, build, outcome);
        let report = match stored {
            Some(stored) => report.beside(&stored),
            None => report,
        };
        let left = sealing
            .map_or(Ok(()), |sealing| sealing.leave(&report, fault.as_ref()).context("no result is left"));
        let told = fault.map_or_else(|| self.tell(&report), Err);
        if let (Err(error), Err(_)) = (&told, &left) {
            complain(error);
        }
        left.and(told)
    }

    fn measure(&self) -> Result<(Build, Option<Stored>, Outcome)> {
        let programs = self.programs()?;
        let build = Build::beside(&programs.bench)?;
        // Before anything is measured: a name that is wrong is told at once, and the report may take the file's place.
        let stored = self.stored()?;
        let peers = if self.alone { Vec::new() } else { self.compare_with.clone() };
        let selection = Selection { suites: self.suites.clone(), rows: self.rows.clone(), peers };
        let server = self.server()?;
        let mut progress = Progress::new();
        let udp_answer = Duration::from_secs(self.udp_answer);
        let plan = Plan { udp_answer, ..Plan::of(self.level()) };
        let bench = Bench::new(plan, selection, programs, &mut progress);
        let outcome = bench.with_server(server.clone()).run();
        progress.finish();
        // The figures are here: a server that does not hear of it ends by its own deadline.
        if let Some(Err(error)) = server.map(|server| server.stop()) {
            note(&format!("the server was not told that the run is over: {error:#}"));
        }
        Ok((build, stored, outcome))
    }

    /// The report to compare with. One that only lies where this one goes does not have to be readable.
    fn stored(&self) -> Result<Option<Stored>> {
        if let Some(path) = &self.baseline {
            return Stored::read(path).map(Some).context("the baseline");
        }
        let Some(path) = self.out.as_ref().map(|folder| folder.join(report::FILE)) else { return Ok(None) };
        if !path.exists() {
            return Ok(None);
        }
        match Stored::read(&path) {
            Ok(stored) => {
                note(&format!(
                    "compared with the report of {} in {}, which is replaced",
                    stored.began(),
                    path.display()
                ));
                Ok(Some(stored))
            }
            Err(error) => {
                note(&format!("not compared with what is there: {error:#}"));
                Ok(None)
            }
        }
    }

    fn server(&self) -> Result<Option<Server>> {
        let Some(address) = self.server else { return Ok(None) };
        Ok(Some(Server { address, token: token()? }))
    }

    fn tell(&self, report: &Report) -> Result<()> {
        if let Some(folder) = &self.out {
            report.write(folder)?;
            note(&format!("report: {}", folder.join("report.html").display()));
        }
        match self.output {
            Output::Table => print(&report::table(report)),
            Output::Json => print(&report.json()?),
        }
        report.judge()
    }
}

fn misused(error: &anyhow::Error) -> ! {
    Arguments::command().error(ErrorKind::MissingRequiredArgument, format!("{error:#}")).exit()
}

fn complain(error: &anyhow::Error) {
    note(&format!("error: {error:#}"));
}

fn flood(options: &stranger::Options) -> Result<()> {
    let tally = stranger::flood(options)?;
    print(&serde_json::to_string(&tally)?);
    Ok(())
}

fn hold(options: held::Options) -> Result<()> {
    print(&serde_json::to_string(&held::hold(options)?)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        let parse = |words: &[&str]| Arguments::try_parse_from([&["sealane-bench", "run"], words].concat());
        let level = |words: &[&str]| match parse(words).unwrap().command {
            Command::Run(run) => run.level(),
            other => panic!("{other:?}"),
        };
        assert_eq!(level(&[]), Level::Quick);
        assert_eq!(level(&["--full", "--suite", "stream,lane", "--rows", "C3"]), Level::Full);
        assert!(parse(&["--quick", "--full"]).is_err());
        assert!(parse(&["--suite", "everything"]).is_err());
    }
}
