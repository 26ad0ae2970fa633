//! Python client to Python client through two sidecars, against what Python gets out of a plain TCP connection on the
//! same path.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Result;

use crate::bench::{Bench, Programs, Ran};
use crate::contest::{Caption, Contender, Contest, Sample};
use crate::plan::Suite;
use crate::programs::{Route, Script, Sidecars, Task};
use crate::row::{Better, RowId, Subject, Unit};
use crate::world::{SESSION, World};

/// Bytes of a tensor.
const CASES: [usize; 2] = [1_048_576, 8_388_608];
/// How much of plain TCP's speed must be left.
const LIMIT: f64 = 0.8;
const PEER: &str = "Python sendall(memoryview) and recv_into";
/// Tensors of the first, thorough burst.
const THOROUGH: u64 = 8;

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let ids = CASES.map(|bytes| RowId::new("lane", bytes).beside("tcp"));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let route = Route::best();
    let mut sidecars = Sidecars::start(&bench.programs.sidecar, &World::new(false)?, &route)?;
    measure(bench, &route, &sidecars).map_err(|error| sidecars.explain(error))
}

fn measure(bench: &mut Bench<'_>, route: &Route, sidecars: &Sidecars) -> Ran {
    let lane = lane(&bench.programs, route, sidecars)?;
    let plain = plain(&bench.programs, route)?;
    for bytes in CASES {
        let id = RowId::new("lane", bytes).beside("tcp");
        if !bench.wants_any([&id]) {
            continue;
        }
        bench.measuring(&id);
        let target = bench.plan.lane_sample;
        let (first, second) = (Burst::new(&lane, bytes, target)?, Burst::new(&plain, bytes, target)?);
        let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
        let contest = Contest::hold(warmups, rounds, [first.contender(), second.contender()])?;
        let [ours, theirs] = &contest.series;
        let caption = Caption {
            id,
            suite: Suite::Lane.word(),
            name: format!("{bytes} B from a Python client to another through two sidecars"),
            unit: Unit::GigabytesPerSecond,
            better: Better::Higher,
            peer: Some(PEER.to_owned()),
            limits: vec![(Subject::Ratio, LIMIT)],
            doubt: None,
            note: format!("{}; four processes share this machine's cores with the network", route.note),
        };
        bench.row(caption.row(ours, Some(theirs), &contest.control));
    }
    Ok(())
}

/// Two Python processes that are connected.
struct Ends {
    put: RefCell<Script>,
    take: RefCell<Script>,
}

fn lane(programs: &Programs, route: &Route, sidecars: &Sidecars) -> Result<Ends> {
    let [from, to] = &route.hosts;
    let door = |sidecar: &std::path::Path| sidecar.to_string_lossy().into_owned();
    let (sending, receiving) = (door(&sidecars.sender.door), door(&sidecars.receiver.door));
    let mut take = Script::start(programs, to, &["lane-take", &receiving, SESSION])?;
    let mut put = Script::start(programs, from, &["lane-put", &sending, SESSION])?;
    take.ready()?;
    put.ready()?;
    Ok(Ends { put: RefCell::new(put), take: RefCell::new(take) })
}

fn plain(programs: &Programs, route: &Route) -> Result<Ends> {
    let [from, to] = &route.hosts;
    let host = to.address.to_string();
    let mut take = Script::start(programs, to, &["plain-take", &host])?;
    let port = take.ready()?;
    let mut put = Script::start(programs, from, &["plain-put", &host, &port])?;
    put.ready()?;
    Ok(Ends { put: RefCell::new(put), take: RefCell::new(take) })
}

/// Bursts of about the wanted duration.
struct Burst<'a> {
    ends: &'a Ends,
    bytes: usize,
    count: u64,
    /// What the first burst, of which every byte was compared, showed.
    wrong: RefCell<Option<String>>,
}

impl<'a> Burst<'a> {
    fn new(ends: &'a Ends, bytes: usize, target: Duration) -> Result<Self> {
        let first = ends.burst(Task { bytes, count: THOROUGH, thorough: true, rate: None })?;
        let timed = ends.burst(Task { bytes, count: THOROUGH, thorough: false, rate: None })?;
        Ok(Self { ends, bytes, count: scaled(timed.seconds, target), wrong: RefCell::new(first.wrong) })
    }

    fn contender(&self) -> Contender<'_> {
        Box::new(|| {
            let task = Task { bytes: self.bytes, count: self.count, thorough: false, rate: None };
            let done = self.ends.burst(task)?;
            let wrong = self.wrong.borrow_mut().take().or(done.wrong);
            Ok(Sample {
                value: gigabytes(self.bytes, self.count) / done.seconds,
                latencies: Vec::new(),
                wrong,
            })
        })
    }
}

struct Done {
    seconds: f64,
    wrong: Option<String>,
}

impl Ends {
    /// From the first put until the last tensor was taken.
    fn burst(&self, task: Task) -> Result<Done> {
        let (mut put, mut take) = (self.put.borrow_mut(), self.take.borrow_mut());
        take.order(task)?;
        put.order(task)?;
        let (put, taken) = (put.told()?, take.told()?);
        let took = Duration::from_nanos(taken.ended.saturating_sub(put.began));
        Ok(Done { seconds: took.as_secs_f64(), wrong: taken.wrong })
    }
}

fn scaled(seconds: f64, target: Duration) -> u64 {
    (THOROUGH as f64 * target.as_secs_f64() / seconds.max(1e-6)).max(1.0) as u64
}

fn gigabytes(bytes: usize, count: u64) -> f64 {
    bytes as f64 * count as f64 / 1e9
}
