//! How long a verifier may be kept busy by whoever has proved nothing.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sealane_attestation::{Claims, Rejection};

/// Of processor, for refusing anything: what is honest is verified in a hundredth of it.
const REFUSAL_MAX: Duration = Duration::from_millis(100);
/// Whatever else the machine does slows some of so many runs. What costs too much slows them all.
const RUNS: usize = 5;

/// Why `inspect` refuses what it is given, which has to be quick.
#[track_caller]
pub(crate) fn refused(what: &str, inspect: impl Fn() -> Result<Claims, Rejection>) -> Rejection {
    let refusal = inspect().unwrap_err();
    let runs = (0..RUNS).map(|_| {
        let before = processor_time();
        assert!(inspect().is_err(), "{what}");
        processor_time() - before
    });
    let least = runs.min().unwrap();
    assert!(least < REFUSAL_MAX, "{what}: {least:?}");
    eprintln!("{what}: {least:.1?}: {refusal}");
    refusal
}

/// What this thread has used: it stands still while the machine does something else.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}
