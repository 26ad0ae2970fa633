//! `kubectl sealane bench run`.

mod progress;

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use sealane_operator_api::RunOutcome;
use sealane_protocol::keys::Random as _;
use tokio::time::{Instant, sleep};

use self::progress::Progress;
use super::cluster::Cluster;
use super::findings::Findings;
use super::report::{chosen, print};
use super::runs::Runs;
use crate::auditor::SystemRandom;
use crate::clock;
use crate::cluster::Connection;
use crate::lifetime::Lifetime;
use crate::output::{self, Format, printable};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// An API server that is away for so long is no reason to leave a run of half an hour.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ask for a run of a Benchmark now, wait for its end, and print what it found.
///
/// Sets the annotation sealane.dev/run of the Benchmark; the operator does the rest. Whoever interrupts the command leaves
/// the run alone. Exits 1 when no run begins, or the run fails or does not end in time.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The Benchmark.
    #[arg(value_name = "NAME")]
    benchmark: String,
    /// How long to wait for the end of the run, for example 90s, 30m or 2h.
    #[arg(long, value_name = "SPAN", default_value = "30m")]
    timeout: Lifetime,
    /// Ask for the run and leave.
    #[arg(long, conflicts_with_all = ["timeout", "output"])]
    no_wait: bool,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let Arguments { benchmark: name, timeout, no_wait, output } = arguments;
    let request = request()?;
    let over = connection.with_client(async |client, namespace| {
        let cluster = Cluster::new(client, namespace);
        let asked = cluster.ask(name, &request).await?;
        if *no_wait {
            return Ok(None);
        }
        let progress = Progress::new(request, Duration::from_secs(timeout.seconds), &asked);
        wait(&cluster, name, progress).await.map(Some)
    })?;
    let Some((runs, id)) = over else {
        output::say(&format!(
            "Asked for a run; `kubectl sealane bench report {name}` tells of it when it is over."
        ));
        return Ok(());
    };
    let run = chosen(&runs, Some(&id))?;
    print(&Findings::new(&runs, run), *output)?;
    match run.outcome {
        RunOutcome::Succeeded => Ok(()),
        RunOutcome::Failed => bail!("run {} failed", printable(&id)),
        RunOutcome::Replaced => bail!("run {} was replaced by another", printable(&id)),
    }
}

/// A text that no other request has: when it was, and chance.
fn request() -> Result<String> {
    let mut chance = [0; 4];
    SystemRandom.fill(&mut chance)?;
    Ok(format!("{}-{:08x}", clock::now(), u32::from_be_bytes(chance)))
}

/// What the Benchmark's runs found, once the one that was asked for is over, and its id.
async fn wait(cluster: &Cluster, name: &str, mut progress: Progress) -> Result<(Runs, String)> {
    let began = Instant::now();
    loop {
        let benchmark = cluster.benchmark(name, PATIENCE).await?;
        let step = progress.see(began.elapsed(), &benchmark);
        // What status says is in it.
        let step = step.map_err(|error| anyhow!(printable(&error.to_string())))?;
        step.lines.iter().for_each(|line| output::say(&printable(line)));
        if let Some(run) = step.over {
            return Ok((cluster.runs(&benchmark).await?, run));
        }
        sleep(LOOK_EVERY).await;
    }
}
