//! How time and memory grow: with streams through one connection, and with connections to one sidecar.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contest, Sample, Series};
use crate::ends::{Done, Ends};
use crate::fleet::Fleet;
use crate::plan::{Level, Suite};
use crate::programs::{Lone, Route, Sidecars, Task};
use crate::row::{Better, RowId, Subject, Unit};
use crate::stranger::raise_file_limit;
use crate::world::World;

/// How much more each may cost where there are ten times as many.
const LIMIT: f64 = 1.5;
/// Bytes of the one tensor of a stream.
const BYTES: usize = 1_536;
/// Peers that dial at once: fewer than a sidecar admits, so that none is sent away.
const AT_ONCE: usize = 16;
/// Files beside connections.
const FILES_SPARE: u64 = 200;
/// Where a sender listens; nobody ever dials it.
const PORT: u16 = 14_710;

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    streams(bench)?;
    connections(bench)
}

/// Few, many, and rounds of both.
const fn sizes(bench: &Bench<'_>, few: u32) -> (u32, u32, usize) {
    match bench.plan.level {
        Level::Smoke => (2, 20, 1),
        Level::Quick => (few, few * 10, 3),
        Level::Full => (few, few * 10, 7),
    }
}

fn streams(bench: &mut Bench<'_>) -> Ran {
    let ids = ["streams", "streams-1000", "streams-10000"].map(|case| RowId::new("growth", case));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let (world, route) = (World::new(false)?, Route::loopback(""));
    let mut sidecars = Sidecars::start(&bench.programs.sidecar, &world, &route)?;
    let contest = one_by_one(bench, &route, &sidecars).map_err(|error| sidecars.explain(error))?;
    let [few, many] = &contest.series;
    let note = "one after the other through one connection of two sidecars: a Python client opens a lane, puts one tensor \
                and closes it when another client has taken it";
    let names = ["1,000 streams, all told", "1,000 streams out of 10,000"].map(str::to_owned);
    let [grown_id, few_id, many_id] = ids;
    for ((id, name), series) in [few_id, many_id].into_iter().zip(names).zip([few, many]) {
        let row = caption(id, name, Unit::Seconds, None, note);
        bench.row(row.row(series, None, &contest.control));
    }
    let name = "what a stream costs out of 10,000: times what it costs out of 1,000".to_owned();
    let row = caption(grown_id, name, Unit::Times, Some(LIMIT), note);
    bench.row(row.row(&grown(many, few), None, &contest.control));
    Ok(())
}

/// Seconds per thousand streams, of few and of many.
fn one_by_one(bench: &Bench<'_>, route: &Route, sidecars: &Sidecars) -> Result<Contest<2>> {
    let ends = Ends::streams(&bench.programs, route, sidecars)?;
    let first = RefCell::new(ends.thorough(BYTES)?);
    let (few, many, rounds) = sizes(bench, 1_000);
    let open = |count: u32| -> Result<Sample> {
        let Done { seconds, wrong, .. } =
            ends.follow(Task { bytes: BYTES, count: count.into(), ..Task::default() })?;
        let wrong = first.borrow_mut().take().or(wrong);
        Ok(Sample { value: seconds * 1_000.0 / f64::from(count), latencies: Vec::new(), wrong })
    };
    Contest::hold(0, rounds, [Box::new(|| open(few)), Box::new(|| open(many))])
}

/// What of a growing sidecar was seen.
struct Grown {
    /// Seconds per connection of the first ones, and of those that came to them.
    few: f64,
    many: f64,
    /// Kibibytes per connection of those that came to the first ones.
    memory: f64,
}

