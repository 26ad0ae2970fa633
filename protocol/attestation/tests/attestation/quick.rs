//! How long a verifier may be kept busy by whoever has proved nothing.

use std::time::{Duration, Instant};

use sealane_attestation::{Claims, Rejection};

/// Refusing anything takes no longer, by far: what is honest is verified in a hundredth of it.
const REFUSAL_MAX: Duration = Duration::from_millis(100);
/// Whatever else the machine does slows some of so many runs. What costs too much slows them all.
const RUNS: usize = 5;

/// Why `inspect` refuses what it is given, which has to be quick.
#[track_caller]
pub(crate) fn refused(what: &str, inspect: impl Fn() -> Result<Claims, Rejection>) -> Rejection {
    let refusal = inspect().unwrap_err();
    let runs = (0..RUNS).map(|_| {
        let started = Instant::now();
        assert!(inspect().is_err(), "{what}");
        started.elapsed()
    });
    let fastest = runs.min().unwrap();
    assert!(fastest < REFUSAL_MAX, "{what}: {fastest:?}");
    eprintln!("{what}: {fastest:.1?}: {refusal}");
    refusal
}
