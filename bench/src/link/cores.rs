//! Two threads, each on a core of its own.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::time::ClockId;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Two different cores that this process may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores([usize; 2]);

impl Cores {
    /// The first two. None where there is only one.
    pub(crate) fn two() -> Result<Option<Self>> {
        let allowed = sched_getaffinity(None).context("asking for cores")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
        Ok(cores.next().zip(cores.next()).map(|(one, other)| Self([one, other])))
    }

    /// Does both at the same time.
    pub(super) fn run<A: Send, B: Send>(
        self,
        one: impl FnOnce() -> Result<A> + Send,
        other: impl FnOnce() -> Result<B> + Send,
    ) -> Result<(A, B)> {
        let Self([first, second]) = self;
        let barrier = &Barrier::new(2);
        let joined = thread::scope(|scope| {
            let one = scope.spawn(move || on(first, barrier, one));
            let other = scope.spawn(move || on(second, barrier, other));
            (one.join(), other.join())
        });
        let (Ok(one), Ok(other)) = joined else { bail!("an end of a link panicked") };
        Ok((one?, other?))
    }
}

fn on<T>(core: usize, both: &Barrier, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut cores = CpuSet::new();
    cores.set(core);
    let pinned = sched_setaffinity(None, &cores);
    both.wait();
    // Also an end that is not where it should be does its work: the other one waits for it.
    let done = work();
    pinned.with_context(|| format!("taking core {core}"))?;
    done
}

/// What this thread has used of a core, the kernel's work for it included.
pub(super) fn processor_time() -> Result<Duration> {
    Ok(ClockId::CLOCK_THREAD_CPUTIME_ID.now().context("reading a thread's clock")?.into())
}

/// Says that its end is done, also where that fails.
pub(super) struct Done<'a>(pub(super) &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
