//! Threads on cores of their own, and what they used of them.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::time::ClockId;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A core that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Core(usize);

impl Core {
    /// Keeps the calling thread on this core from now on.
    pub(crate) fn pin(self) -> Result<()> {
        let Self(core) = self;
        let mut cores = CpuSet::new();
        cores.set(core);
        sched_setaffinity(None, &cores).with_context(|| format!("taking core {core}"))
    }
}

/// Two different cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cores(pub(crate) [Core; 2]);

impl Cores {
    /// The first two. None where there is only one.
    pub(crate) fn two() -> Result<Option<Self>> {
        let allowed = sched_getaffinity(None).context("asking for cores")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).map(Core);
        Ok(cores.next().zip(cores.next()).map(|(one, other)| Self([one, other])))
    }

    /// Does both at the same time, each in a thread on a core of its own.
    pub(crate) fn run<A: Send, B: Send>(
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

fn on<T>(core: Core, both: &Barrier, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let pinned = core.pin();
    both.wait();
    // Also an end that is not where it should be does its work: the other one waits for it.
    let done = work();
    pinned?;
    done
}

/// What the calling thread has used of a core, the kernel's work for it included.
pub(crate) fn thread_time() -> Result<Duration> {
    Ok(ClockId::CLOCK_THREAD_CPUTIME_ID.now().context("reading a thread's clock")?.into())
}

/// The same of all threads of this process.
pub(crate) fn process_time() -> Result<Duration> {
    Ok(ClockId::CLOCK_PROCESS_CPUTIME_ID.now().context("reading a process's clock")?.into())
}
