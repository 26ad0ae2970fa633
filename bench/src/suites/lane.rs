//! Python client to Python client through two sidecars, against what Python gets out of a plain TCP connection on the
//! same path.

mod small;

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Result;

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contender, Contest, Sample, Series};
use crate::ends::{Done, Ends};
use crate::plan::{Level, Suite};
use crate::programs::{Route, Sidecar, Sidecars, Task};
use crate::row::{Better, RowId, Subject, Unit};
use crate::world::{Session, World};

/// Bytes of a tensor.
const CASES: [usize; 2] = [1_048_576, 8_388_608];
/// How much of plain TCP's speed must be left.
const LIMIT: f64 = 0.8;
const PEER: &str = "Python sendall(memoryview) and recv_into";
/// Messages of a first burst that is timed, to see how many make a sample.
const FIRST: u64 = 8;
/// A gigabyte in tensors of so many bytes.
const GIGABYTE: u64 = 1 << 30;
const PART_BYTES: usize = 8_388_608;

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let bulk = CASES.iter().flat_map(|bytes| bulk_ids(*bytes));
    let ids: Vec<_> = bulk.chain(small::ids()).chain([gigabyte_id()]).collect();
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let route = Route::best();
    let world = World::with_sessions(&[Session::Measured, Session::Asked, Session::Answered])?;
    let mut sidecars = Sidecars::start(&bench.programs.sidecar, &world, &route)?;
    measure(bench, &route, &sidecars).map_err(|error| sidecars.explain(error))
}

fn measure(bench: &mut Bench<'_>, route: &Route, sidecars: &Sidecars) -> Ran {
    let lane = Ends::lane(&bench.programs, route, sidecars)?;
    let plain = Ends::plain(&bench.programs, route)?;
    for bytes in CASES {
        bulk(bench, &route.note, (&lane, &plain), bytes)?;
    }
    gigabyte(bench, &route.note, &lane, sidecars)?;
    small::run(bench, route, &lane, sidecars)
}

/// The speed, and what it costs.
fn bulk_ids(bytes: usize) -> [RowId; 2] {
    [RowId::new("lane", bytes).beside("tcp"), RowId::new("lane", format!("{bytes}-cpu"))]
}

fn bulk(bench: &mut Bench<'_>, path: &str, (lane, plain): (&Ends<'_>, &Ends<'_>), bytes: usize) -> Ran {
    let [id, cpu_id] = bulk_ids(bytes);
    if !bench.wants_any([&id, &cpu_id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let target = bench.plan.lane_sample;
    let (first, second) = (Burst::new(lane, bytes, target)?, Burst::new(plain, bytes, target)?);
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contest = Contest::hold(warmups, rounds, [first.contender(), second.contender()])?;
    let [ours, theirs] = &contest.series;
    let caption = |id, name, unit, better, limits, note| Caption {
        id,
        suite: Suite::Lane.word(),
        name,
        unit,
        better,
        peer: Some(PEER.to_owned()),
        limits,
        doubt: None,
        note,
    };
    let name = format!("{bytes} B from a Python client to another through two sidecars");
    let limits = vec![(Subject::Ratio, LIMIT)];
    let note = format!("{path}; four processes share this machine's cores with the network");
    let row = caption(id, name, Unit::GigabytesPerSecond, Better::Higher, limits, note);
    bench.row(row.row(ours, Some(theirs), &contest.control));
    let name = format!("time that all processes use of all cores for a byte, in tensors of {bytes} B");
    let note = "two clients and two sidecars, against two clients; in hundredths of a second per burst, and without what \
                the network does by itself";
    let row = caption(cpu_id, name, Unit::NanosecondsPerByte, Better::Lower, Vec::new(), note.to_owned());
    let (ours, theirs) = (first.processor_series(rounds), second.processor_series(rounds));
    bench.row(row.row(&ours, Some(&theirs), &contest.control));
    Ok(())
}

/// Bursts of about the wanted duration.
struct Burst<'a> {
    ends: &'a Ends<'a>,
    task: Task,
    /// What the first burst, of which every byte was compared, showed.
    wrong: RefCell<Option<String>>,
    /// Nanoseconds per byte of every burst so far.
    processor: RefCell<Vec<f64>>,
}

impl<'a> Burst<'a> {
    fn new(ends: &'a Ends<'a>, bytes: usize, target: Duration) -> Result<Self> {
        let wrong = ends.thorough(bytes)?;
        let mut task = Task { bytes, count: FIRST, ..Task::default() };
        task.count = (FIRST as f64 * ends.times(task, target)?) as u64;
        Ok(Self { ends, task, wrong: RefCell::new(wrong), processor: RefCell::default() })
    }

    fn contender(&self) -> Contender<'_> {
        Box::new(|| {
            let Done { seconds, processor_seconds, wrong, .. } = self.ends.follow(self.task)?;
            let bytes = self.task.bytes as f64 * self.task.count as f64;
            self.processor.borrow_mut().push(processor_seconds * 1e9 / bytes);
            let wrong = self.wrong.borrow_mut().take().or(wrong);
            Ok(Sample { value: bytes / 1e9 / seconds, latencies: Vec::new(), wrong })
        })
    }

    /// What the last `rounds` bursts used.
    fn processor_series(&self, rounds: usize) -> Series {
        let all = self.processor.take();
        Series { values: all[all.len().saturating_sub(rounds)..].to_vec(), ..Series::default() }
    }
}

fn gigabyte_id() -> RowId {
    RowId::new("P7", "1GB")
}

fn gigabyte(bench: &mut Bench<'_>, path: &str, lane: &Ends<'_>, sidecars: &Sidecars) -> Ran {
    let id = gigabyte_id();
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let (rounds, bytes) = match bench.plan.level {
        Level::Smoke => (1, GIGABYTE / 64),
        Level::Quick => (5, GIGABYTE),
        Level::Full => (bench.plan.rounds, GIGABYTE),
    };
    let task = Task { bytes: PART_BYTES, count: bytes / PART_BYTES as u64, ..Task::default() };
    let first = RefCell::new(lane.thorough(PART_BYTES)?);
    let once = || {
        let Done { seconds, wrong, .. } = lane.follow(task)?;
        Ok(Sample { value: seconds, latencies: Vec::new(), wrong: first.borrow_mut().take().or(wrong) })
    };
    let contest = Contest::hold(0, rounds, [Box::new(once)])?;
    let peak = |sidecar: &Sidecar| sidecar.child.peak_mebibytes();
    let caption = Caption {
        id,
        suite: Suite::Lane.word(),
        name: format!("1 GiB over one lane in tensors of {PART_BYTES} B"),
        unit: Unit::Seconds,
        better: Better::Lower,
        peer: None,
        limits: Vec::new(),
        doubt: None,
        note: format!(
            "{path}; at most {:.0} MiB of the sending and {:.0} MiB of the receiving sidecar were in memory, shared memory \
             of its clients included",
            peak(&sidecars.sender)?,
            peak(&sidecars.receiver)?,
        ),
    };
    let [series] = &contest.series;
    bench.row(caption.row(series, None, &contest.control));
    Ok(())
}
