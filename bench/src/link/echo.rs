//! One packet there and back at a time.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::End;
use super::done::Done;
use super::flow::Flow;
use crate::cores::Cores;

/// An answer that has not come by then is lost, and nobody sends again.
const PATIENCE: Duration = Duration::from_secs(2);
/// Looks between two readings of the clock that only tells whether to give up.
const LOOKS: u32 = 1 << 12;

/// What an end does until its packet comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It looks again.
    Spinning,
    /// It sleeps in the kernel.
    Asleep,
}

/// `count` round trips from the first end to the second, in microseconds, and what was wrong.
pub(crate) fn echo<E: End>(
    ends: &mut [E; 2],
    cores: Cores,
    flow: &mut Flow,
    count: u64,
    waiting: Waiting,
) -> Result<(Vec<f64>, Option<String>)> {
    let [asking, answering] = ends;
    let Flow { outgoing, incoming, bytes } = flow;
    let bytes = *bytes;
    let asked_all = &AtomicBool::new(false);
    let ask = || {
        let _done = Done(asked_all);
        let mut latencies = Vec::with_capacity(usize::try_from(count)?);
        for _ in 0..count {
            let packet = outgoing.next(1);
            let began = Instant::now();
            ensure!(asking.send(packet, bytes)? == 1, "a packet does not leave");
            let mut looks = 0_u32;
            while asking.receive(1, |packet| incoming.take(packet))? == 0 {
                idle(asking, waiting)?;
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(LOOKS) && began.elapsed() > PATIENCE {
                    bail!("no answer came");
                }
            }
            latencies.push(began.elapsed().as_secs_f64() * 1e6);
        }
        Ok(latencies)
    };
    let answer = || {
        let mut packet = vec![0; bytes];
        while !asked_all.load(Ordering::Acquire) {
            let mut came = 0;
            answering.receive(1, |arrived| {
                came = arrived.len().min(bytes);
                packet[..came].copy_from_slice(&arrived[..came]);
            })?;
            if came == 0 {
                idle(answering, waiting)?;
            } else {
                answering.send(&packet[..came], came)?;
            }
        }
        Ok(())
    };
    let (latencies, ()) = cores.run(ask, answer)?;
    Ok((latencies, incoming.take_wrong()))
}

fn idle(end: &mut impl End, waiting: Waiting) -> Result<()> {
    match waiting {
        Waiting::Spinning => spin_loop(),
        Waiting::Asleep => end.wait()?,
    }
    Ok(())
}
