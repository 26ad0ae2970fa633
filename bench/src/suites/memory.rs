//! P11, H9: what an established connection takes, without sidecars.

use std::cell::RefCell;

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contest, Sample, Series};
use crate::held::{BYTES, Held};
use crate::plan::{Level, Suite};
use crate::programs;
use crate::row::{RowId, Unit};

pub(super) fn run(bench: &mut Bench<'_>) -> Ran {
    let ids = [RowId::new("H9", "idle"), RowId::new("P11", "connection")];
    if !bench.wants_any(&ids) {
        return Ok(());
    }
    bench.measuring(&ids[0]);
    let (count, rounds) = match bench.plan.level {
        Level::Smoke => (8, 1),
        Level::Quick => (500, 5),
        Level::Full => (1_000, 11),
    };
    let seen = RefCell::new(Vec::new());
    let hold = || {
        let held = programs::held(&bench.programs, count)?;
        let (value, wrong) = (held.carrying, held.wrong.clone());
        seen.borrow_mut().push(held);
        Ok(Sample { value, wrong, ..Sample::default() })
    };
    let Contest { series: [carrying], control } = Contest::hold(0, rounds, [Box::new(hold)])?;
    let seen: Vec<Held> = seen.into_inner();
    let idle = Series {
        values: seen.iter().map(|held| held.idle).collect(),
        latencies: Vec::new(),
        wrong: carrying.wrong.clone(),
    };
    let names = [
        format!("memory of one end of an established connection that carried {BYTES} B and is idle"),
        format!("memory of one end of an established connection that carries {BYTES} B"),
    ];
    let note = format!(
        "resident memory that {count} connections in a fresh process added, for each of their two ends: keys, cipher \
         contexts, what is known of the peer, and what the allocator keeps; without carriers, tasks and a carrier's \
         buffers, which growth/idle-connection has"
    );
    for ((id, name), series) in ids.into_iter().zip(names).zip([&idle, &carrying]) {
        let caption = Caption::reported(id, Suite::Memory.word(), name, Unit::Kibibytes, &note);
        bench.row(caption.row(series, None, &control));
    }
    Ok(())
}
