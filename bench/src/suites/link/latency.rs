//! P12, P13: 64 B there and back, through UDP sockets and over AF_XDP, with ends that spin and with ends that sleep.

use std::cell::RefCell;

use anyhow::Context as _;
use sealane_xdp::Mode;

use super::{UDP, opened, or_missing};
use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contender, Sample, Series, hold_all};
use crate::cores::Cores;
use crate::link::{End, Flow, Udp, Waiting, echo};
use crate::plan::Suite;
use crate::programs::{ETHERNET_MTU, Route};
use crate::row::{RowId, Subject, Unit};

const BYTES: usize = 64;
/// How many times sooner than through UDP sockets.
const LIMIT: f64 = 1.5;

pub(super) fn run(bench: &mut Bench<'_>, cores: Cores) -> Ran {
    let of = |row: &str| RowId::new(row, BYTES);
    let (udp_spins, udp_sleeps) = (of("P12"), of("P12-asleep"));
    let (spins, sleeps, native_spins) = (of("P13"), of("P13-asleep").beside("udp"), of("P13-native"));
    let compared = spins.beside("udp");
    if !bench.wants_any([&udp_spins, &udp_sleeps, &spins, &compared, &sleeps, &native_spins]) {
        return Ok(());
    }
    bench.measuring(&udp_spins);
    let route = Route::best();
    let udp = RefCell::new(Udp::pair(&route)?);
    let generic = or_missing(bench, "P13", opened(ETHERNET_MTU, Mode::Generic));
    let native = or_missing(bench, "P13-native", opened(ETHERNET_MTU, Mode::Native));
    let [generic, native] =
        [generic, native].map(|opened| opened.map(|opened| (RefCell::new(opened.ends), opened.route)));
    let count = bench.plan.block_of(BYTES);
    let mut contenders = vec![
        contender(&udp, cores, count, Waiting::Spinning),
        contender(&udp, cores, count, Waiting::Asleep),
    ];
    if let Some((ends, _)) = &generic {
        contenders.push(contender(ends, cores, count, Waiting::Spinning));
        contenders.push(contender(ends, cores, count, Waiting::Asleep));
    }
    if let Some((ends, _)) = &native {
        contenders.push(contender(ends, cores, count, Waiting::Spinning));
    }
    let (series, control) = hold_all(bench.plan.warmups, bench.plan.rounds, contenders)?;
    let mut series = series.into_iter();
    let mut next = || series.next().context("a series of each contender");
    let (spinning, asleep) = (next()?, next()?);
    let mut tell = |id, what: &str, ours: &Series, theirs: Option<&Series>, limit: Option<f64>, way: &str| {
        let name = format!("{BYTES} B there and back {what}, median of blocks of {count}");
        let mut caption = Caption::reported(id, Suite::Link.word(), name, Unit::Microseconds, way);
        caption.peer = theirs.map(|_| UDP.to_owned());
        caption.limits = limit.map(|limit| (Subject::Ratio, limit)).into_iter().collect();
        bench.row(caption.row(ours, theirs, &control));
    };
    tell(udp_spins, "through UDP sockets, both ends spinning", &spinning, None, None, &route.note);
    tell(udp_sleeps, "through UDP sockets, both ends asleep in poll", &asleep, None, None, &route.note);
    if let Some((_, route)) = generic {
        let (ours, ours_asleep) = (next()?, next()?);
        let way = format!("{}, generic mode", route.note);
        let both = "over AF_XDP, both ends spinning";
        tell(spins, both, &ours, None, None, &way);
        tell(compared, both, &ours, Some(&spinning), Some(LIMIT), &way);
        tell(sleeps, "over AF_XDP, both ends asleep in poll", &ours_asleep, Some(&asleep), None, &way);
    }
    if let Some((_, route)) = native {
        let ours = next()?;
        let what = "over AF_XDP with a program in the driver, both ends spinning";
        tell(native_spins, what, &ours, None, None, &route.note);
    }
    Ok(())
}

/// Samples are blocks of `count` round trips.
fn contender<'a, E: End>(
    ends: &'a RefCell<[E; 2]>,
    cores: Cores,
    count: u64,
    waiting: Waiting,
) -> Contender<'a> {
    let mut flow = Flow::new(BYTES);
    Box::new(move || {
        let (latencies, wrong) = echo(&mut ends.borrow_mut(), cores, &mut flow, count, waiting)?;
        Ok(Sample::of_latencies(latencies, wrong))
    })
}
