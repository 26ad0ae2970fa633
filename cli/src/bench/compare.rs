//! `kubectl sealane bench compare`.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sealane_operator_api::Benchmark;
use sealane_results::{Change, Comparison, compare, figure};
use serde::Serialize;

use super::cluster::Cluster;
use super::findings::Findings;
use super::pools::Pool;
use super::report::chosen;
use super::runs::{Run, Runs};
use crate::cluster::Connection;
use crate::output::{self, Format, printable, table};

/// Where neither the command nor the Benchmark says how much is a difference.
const TOLERANCE_PERCENT: f64 = 10.0;

/// What became better or worse from one run to another, pool by pool.
///
/// A difference is beyond doubt if it exceeds the tolerance, the 95 % bounds do not overlap, no machine was too busy to
/// compare on, and every result was right. Exits 1 when a figure is worse beyond doubt.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The Benchmark.
    #[arg(value_name = "NAME")]
    benchmark: String,
    /// The earlier run; the last but one that succeeded unless you name one.
    #[arg(value_name = "BEFORE")]
    before: Option<String>,
    /// The later run; the last one that succeeded unless you name one.
    #[arg(value_name = "AFTER")]
    after: Option<String>,
    /// Differences up to here count as none; the Benchmark's own tolerance, or 10, unless you name one.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    tolerance: Option<f64>,
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Two runs of a Benchmark beside each other.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Compared {
    namespace: String,
    benchmark: String,
    before: String,
    after: String,
    tolerance_percent: f64,
    /// Those that both runs have.
    pools: Vec<ComparedPool>,
    /// What has to be known beside the figures.
    notes: Vec<String>,
    /// Figures that are worse beyond doubt. None of a smoke run is.
    worse: usize,
}

#[derive(Debug, Serialize)]
struct ComparedPool {
    name: String,
    rows: Vec<Comparison>,
}

pub(super) fn run(arguments: &Arguments, connection: &Connection) -> Result<()> {
    let (benchmark, runs) = connection.with_client(async |client, namespace| {
        let cluster = Cluster::new(client, namespace);
        let benchmark = cluster.benchmark(&arguments.benchmark, Duration::ZERO).await?;
        let runs = cluster.runs(&benchmark).await?;
        Ok((benchmark, runs))
    })?;
    let (before, after) = pair(&runs, arguments.before.as_deref(), arguments.after.as_deref())?;
    let tolerance = arguments.tolerance.unwrap_or_else(|| tolerance_of(&benchmark));
    let compared = compared(&runs, before, after, tolerance);
    match arguments.output {
        Format::Text => output::print(&text(&compared))?,
        Format::Json => output::print_json(&compared)?,
    }
    match compared.worse {
        0 => Ok(()),
        worse => bail!("{worse} figures are worse than they were"),
    }
}

fn percent(text: &str) -> Result<f64, &'static str> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or("expected a number from 0 to 100")
}

fn tolerance_of(benchmark: &Benchmark) -> f64 {
    let regression = benchmark.spec.regression.as_ref();
    regression.map_or(TOLERANCE_PERCENT, |regression| f64::from(regression.tolerance_percent))
}

/// The runs of these ids; without them the last two that succeeded.
fn pair<'a>(runs: &'a Runs, before: Option<&str>, after: Option<&str>) -> Result<(&'a Run, &'a Run)> {
    let name = &runs.benchmark;
    let succeeded = |place: usize| {
        runs.succeeded().nth(place).with_context(|| {
            format!(
                "Benchmark {name} keeps too few runs that succeeded; `kubectl sealane bench run {name}` asks for one"
            )
        })
    };
    let one = |id: Option<&str>, place| id.map_or_else(|| succeeded(place), |id| chosen(runs, Some(id)));
    let (before, after) = (one(before, 1)?, one(after, 0)?);
    ensure!(before.id != after.id, "run {} cannot be compared with itself", before.id);
    Ok((before, after))
}

