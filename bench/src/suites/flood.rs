//! A live lane while strangers flood its receiver with handshakes: what its tensors notice of it.
//!
//! Blocks of two kinds in turn. In an attack the crowd floods the sidecar; in the control the same crowd floods a socket
//! that only accepts and closes. So the price of having a flood on the machine at all is in both, and the difference is
//! what the sidecar does about it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use sealane_types::Digest;

use crate::bench::{Bench, Programs, Ran};
use crate::contest::{Caption, Contender, Contest, Sample, Series};
use crate::plan::{Plan, Suite};
use crate::programs::{Bystander, Generator, Route, Script, Sidecars, Task};
use crate::row::{Better, RowId, Subject, Unit};
use crate::statistics::Quantiles;
use crate::stranger::Tally;
use crate::world::{SESSION, World};

/// Bytes of a tensor of the live lane, and how many it carries per second.
const BYTES: usize = 1_536;
const TENSORS_PER_SECOND: u32 = 500;
/// How much slower than in the control the slowest hundredth of tensors may be.
const LIMIT: f64 = 2.0;
/// Share of the wanted connections below which it was not the flood that the row names.
const REACHED_MIN: f64 = 0.8;
const PEER: &str = "the same flood on a socket that accepts and closes";
/// Tensors before the first block, every byte of which is compared.
const THOROUGH: u64 = 100;
const P50: usize = 0;
const P99: usize = 1;
const MAX: usize = 2;

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let ids = ["p99", "p50-latency", "p99-latency", "max-latency", "refused", "memory"]
        .map(|case| RowId::new("flood", case));
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let world = World::new(false)?;
    let route = Route::loopback("");
    let mut sidecars = Sidecars::start(&bench.programs.sidecar, &world, &route)?;
    measure(bench, &world, &route, &sidecars).map_err(|error| sidecars.explain(error))
}

fn measure(bench: &mut Bench<'_>, world: &World, route: &Route, sidecars: &Sidecars) -> Ran {
    let bystander = Bystander::start()?;
    let target = sidecars.receiver.listen;
    let lane = Lane::open(&bench.programs, route, sidecars)?;
    let policy = (world.policy.epoch(), world.policy.digest());
    let (plan, programs) = (bench.plan, bench.programs.clone());
    let crowd =
        |target| Crowd { programs: &programs, plan, target, policy, lane: &lane, blocks: RefCell::default() };
    let (attack, control) = (crowd(target), crowd(bystander.address));
    let before = sidecars.receiver.child.resident_mebibytes()?;
    let contest = Contest::hold(0, bench.plan.flood_pairs, [attack.contender(), control.contender()])?;
    let after = sidecars.receiver.child.resident_mebibytes()?;
    let (attack, control) = (attack.blocks.into_inner(), control.blocks.into_inner());
    let mut report = Report { bench, fixed_work: &contest.control, doubt: doubt(&attack, &plan) };
    let wrong = contest.series.into_iter().find_map(|series| series.wrong);
    report.latencies(&attack, &control, wrong);
    report.refused(&attack);
    report.memory(before, after);
    Ok(())
}

/// Rows out of blocks.
struct Report<'a, 'b> {
    bench: &'a mut Bench<'b>,
    fixed_work: &'a [f64],
    doubt: Option<String>,
}

impl Report<'_, '_> {
    fn latencies(&mut self, attack: &[Block], control: &[Block], wrong: Option<String>) {
        let series = |blocks: &[Block], which: usize| Series {
            values: blocks.iter().map(|block| block.quantiles()[which]).collect(),
            latencies: blocks.iter().flat_map(|block| block.latencies.clone()).collect(),
            wrong: wrong.clone(),
        };
        let slowdowns = |which: usize| {
            let pairs = attack.iter().zip(control);
            let slowdown =
                |(attack, control): (&Block, &Block)| attack.quantiles()[which] / control.quantiles()[which];
            Series { values: pairs.map(slowdown).collect(), latencies: Vec::new(), wrong: wrong.clone() }
        };
        let name =
            format!("{BYTES} B at {TENSORS_PER_SECOND} per second, put to taken, p99: times the control's");
        let row = self.caption("p99", name, Unit::Times, vec![(Subject::Ours, LIMIT)]);
        self.bench.row(row.row(&slowdowns(P99), None, self.fixed_work));
        for (case, which) in [("p50-latency", P50), ("p99-latency", P99), ("max-latency", MAX)] {
            let name =
                format!("{case} of {BYTES} B tensors, put to taken, during a flood").replace("-latency", "");
            let mut row = self.caption(case, name, Unit::Microseconds, Vec::new());
            row.peer = Some(PEER.to_owned());
            let (ours, theirs) = (series(attack, which), series(control, which));
            self.bench.row(row.row(&ours, Some(&theirs), self.fixed_work));
        }
    }

