//! P6: one way over AF_XDP as fast as it goes, beside the kernel's UDP sockets.

use sealane_xdp::Mode;

use super::bursts::{Bursts, Found};
use super::{Opened, UDP, opened, or_missing};
use crate::bench::{Bench, Ran};
use crate::contest::{Caption, hold_all};
use crate::cores::Cores;
use crate::link::{BATCH, Burst, Udp};
use crate::plan::Suite;
use crate::programs::{ETHERNET_MTU, JUMBO_MTU, Route};
use crate::row::{Better, RowId, Subject, Unit};

/// Bytes of UDP payload.
const BYTES: [usize; 3] = [512, 1_024, LARGEST];
/// What Ethernet carries under IPv4.
const LARGEST: usize = 1_472;
const JUMBO: usize = 8_952;
/// How many times more packets than UDP sockets at [`LARGEST`].
const LIMIT: f64 = 1.5;
/// Of the line that the published figures are of, and what Ethernet, IPv4 and UDP add to each packet on it: preamble,
/// frame check and gap included.
const LINE_GIGABITS: f64 = 10.0;
const LINE_OVERHEAD_BYTES: usize = 66;

pub(super) fn run(bench: &mut Bench<'_>, cores: Cores) -> Ran {
    one_size_after_the_other(bench, cores, ETHERNET_MTU, &BYTES)?;
    one_size_after_the_other(bench, cores, JUMBO_MTU, &[JUMBO])
}

fn one_size_after_the_other(bench: &mut Bench<'_>, cores: Cores, mtu: u32, sizes: &[usize]) -> Ran {
    let all: Vec<Rows> = sizes.iter().copied().map(Rows::new).collect();
    let wanted: Vec<&Rows> = all.iter().filter(|rows| bench.wants_any(rows.ids())).collect();
    let Some(first) = wanted.first() else { return Ok(()) };
    bench.measuring(&first.own);
    let Some(mut generic) = or_missing(bench, "P6", opened(mtu, Mode::Generic)) else { return Ok(()) };
    let mut native = or_missing(bench, "P6-native", opened(mtu, Mode::Native));
    let route = Route::namespaces(mtu)?;
    let mut udp = Udp::pair(&route)?;
    for rows in wanted {
        bench.measuring(&rows.own);
        let (bytes, target) = (rows.bytes, bench.plan.sample);
        let ours = Bursts::new(&mut generic.ends, bytes, cores, target);
        let theirs = Bursts::new(&mut udp, bytes, cores, target);
        let native = native.as_mut().map(|opened| Bursts::new(&mut opened.ends, bytes, cores, target));
        let mut contenders = vec![ours.contender(), theirs.contender()];
        contenders.extend(native.as_ref().map(Bursts::contender));
        let (warmups, rounds) = (bench.plan.warmups, bench.plan.rounds);
        let (_, control) = hold_all(warmups, rounds, contenders)?;
        let (ours, theirs) = (ours.found(warmups), theirs.found(warmups));
        rows.tell(bench, &generic, (&ours, &theirs), &control);
        if let Some(native) = native.map(|native| native.found(warmups)) {
            let name = format!("{bytes} B one way over AF_XDP with a program in the driver");
            let note = figures(&native, bytes);
            let caption = caption(rows.native.clone(), name, Unit::GigabytesPerSecond, note);
            bench.row(caption.row(&native.series(Burst::gigabytes_per_second), None, &control));
        }
    }
    Ok(())
}

/// The rows of one size.
struct Rows {
    bytes: usize,
    own: RowId,
    beside: RowId,
    native: RowId,
    processor: RowId,
}

impl Rows {
    fn new(bytes: usize) -> Self {
        let own = RowId::new("P6", bytes);
        Self {
            bytes,
            beside: own.beside("udp"),
            own,
            native: RowId::new("P6-native", bytes),
            processor: RowId::new("P6", format!("{bytes}-cpu")).beside("udp"),
        }
    }

    fn ids(&self) -> [&RowId; 4] {
        [&self.own, &self.beside, &self.native, &self.processor]
    }

    /// Rows in the mode that the product takes on a veth.
    fn tell(
        &self,
        bench: &mut Bench<'_>,
        opened: &Opened,
        (ours, theirs): (&Found, &Found),
        control: &[f64],
    ) {
        let Self { bytes, own, beside, processor, .. } = self;
        let way = &opened.route.note;
        let name = format!("{bytes} B one way over AF_XDP, counted at the receiver");
        let note = format!("{}; {way}, generic mode", figures(ours, *bytes));
        let alone = caption(own.clone(), name, Unit::GigabytesPerSecond, note);
        bench.row(alone.row(&ours.series(Burst::gigabytes_per_second), None, control));

        let name = format!("packets of {bytes} B one way over AF_XDP, counted at the receiver");
        let note = format!(
            "ours {}, theirs {} in batches of {BATCH} on a veth without a program; both ends of both spin; {way}",
            ours.lost(),
            theirs.lost()
        );
        let mut compared = caption(beside.clone(), name, Unit::PerSecond, note);
        compared.peer = Some(UDP.to_owned());
        compared.limits = if *bytes == LARGEST { vec![(Subject::Ratio, LIMIT)] } else { Vec::new() };
        let (first, second) =
            (ours.series(Burst::packets_per_second), theirs.series(Burst::packets_per_second));
        bench.row(compared.row(&first, Some(&second), control));

        let name = format!("time of both ends' cores for a byte of {bytes} B packets");
        let note = "both ends spin: a core that waits counts as used".to_owned();
        let mut used = caption(processor.clone(), name, Unit::NanosecondsPerByte, note);
        (used.better, used.peer) = (Better::Lower, Some(UDP.to_owned()));
        let (first, second) =
            (ours.series(Burst::nanoseconds_per_byte), theirs.series(Burst::nanoseconds_per_byte));
        bench.row(used.row(&first, Some(&second), control));
    }
}

fn caption(id: RowId, name: String, unit: Unit, note: String) -> Caption {
    Caption { better: Better::Higher, ..Caption::reported(id, Suite::Link.word(), name, unit, &note) }
}

/// A goodput in the units of the published figures.
fn figures(found: &Found, bytes: usize) -> String {
    let packets = found.median(Burst::packets_per_second);
    let gigabits = found.median(Burst::gigabytes_per_second) * 8.0;
    let line = LINE_GIGABITS * bytes as f64 / (bytes + LINE_OVERHEAD_BYTES) as f64;
    format!(
        "{:.0} thousand packets/s, {gigabits:.2} Gbit/s, {:.0} % of what a line of {LINE_GIGABITS} Gbit/s carries in such \
         packets; {}",
        packets / 1e3,
        100.0 * gigabits / line,
        found.lost()
    )
}
