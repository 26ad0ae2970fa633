//! This program, which is built for any processor of the architecture as images are, beside the same one built for this
//! processor alone: what is left on the table by not knowing it.

use std::path::Path;

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contender, Contest};
use crate::plan::Suite;
use crate::programs::Twin;
use crate::row::{Better, Missing, RowId, Subject, Unit};
use crate::sampling::{Options, What};

/// What has to be left of the other build's speed.
const LIMIT: f64 = 0.95;
/// What is measured, and bytes of a tensor.
const CASES: [(What, usize); 3] = [(What::Packet, 1_456), (What::Stream, 1_536), (What::Stream, 1_048_576)];

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let Some(native) = bench.programs.native.clone() else {
        let why =
            "there is no build for this processor to compare with; `cargo xtask bench --native` makes one";
        bench.missing(Missing::new("portable", why));
        return Ok(());
    };
    CASES.into_iter().try_for_each(|case| measure(bench, &native, case))
}

fn measure(bench: &mut Bench<'_>, native: &Path, (what, bytes): (What, usize)) -> Ran {
    let Figure { case, name, unit, better } = Figure::of(what);
    let id = RowId::new("portable", format!("{case}-{bytes}")).beside("native");
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    // Long, since whoever answered last has slept: a processor that wakes is not at its speed.
    let microseconds = u64::try_from(bench.plan.sample.as_micros())?;
    let options = Options { what, bytes, microseconds };
    let mut ours = Twin::start(&bench.programs.bench, options)?;
    let mut theirs = Twin::start(native, options)?;
    let known = theirs.built_for.join(", ");
    let note = match ours.built_for == theirs.built_for {
        true => "both builds may use the same instructions".to_owned(),
        false => format!("two processes in turn; the other build may use {known} everywhere"),
    };
    let contenders: [Contender<'_>; 2] = [Box::new(|| ours.sample()), Box::new(|| theirs.sample())];
    let contest = Contest::hold(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let caption = Caption {
        id,
        suite: Suite::Portable.word(),
        name: format!("a tensor of {bytes} B {name}, built for any processor"),
        unit,
        better,
        peer: Some("the same program built for this processor".to_owned()),
        limits: vec![(Subject::Ratio, LIMIT)],
        doubt: None,
        note,
    };
    let [ours, theirs] = &contest.series;
    bench.row(caption.row(ours, Some(theirs), &contest.control));
    Ok(())
}

/// How a row is called, and what its figure is.
struct Figure {
    case: &'static str,
    name: &'static str,
    unit: Unit,
    better: Better,
}

impl Figure {
    const fn of(what: What) -> Self {
        match what {
            What::Packet => Self {
                case: "packet",
                name: "in one record, from memory to memory on one core",
                unit: Unit::Nanoseconds,
                better: Better::Lower,
            },
            What::Stream => Self {
                case: "stream",
                name: "one way in process",
                unit: Unit::GigabytesPerSecond,
                better: Better::Higher,
            },
        }
    }
}
