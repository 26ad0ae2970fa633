//! What it costs to keep account of a stream, without any bytes: numbers and lengths at both of its ends.

mod account;

use crate::bench::{Bench, Ran};
use crate::contest::Caption;
use crate::micro::Micro;
use crate::plan::Suite;
use crate::row::{RowId, Unit};
use account::{Resend, Way};

/// Tensors in flight: sent, and not taken yet. The last one leaves room in the window for the one that is timed.
const IN_FLIGHT: [u64; 4] = [1, 100, 1_000, 4_000];

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let ids = |case: &str| IN_FLIGHT.map(|count| RowId::new("transfer", format!("{case}-{count}")));
    let (ways, resends) = (ids("tensor"), ids("resend"));
    if !bench.wants_any(ways.iter().chain(&resends)) {
        return Ok(());
    }
    bench.measuring(&ways[0]);
    for ((way, resend), count) in ways.into_iter().zip(resends).zip(IN_FLIGHT) {
        let target = bench.plan.micro;
        let (one, other) = (
            Micro::new(Way::new(count)?, target)?,
            Micro::new(Resend::new(count)?, target)?.in_microseconds(),
        );
        let contest = super::crypto::hold(bench, [&one, &other])?;
        let words = [
            (
                way,
                format!("a tensor's account at both ends of a stream, {count} in flight"),
                Unit::Nanoseconds,
                "pushed, announced, granted, sent, arrived, taken, acknowledged and settled; no bytes, frames or keys",
            ),
            (
                resend,
                format!("a stream begun again on another connection, {count} in flight"),
                Unit::Microseconds,
                "what has to go out again is listed at the sending end, and what arrived is kept at the receiving one",
            ),
        ];
        for ((id, name, unit, note), series) in words.into_iter().zip(&contest.series) {
            let caption = Caption::reported(id, Suite::Transfer.word(), name, unit, note);
            bench.row(caption.row(series, None, &contest.control));
        }
    }
    Ok(())
}
