//! How long a verifier may be kept busy by whoever has proved nothing: counted in instructions, which are the same whatever
//! else the machine does, and told in time.

use std::process::Command;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use sealane_attestation::{Claims, Rejection};
use sealane_fixtures::allowed;

/// Instructions of all refusals together, where they were measured: some tens of milliseconds for more than twenty.
const MEASURED: u64 = 69_500_000;

/// Why `inspect` refuses what it is given, which has to be quick.
#[track_caller]
pub(crate) fn refused(what: &str, inspect: impl Fn() -> Result<Claims, Rejection>) -> Rejection {
    let before = processor_time();
    let refusal = counted(&inspect).unwrap_err();
    let took = processor_time() - before;
    eprintln!("refused in {took:.1?}: {what}: {refusal}");
    refusal
}

/// What callgrind counts.
#[inline(never)]
fn counted(inspect: &dyn Fn() -> Result<Claims, Rejection>) -> Result<Claims, Rejection> {
    inspect()
}

/// What this thread has used: it stands still while the machine does something else.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// Runs the tests of evidence that tries to cost much once more, in a process whose instructions are counted: none of them can
/// cost more than they do together.
#[test]
fn refusals_cost_few_instructions() {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*quick*counted*", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(["hostile", "--test-threads=1", "--nocapture"])
        .output()
        .expect("counting instructions needs valgrind: apt-get install valgrind");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let refusals = said.lines().filter(|line| line.starts_with("refused in")).count();
    let count = said.lines().find_map(|line| line.split_once("Collected : ")).expect("callgrind counts");
    let count: u64 = count.1.trim().parse().unwrap();
    eprintln!("{refusals} refusals cost {count} instructions together");
    assert!(refusals >= 20, "not all refusals were counted\n{said}");
    assert!(
        count <= allowed(MEASURED),
        "{refusals} refusals cost {count} instructions, {MEASURED} when it was measured\n{said}"
    );
    // A bound far above the count guards nothing.
    assert!(allowed(count) >= MEASURED, "{count} instructions: note it in place of {MEASURED}");
}