fn connections(bench: &mut Bench<'_>) -> Ran {
    let ids = ["connections", "connections-100", "connections-1000", "idle-connection"]
        .map(|case| RowId::new("growth", case));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let (few, many, rounds) = sizes(bench, 100);
    raise_file_limit(u64::from(many) + FILES_SPARE);
    let world = World::new(false)?;
    let seen = RefCell::new(Vec::new());
    let grow = || {
        let grown = dial(bench, &world, few, many)?;
        let value = grown.many / grown.few;
        seen.borrow_mut().push(grown);
        Ok(Sample { value, ..Sample::default() })
    };
    let contest = Contest::hold(0, rounds, [Box::new(grow)])?;
    let seen = seen.into_inner();
    let of =
        |figure: fn(&Grown) -> f64| Series { values: seen.iter().map(figure).collect(), ..Series::default() };
    let note = "real connections over loopback, 16 at a time, to one sidecar, each of another peer with its own key that \
                proves itself; the peers are threads of the program that measures and share the machine";
    let [grown_id, few_id, many_id, memory_id] = ids;
    let [grown] = &contest.series;
    let name = "what a connection costs beyond 100: times what it costs among the first 100".to_owned();
    let row = caption(grown_id, name, Unit::Times, Some(LIMIT), note);
    bench.row(row.row(grown, None, &contest.control));
    let rates = [
        (few_id, "handshakes, the first 100 connections", of(|grown| 1.0 / grown.few)),
        (many_id, "handshakes, from 100 connections to 1,000", of(|grown| 1.0 / grown.many)),
    ];
    for (id, name, series) in rates {
        let row = caption(id, name.to_owned(), Unit::PerSecond, None, note);
        let row = Caption { better: Better::Higher, ..row };
        bench.row(row.row(&series, None, &contest.control));
    }
    let name = "resident memory of the sidecar per established, idle connection".to_owned();
    let note =
        "from 100 connections to 1,000, with what its allocator keeps and what the handshakes left behind";
    let row = caption(memory_id, name, Unit::Kibibytes, None, note);
    bench.row(row.row(&of(|grown| grown.memory), None, &contest.control));
    Ok(())
}

/// Lets peers dial a fresh sidecar: `few` first, then up to `many`.
fn dial(bench: &Bench<'_>, world: &World, few: u32, many: u32) -> Result<Grown> {
    let mut fleet = Fleet::new(world, many, Duration::ZERO)?;
    let sources: Vec<_> =
        fleet.sources().into_iter().map(|source| SocketAddr::from((source, PORT))).collect();
    let mut lone = Lone::start(&bench.programs.sidecar, world, &sources)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let grown = runtime.block_on(async {
        let target = lone.sidecar.listen;
        // The first one waits until the sidecar is up.
        let mut held = fleet.dial(target, 1, 1).await?;
        let mut step = async |count: u32| -> Result<(f64, f64)> {
            let began = Instant::now();
            held.extend(fleet.dial(target, count as usize, AT_ONCE).await?);
            let took = began.elapsed().as_secs_f64() / f64::from(count);
            Ok((took, lone.sidecar.child.resident_mebibytes()?))
        };
        let (first, before) = step(few - 1).await?;
        let (second, after) = step(many - few).await?;
        ensure!(held.len() == many as usize, "{} of {many} were established", held.len());
        let memory = (after - before) * 1024.0 / f64::from(many - few);
        anyhow::Ok(Grown { few: first, many: second, memory })
    });
    grown.context("peers of a growing sidecar").map_err(|error| lone.explain(error))
}

/// Round by round.
fn grown(many: &Series, few: &Series) -> Series {
    Series {
        values: many.values.iter().zip(&few.values).map(|(many, few)| many / few).collect(),
        latencies: Vec::new(),
        wrong: few.wrong.clone().or_else(|| many.wrong.clone()),
    }
}

fn caption(id: RowId, name: String, unit: Unit, limit: Option<f64>, note: &str) -> Caption {
    Caption {
        id,
        suite: Suite::Growth.word(),
        name,
        unit,
        better: Better::Lower,
        peer: None,
        limits: limit.map(|limit| (Subject::Ours, limit)).into_iter().collect(),
        doubt: None,
        note: note.to_owned(),
    }
}
