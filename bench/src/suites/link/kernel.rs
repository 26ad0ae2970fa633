//! P4, P5: one way through the kernel's UDP sockets, over loopback and over a veth, at the published sizes.

use super::bursts::Bursts;
use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contest};
use crate::cores::Cores;
use crate::link::{BATCH, Burst, Udp};
use crate::plan::Suite;
use crate::programs::{JUMBO_MTU, Route};
use crate::row::{Better, Missing, RowId, Unit};

/// Bytes of UDP payload.
const BYTES: [usize; 5] = [512, 1_024, 1_472, 4_096, 8_192];

pub(super) fn run(bench: &mut Bench<'_>, cores: Cores) -> Ran {
    let ids = |bytes| (RowId::new("P4-udp", bytes), RowId::new("P5", bytes));
    let wanted: Vec<_> = BYTES
        .into_iter()
        .map(|bytes| (bytes, ids(bytes)))
        .filter(|(_, (one, other))| bench.wants_any([one, other]))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let inside = Route::loopback("");
    let between = match Route::namespaces(JUMBO_MTU) {
        Ok(route) => Some(route),
        Err(error) => {
            bench.missing(Missing::new("P5", format!("no network namespaces ({error:#})")));
            None
        }
    };
    for (bytes, (loopback, veth)) in wanted {
        alone(bench, cores, &inside, (loopback, bytes))?;
        if let Some(route) = &between {
            alone(bench, cores, route, (veth, bytes))?;
        }
    }
    Ok(())
}

fn alone(bench: &mut Bench<'_>, cores: Cores, route: &Route, (id, bytes): (RowId, usize)) -> Ran {
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let mut ends = Udp::pair(route)?;
    let bursts = Bursts::new(&mut ends, bytes, cores, bench.plan.sample);
    let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
    let contest = Contest::hold(warmups, rounds, [bursts.contender()])?;
    let found = bursts.found(warmups);
    let gigabits = 8.0 * found.median(Burst::gigabytes_per_second);
    let note = format!(
        "{gigabits:.2} Gbit/s; {}; in batches of {BATCH} without segmentation; {}",
        found.lost(),
        route.note
    );
    let name = format!("{bytes} B one way through UDP sockets, counted at the receiver");
    let unit = Unit::GigabytesPerSecond;
    let caption =
        Caption { better: Better::Higher, ..Caption::reported(id, Suite::Link.word(), name, unit, &note) };
    bench.row(caption.row(&found.series(Burst::gigabytes_per_second), None, &contest.control));
    Ok(())
}
