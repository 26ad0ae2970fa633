//! Small tensors: how many per second, and how long one is on its way when nothing else is.

use std::cell::RefCell;

use anyhow::{Context as _, Result};

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contest, Sample, Series};
use crate::ends::{Done, Ends};
use crate::plan::Suite;
use crate::programs::{Route, Sidecars, Task};
use crate::row::{Better, RowId, Subject, Unit};
use crate::statistics::quantile;

/// Bytes of a tensor.
const BYTES: usize = 1_536;
/// Tensors of a `put_many`.
const BATCH: u32 = 256;
/// Messages of a first burst that is timed.
const FIRST: u64 = 512;
/// How much longer than the peer's a round trip with nothing else to do may take, as theirs over ours: six processes are
/// woken for it in place of two.
const IDLE_LIMIT: f64 = 0.25;
const PEER: &str = "Python sendall and recv_into";
/// Tensors per second of the lane whose latencies are taken.
const STEADY_PER_SECOND: u32 = 500;
/// Microseconds of the published targets.
const P50_LIMIT: f64 = 30_000.0;
const P95_LIMIT: f64 = 75_000.0;

pub(super) fn ids() -> impl Iterator<Item = RowId> {
    rate_ids().into_iter().chain(idle_ids()).chain(steady_ids())
}

fn rate_ids() -> [RowId; 2] {
    ["put", "put_many"].map(|call| RowId::new("lane", format!("{BYTES}-{call}")))
}

fn idle_ids() -> [RowId; 2] {
    ["idle", "idle-added"].map(|case| RowId::new("lane", case))
}

fn steady_ids() -> [RowId; 2] {
    ["p50", "p95"].map(|case| RowId::new("H5", case))
}

pub(super) fn run(bench: &mut Bench<'_>, route: &Route, lane: &Ends<'_>, sidecars: &Sidecars) -> Ran {
    rates(bench, &route.note, lane)?;
    steady(bench, &route.note, lane)?;
    idle(bench, route, sidecars)
}

fn rates(bench: &mut Bench<'_>, path: &str, lane: &Ends<'_>) -> Ran {
    let ids = rate_ids();
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let first = RefCell::new(lane.thorough(BYTES)?);
    let target = bench.plan.lane_sample;
    let task = |batch| -> Result<Task> {
        let task = Task { bytes: BYTES, count: FIRST, batch, ..Task::default() };
        let count = FIRST as f64 * lane.times(task, target)?;
        // A whole number of batches.
        Ok(Task { count: (count as u64).next_multiple_of(BATCH.into()), ..task })
    };
    let per_second = |task: Task| -> Result<Sample> {
        let Done { seconds, wrong, .. } = lane.follow(task)?;
        let wrong = first.borrow_mut().take().or(wrong);
        Ok(Sample { value: task.count as f64 / seconds, latencies: Vec::new(), wrong })
    };
    let (single, many) = (task(None)?, task(Some(BATCH))?);
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contest =
        Contest::hold(warmups, rounds, [Box::new(|| per_second(single)), Box::new(|| per_second(many))])?;
    let calls = ["put one by one".to_owned(), format!("put in batches of {BATCH}")];
    for ((id, call), series) in ids.into_iter().zip(calls).zip(&contest.series) {
        let name = format!("tensors of {BYTES} B {call} by one Python client and taken by another");
        let note =
            format!("{path}; until the last was taken, one by one, with its length and both ends compared");
        let row = Caption { better: Better::Higher, ..caption(id, name, Unit::PerSecond, None, note) };
        bench.row(row.row(series, None, &contest.control));
    }
    Ok(())
}

fn steady(bench: &mut Bench<'_>, path: &str, lane: &Ends<'_>) -> Ran {
    let ids = steady_ids();
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let count = f64::from(STEADY_PER_SECOND) * bench.plan.lane_sample.as_secs_f64();
    let rate = Some(STEADY_PER_SECOND);
    let task = Task { bytes: BYTES, count: (count as u64).max(FIRST / 64), rate, ..Task::default() };
    let tails = RefCell::new(Vec::new());
    let block = || {
        let Done { latencies, wrong, .. } = lane.follow(task)?;
        tails.borrow_mut().push(quantile(&latencies, 0.95).context("no tensor came")?);
        Ok(Sample::of_latencies(latencies, wrong))
    };
    let rounds = bench.plan.rounds;
    let contest = Contest::hold(0, rounds, [Box::new(block)])?;
    let [middle] = &contest.series;
    let tail = Series { values: tails.take(), latencies: Vec::new(), wrong: middle.wrong.clone() };
    let rows = [("half", P50_LIMIT, middle), ("95 %", P95_LIMIT, &tail)];
    for (id, (share, limit, series)) in ids.into_iter().zip(rows) {
        let name = format!(
            "{share} of tensors of {BYTES} B are taken after their put, {STEADY_PER_SECOND} per second"
        );
        let row = caption(id, name, Unit::Microseconds, Some(limit), path.to_owned());
        bench.row(row.row(series, None, &contest.control));
    }
    Ok(())
}

fn idle(bench: &mut Bench<'_>, route: &Route, sidecars: &Sidecars) -> Ran {
    let ids = idle_ids();
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let lane = Ends::asking_lane(&bench.programs, route, sidecars)?;
    let plain = Ends::asking_plain(&bench.programs, route)?;
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let task = Task { bytes: BYTES, count: bench.plan.block_of(BYTES), ..Task::default() };
    let round_trips = |ends: &Ends<'_>, first: &RefCell<Option<String>>| -> Result<Sample> {
        let Done { latencies, wrong, .. } = ends.follow(task)?;
        Ok(Sample::of_latencies(latencies, first.borrow_mut().take().or(wrong)))
    };
    let [of_lane, of_plain] = [lane.thorough(BYTES)?, plain.thorough(BYTES)?].map(RefCell::new);
    let contest = Contest::hold(
        warmups,
        rounds,
        [Box::new(|| round_trips(&lane, &of_lane)), Box::new(|| round_trips(&plain, &of_plain))],
    )?;
    let [ours, theirs] = &contest.series;
    let [whole_id, added_id] = ids;
    let name = format!("{BYTES} B there and back between two Python clients with nothing else to do");
    let row = caption(whole_id, name, Unit::Microseconds, None, route.note.clone());
    let row = Caption { peer: Some(PEER.to_owned()), limits: vec![(Subject::Ratio, IDLE_LIMIT)], ..row };
    bench.row(row.row(ours, Some(theirs), &contest.control));
    let mut added = ours.beyond(theirs);
    added.values.iter_mut().for_each(|there_and_back| *there_and_back /= 2.0);
    let name = format!("what the lane adds to {BYTES} B one way: half of what it adds there and back");
    let note = format!("{}; less the same over plain TCP, block by block", route.note);
    let row = caption(added_id, name, Unit::Microseconds, None, note);
    bench.row(row.row(&added, None, &contest.control));
    Ok(())
}

fn caption(id: RowId, name: String, unit: Unit, limit: Option<f64>, note: String) -> Caption {
    Caption {
        id,
        suite: Suite::Lane.word(),
        name,
        unit,
        better: Better::Lower,
        peer: None,
        limits: limit.map(|limit| (Subject::Ours, limit)).into_iter().collect(),
        doubt: None,
        note,
    }
}