fn compared(runs: &Runs, before: &Run, after: &Run, tolerance: f64) -> Compared {
    let (before, after) = (Findings::new(runs, before), Findings::new(runs, after));
    let pools: Vec<_> = after.pools.iter().filter_map(|pool| both(&before, pool, tolerance)).collect();
    let rows = pools.iter().flat_map(|pool| &pool.rows);
    let worse = rows.filter(|row| row.change == Change::Worse).count();
    Compared {
        namespace: runs.namespace.clone(),
        benchmark: runs.benchmark.clone(),
        before: before.run.id.clone(),
        after: after.run.id.clone(),
        tolerance_percent: tolerance,
        pools,
        notes: notes(&before, &after),
        worse: if before.is_smoke() || after.is_smoke() { 0 } else { worse },
    }
}

fn both(before: &Findings<'_>, after: &Pool<'_>, tolerance: f64) -> Option<ComparedPool> {
    let before = before.pools.iter().find(|pool| pool.name == after.name)?;
    let rows = compare(&before.lines, &after.lines, tolerance);
    Some(ComparedPool { name: after.name.to_owned(), rows })
}

/// What is wrong with either run, and where they were not the same to begin with.
fn notes(before: &Findings<'_>, after: &Findings<'_>) -> Vec<String> {
    let grave = |findings: &Findings<'_>| {
        let notes = findings.notes().into_iter().filter(|note| note.grave);
        notes.map(|note| note.text).collect::<Vec<_>>()
    };
    let (was, is) = (grave(before), grave(after));
    let (of_both, was): (Vec<_>, Vec<_>) = was.into_iter().partition(|text| is.contains(text));
    let is = is.into_iter().filter(|text| !of_both.contains(text));
    let was = was.iter().map(|text| format!("{}: {text}", before.run.id));
    let is = is.map(|text| format!("{}: {text}", after.run.id));
    let mut notes: Vec<String> = was.chain(is).collect();
    notes.extend(of_both.iter().map(|text| format!("both runs: {text}")));
    for (one, other) in [(before, after), (after, before)] {
        let has = |name: &str| other.pools.iter().any(|pool| pool.name == name);
        let alone = one.pools.iter().filter(|pool| !has(&pool.name));
        notes.extend(alone.map(|pool| format!("{}: measured in {} alone", pool.name, one.run.id)));
    }
    for pool in &after.pools {
        let Some(earlier) = before.pools.iter().find(|earlier| earlier.name == pool.name) else { continue };
        let (was, is) = (earlier.facts(), pool.facts());
        for (what, was, is) in
            [("CPU", was.cpu, is.cpu), ("kernel", was.kernel, is.kernel), ("build", was.build, is.build)]
        {
            if was != is {
                notes.push(format!("{}: another {what}: {was}, then {is}", pool.name));
            }
        }
    }
    notes
}

fn text(compared: &Compared) -> String {
    let Compared { namespace, benchmark, before, after, tolerance_percent, pools, notes, worse: _ } =
        compared;
    let heading = ["POOL", "FIGURE", "BEFORE", "AFTER", "CHANGE", ""].map(str::to_owned).to_vec();
    let rows = pools.iter().flat_map(|pool| pool.rows.iter().map(|row| cells(&pool.name, row)));
    let title = format!(
        "Benchmark {benchmark} in namespace {namespace}: {before}, then {after}; up to {tolerance_percent} % is the same"
    );
    let notes: String = notes.iter().map(|note| format!("{}\n", printable(note))).collect();
    let separator = if notes.is_empty() { "" } else { "\n" };
    let table = table(&std::iter::once(heading).chain(rows).collect::<Vec<_>>());
    format!("{}\n\n{table}{separator}{notes}", printable(&title))
}

