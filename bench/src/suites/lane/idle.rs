//! What two sidecars use of the processors while nobody puts anything: no other row is met by spinning.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bench::{Bench, Ran};
use crate::contest::{Caption, Contest, Sample};
use crate::ends::Ends;
use crate::plan::{Level, Suite};
use crate::programs::Sidecars;
use crate::row::{RowId, Subject, Unit};

/// Percent of a core that one of them may use.
const LIMIT: f64 = 0.1;
/// Bytes of tensors that were on their way just before.
const BYTES: usize = 1_048_576;

pub(super) fn id() -> RowId {
    RowId::new("idle-cpu", "lane")
}

pub(super) fn run(bench: &mut Bench<'_>, lane: &Ends<'_>, sidecars: &Sidecars) -> Ran {
    let id = id();
    if !bench.wants_any([&id]) {
        return Ok(());
    }
    bench.measuring(&id);
    let (window, rounds) = match bench.plan.level {
        Level::Smoke => (Duration::from_millis(50), 1),
        Level::Quick => (Duration::from_secs(2), 5),
        Level::Full => (Duration::from_secs(10), 7),
    };
    let rest = || {
        let wrong = lane.thorough(BYTES)?;
        // What was on its way is acknowledged and given back.
        sleep(window / 4);
        let children = [&sidecars.sender.child, &sidecars.receiver.child];
        let used = || children.map(|child| child.processor_seconds());
        let ([sender, receiver], began) = (used(), Instant::now());
        sleep(window);
        let [sender_after, receiver_after] = used();
        let busier = (sender_after? - sender?).max(receiver_after? - receiver?);
        let value = 100.0 * busier / began.elapsed().as_secs_f64();
        Ok(Sample { value, latencies: Vec::new(), wrong })
    };
    let Contest { series: [series], control } = Contest::hold(0, rounds, [Box::new(rest)])?;
    let caption = Caption {
        limits: vec![(Subject::Ours, LIMIT)],
        ..Caption::reported(
            id,
            Suite::Lane.word(),
            "what the busier of two sidecars uses of a core while nobody puts or takes".to_owned(),
            Unit::Percent,
            "after tensors that were taken, with the lane open at both ends",
        )
    };
    bench.row(caption.row(&series, None, &control));
    Ok(())
}