    fn refused(&mut self, attack: &[Block]) {
        let sum = |field: fn(&Tally) -> u64| attack.iter().map(|block| field(&block.tally)).sum::<u64>();
        let established = sum(|tally| tally.established);
        let wrong = (established > 0).then(|| format!("{established} strangers were taken for peers"));
        let values = attack.iter().map(|block| block.refused_percent()).collect();
        let mut row =
            self.caption("refused", "strangers that were turned away".to_owned(), Unit::Percent, Vec::new());
        row.better = Better::Higher;
        row.note = format!(
            "of {} connections {} were closed at once, {} were asked for evidence, {} closed later, {} still waited \
             at the end; {established} got in",
            sum(|tally| tally.connected),
            sum(|tally| tally.closed_at_once),
            sum(|tally| tally.asked_for_evidence),
            sum(|tally| tally.closed_later),
            sum(|tally| tally.held),
        );
        let series = Series { values, latencies: Vec::new(), wrong };
        self.bench.row(row.row(&series, None, self.fixed_work));
    }

    fn memory(&mut self, before: f64, after: f64) {
        let name = "resident memory of the flooded sidecar, after less before".to_owned();
        let mut row = self.caption("memory", name, Unit::Mebibytes, Vec::new());
        row.note = format!("{before:.1} MiB before, {after:.1} MiB after");
        let series = Series { values: vec![after - before], ..Series::default() };
        self.bench.row(row.row(&series, None, self.fixed_work));
    }

    fn caption(&self, case: &str, name: String, unit: Unit, limits: Vec<(Subject, f64)>) -> Caption {
        Caption {
            id: RowId::new("flood", case),
            suite: Suite::Flood.word(),
            name,
            unit,
            better: Better::Lower,
            peer: None,
            limits,
            doubt: self.doubt.clone(),
            note: "four Python and sidecar processes and the crowd share this machine's cores".to_owned(),
        }
    }
}

/// A flood that was much smaller than it should have been is no answer to the question.
fn doubt(attack: &[Block], plan: &Plan) -> Option<String> {
    let wanted = f64::from(plan.flood_rate) * plan.flood_block.as_secs_f64();
    let least = attack.iter().map(|block| number(block.tally.connected)).fold(f64::INFINITY, f64::min);
    (least < wanted * REACHED_MIN)
        .then(|| format!("the crowd reached {least:.0} of {wanted:.0} connections in a block, no verdict"))
}

/// The live lane's two Python ends.
struct Lane {
    put: RefCell<Script>,
    take: RefCell<Script>,
}

impl Lane {
    fn open(programs: &Programs, route: &Route, sidecars: &Sidecars) -> Result<Self> {
        let [from, to] = &route.hosts;
        let (sending, receiving) =
            (sidecars.sender.door.to_string_lossy(), sidecars.receiver.door.to_string_lossy());
        let mut take = Script::start(programs, to, &["lane", "take", &receiving, SESSION])?;
        let mut put = Script::start(programs, from, &["lane", "put", &sending, SESSION])?;
        take.ready()?;
        put.ready()?;
        let lane = Self { put: RefCell::new(put), take: RefCell::new(take) };
        lane.begin(THOROUGH, true)?;
        lane.end()?;
        Ok(lane)
    }

    fn begin(&self, count: u64, thorough: bool) -> Result<()> {
        let rate = Some(TENSORS_PER_SECOND);
        let task = Task { bytes: BYTES, count, thorough, rate, ..Task::default() };
        self.take.borrow_mut().order(task)?;
        self.put.borrow_mut().order(task)
    }

    /// Microseconds from put to taken, and what was wrong.
    fn end(&self) -> Result<(Vec<f64>, Option<String>)> {
        self.put.borrow_mut().told()?;
        let told = self.take.borrow_mut().told()?;
        Ok((told.latencies, told.wrong))
    }
}

/// A block of time: what the lane noticed, and what became of the crowd.
struct Block {
    latencies: Vec<f64>,
    tally: Tally,
}

impl Block {
    fn quantiles(&self) -> [f64; 3] {
        Quantiles::of(&self.latencies).map_or([0.0; 3], |all| [all.p50, all.p99, all.max])
    }

    fn refused_percent(&self) -> f64 {
        let Tally { connected, closed_at_once, closed_later, .. } = &self.tally;
        100.0 * number(closed_at_once + closed_later) / number(*connected).max(1.0)
    }
}

/// One kind of block.
struct Crowd<'a> {
    programs: &'a Programs,
    plan: Plan,
    target: SocketAddr,
    policy: (u64, Digest),
    lane: &'a Lane,
    blocks: RefCell<Vec<Block>>,
}

impl Crowd<'_> {
    fn contender(&self) -> Contender<'_> {
        Box::new(|| {
            let length = self.plan.flood_block;
            let generator =
                Generator::start(self.programs, self.target, self.plan.flood_rate, length, self.policy)?;
            self.lane.begin(count(length), false)?;
            let (latencies, wrong) = self.lane.end()?;
            let tally = generator.tally()?;
            let block = Block { latencies, tally };
            let sample = Sample { value: block.quantiles()[P99], latencies: Vec::new(), wrong };
            self.blocks.borrow_mut().push(block);
            Ok(sample)
        })
    }
}

/// Tensors of a block.
fn count(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX) * u64::from(TENSORS_PER_SECOND) / 1_000
}

fn number(count: u64) -> f64 {
    count as f64
}
