//! `kubectl sealane bench report`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::findings::Findings;
use super::page::page;
use super::runs::{Run, Runs};
use super::text::text;
use crate::cluster::Connection;
use crate::output::{self, Format, printable};

/// What a run found, the node pools side by side: a table, JSON, or a page with plots.
///
/// Results count only if they are signed with the key that the Benchmark's status names for their run; others are named
/// and not used.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The Benchmark. Not needed where the namespace has one.
    #[arg(value_name = "NAME")]
    benchmark: Option<String>,
    /// The run; the last one that is over unless you name one.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    /// Write a page with plots and the history of the figures as well. It needs no other file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let runs = connection.with_client(async |client, namespace| {
        let cluster = Cluster::new(client, namespace);
        let benchmark = cluster.benchmark_or_only(arguments.benchmark.as_deref()).await?;
        cluster.runs(&benchmark).await
    })?;
    let findings = Findings::new(&runs, chosen(&runs, arguments.run.as_deref())?);
    if let Some(file) = &arguments.html {
        fs::write(file, page(&findings)).with_context(|| format!("cannot write {}", file.display()))?;
        output::say(&format!("Wrote {}.", file.display()));
    }
    print(&findings, arguments.output)
}

/// The run of that id, or the last one.
pub(super) fn chosen<'a>(runs: &'a Runs, id: Option<&str>) -> Result<&'a Run> {
    let Runs { benchmark, active, runs, .. } = runs;
    match (id, runs.first()) {
        (None, Some(last)) => Ok(last),
        (None, None) => match active {
            Some(active) => {
                bail!("the first run of Benchmark {benchmark}, {}, goes on", printable(active))
            }
            None => bail!(
                "Benchmark {benchmark} has had no run; `kubectl sealane bench run {benchmark}` asks for one"
            ),
        },
        (Some(id), _) if active.as_deref() == Some(id) => bail!("run {id} goes on"),
        (Some(id), _) => runs.iter().find(|run| run.id == id).with_context(|| {
            let kept: Vec<_> = runs.iter().map(|run| printable(&run.id)).collect();
            format!("Benchmark {benchmark} keeps no run {id}; it keeps: {}", kept.join(", "))
        }),
    }
}

pub(super) fn print(findings: &Findings<'_>, format: Format) -> Result<()> {
    match format {
        Format::Text => output::print(&text(findings)),
        Format::Json => output::print_json(&value(findings)),
    }
}

fn value(findings: &Findings<'_>) -> Value {
    let Findings { runs, run, pools: _, regressions } = findings;
    let regressions: Vec<_> =
        regressions.iter().map(|(pool, regressed)| json!({"pool": pool, "regressed": regressed})).collect();
    json!({
        "namespace": runs.namespace,
        "benchmark": runs.benchmark,
        "run": run,
        "regressions": regressions,
        "ignored": runs.ignored,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fixture::Fixture;

    #[test]
    fn a_run_is_chosen_by_its_id_and_the_last_one_without() {
        let mut fixture = Fixture::new();
        let runs = fixture.open();
        assert_eq!(chosen(&runs, None).unwrap().id, "run-4");
        assert_eq!(chosen(&runs, Some("run-2")).unwrap().id, "run-2");
        let unknown = chosen(&runs, Some("run-7")).unwrap_err().to_string();
        assert!(unknown.ends_with("it keeps: run-4, run-3, run-2, run-1"), "{unknown}");
        fixture.status().runs.clear();
        assert!(chosen(&fixture.open(), None).unwrap_err().to_string().contains("bench run nightly"));
    }

    #[test]
    fn json_holds_the_run_and_what_was_made_of_it() {
        let runs = Fixture::new().open();
        let value = value(&Findings::new(&runs, &runs.runs[0]));
        assert_eq!(value["run"]["nodes"][2]["summary"]["rows"][0]["id"], "C3/65536");
        assert_eq!(value["run"]["key"].as_str().unwrap().len(), 64);
        assert_eq!(value["regressions"][0]["pool"], "cpu");
        assert_eq!(value["regressions"][0]["regressed"]["percent"], 32);
    }
}