fn cells(pool: &str, row: &Comparison) -> Vec<String> {
    let Comparison { id, unit, before, after, percent, change } = row;
    let change = match change {
        Change::Better => "better",
        Change::Same => "same",
        Change::Worse => "WORSE",
        Change::Unclear => "unclear",
    };
    vec![
        pool.to_owned(),
        id.to_string(),
        figure(*before, *unit),
        figure(*after, *unit),
        format!("{percent:+.0} %"),
        change.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fixture::Fixture;

    fn last_two(fixture: &Fixture) -> Compared {
        let runs = fixture.open();
        let (before, after) = pair(&runs, None, None).unwrap();
        compared(&runs, before, after, 10.0)
    }

    #[test]
    fn the_last_two_that_succeeded_are_compared() {
        let compared = last_two(&Fixture::new());
        let text = text(&compared);
        assert!(
            text.starts_with("Benchmark nightly in namespace ml: run-2, then run-4; up to 10 %"),
            "{text}"
        );
        let row = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
        let expected = "cpu    C3/65536      5.40 GB/s    3.69 GB/s    -32 %    WORSE";
        assert_eq!(row("cpu    C3/65536"), expected);
        assert!(row("gpu    C3/65536").ends_with("same"), "{text}");
        assert!(row("cpu    C3-tcp/1536").ends_with("unclear"), "noisy: {text}");
        assert!(row("cpu    C1/attested").ends_with("unclear"), "wrong: {text}");
        assert_eq!(compared.worse, 5, "{text}");
    }

    #[test]
    fn figures_of_a_smoke_run_are_no_regression() {
        let mut fixture = Fixture::new();
        fixture.reseal("run-4", |summary| summary.level = "smoke".to_owned());
        let compared = last_two(&fixture);
        assert_eq!(compared.worse, 0);
        assert!(compared.notes[0].starts_with("run-4: Level smoke"), "{:?}", compared.notes);
    }

    #[test]
    fn runs_that_were_not_alike_are_told_so() {
        let mut fixture = Fixture::new();
        fixture.reseal("run-4", |summary| summary.machine.kernel = "6.9.0".to_owned());
        fixture.record_mut("run-2", |record| record.nodes.truncate(2));
        let notes = last_two(&fixture).notes;
        assert_eq!(notes[0], "cpu: measured in run-4 alone");
        assert!(notes[1].starts_with("gpu: another kernel: 6.8.0-1020 x86_64"), "{notes:?}");
    }

    #[test]
    fn what_is_wrong_is_said_of_the_run_that_it_is_wrong_with() {
        let mut fixture = Fixture::new();
        fixture.data.insert("run-9.json".to_owned(), "{}".to_owned());
        fixture.record_mut("run-2", |record| record.nodes[2].sealed = Some("all is well".to_owned()));
        let notes = last_two(&fixture).notes;
        assert!(notes[0].starts_with("run-2: cpu/cpu-0: what is kept of it is not used"), "{notes:?}");
        assert!(notes[1].starts_with("both runs: run-9.json"), "{notes:?}");
    }

    #[test]
    fn runs_are_named_or_found() {
        let mut fixture = Fixture::new();
        let runs = fixture.open();
        let ids = |before, after| pair(&runs, before, after).map(|(one, other)| (&*one.id, &*other.id));
        assert_eq!(ids(None, None).unwrap(), ("run-2", "run-4"));
        assert_eq!(ids(Some("run-1"), None).unwrap(), ("run-1", "run-4"));
        assert_eq!(ids(Some("run-1"), Some("run-3")).unwrap(), ("run-1", "run-3"));
        assert!(ids(Some("run-4"), None).unwrap_err().to_string().contains("with itself"));
        fixture.status().runs.truncate(2);
        let too_few = pair(&fixture.open(), None, None).unwrap_err().to_string();
        assert!(too_few.contains("kubectl sealane bench run nightly"), "{too_few}");
    }

    #[test]
    fn the_tolerance_is_the_benchmarks_own() {
        let mut benchmark = Fixture::new().benchmark;
        assert!((tolerance_of(&benchmark) - 5.0).abs() < 1e-9);
        benchmark.spec.regression = None;
        assert!((tolerance_of(&benchmark) - TOLERANCE_PERCENT).abs() < 1e-9);
        assert_eq!(percent("12.5"), Ok(12.5));
        for other in ["-1", "NaN", "101", "ten"] {
            assert!(percent(other).is_err(), "{other}");
        }
    }
}
