//! Python client to Python client through two sidecars, against what a user could take in its place on the same path.

mod bulk;
mod idle;
mod inference;
mod rivals;
mod small;

use std::cell::RefCell;

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contest, Sample};
use crate::ends::{Done, Ends};
use crate::plan::{Level, Suite};
use crate::programs::{ETHERNET_MTU, Route, Sidecar, Sidecars, Task};
use crate::row::{Better, Missing, RowId, Unit};
use crate::world::{Session, World};

/// A gigabyte in tensors of so many bytes.
const GIGABYTE: u64 = 1 << 30;
const PART_BYTES: usize = 8_388_608;

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let ids: Vec<_> =
        bulk::ids().into_iter().chain(small::ids()).chain([gigabyte_id(), idle::id()]).collect();
    if bench.wants_any(&ids) {
        bench.measuring(&ids[0]);
        let route = Route::best();
        let sessions = [Session::Measured, Session::InPlace, Session::Asked, Session::Answered];
        let world = World::with_sessions(&sessions)?;
        let mut sidecars = Sidecars::start(&bench.programs.sidecar, &world, &route)?;
        measure(bench, &route, &sidecars).map_err(|error| sidecars.explain(error))?;
    }
    inference::run(bench)?;
    under_the_default(bench)
}

fn measure(bench: &mut Bench<'_>, route: &Route, sidecars: &Sidecars) -> Ran {
    let lane = Ends::lane(&bench.programs, route, sidecars)?;
    bulk::run(bench, route, sidecars, &lane)?;
    gigabyte(bench, &route.note, &lane, sidecars)?;
    small::run(bench, route, &lane, sidecars)?;
    idle::run(bench, &lane, sidecars)
}

/// The same under the congestion control that the node has, which no row of a fair comparison uses.
fn under_the_default(bench: &mut Bench<'_>) -> Ran {
    if !bench.wants_any(&bulk::default_ids()) {
        return Ok(());
    }
    let route = match Route::as_the_node_has_it(ETHERNET_MTU) {
        Ok(route) => route,
        Err(error) => {
            for id in bulk::default_ids() {
                let why = format!(
                    "no network namespaces ({error:#}): all rows are under the node's congestion control"
                );
                bench.missing(Missing::new(&id.0, why));
            }
            return Ok(());
        }
    };
    let world = World::with_sessions(&[Session::Measured])?;
    let mut sidecars = Sidecars::start(&bench.programs.sidecar, &world, &route)?;
    let lane = Ends::lane(&bench.programs, &route, &sidecars)?;
    bulk::run_default(bench, &route, &lane).map_err(|error| sidecars.explain(error))
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
