//! As many packets one way as there is time for.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::End;
use super::done::Done;
use super::flow::{BATCH, Flow};
use crate::cores::{Cores, thread_time};

/// What has not come by then, after everything was sent and nothing came, is lost.
const QUIET: Duration = Duration::from_millis(5);
/// A sender that has no room for so long never will.
const STUCK: Duration = Duration::from_secs(2);

/// How it went.
#[derive(Debug, Clone)]
pub(crate) struct Burst {
    pub(crate) bytes: usize,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// From the first packet sent until the last was received.
    pub(crate) took: Duration,
    /// What both threads used of their cores.
    pub(crate) used: Duration,
    pub(crate) wrong: Option<String>,
}

/// Sends from the first end to the second for `length`. Both look all the time and never sleep. The sender hears nothing
/// of the receiver: what is too much for it is lost.
pub(crate) fn burst<E: End>(
    ends: &mut [E; 2],
    cores: Cores,
    flow: &mut Flow,
    length: Duration,
) -> Result<Burst> {
    let [sender, receiver] = ends;
    let Flow { outgoing, incoming, bytes } = flow;
    let (bytes, first, before) = (*bytes, outgoing.count(), incoming.count());
    let sent_all = &AtomicBool::new(false);
    let send = || {
        let _done = Done(sent_all);
        let (used, began) = (thread_time()?, Instant::now());
        while began.elapsed() < length {
            let mut packets = outgoing.next(BATCH);
            while !packets.is_empty() {
                let left = sender.send(packets, bytes)?;
                packets = &packets[left * bytes..];
                ensure!(left > 0 || began.elapsed() < length + STUCK, "packets do not leave");
            }
        }
        Ok((began, outgoing.count(), thread_time()? - used))
    };
    let receive = || {
        let used = thread_time()?;
        let (mut last, mut quiet) = (None, None);
        loop {
            if receiver.receive(BATCH, |packet| incoming.take(packet))? > 0 {
                last = Some(Instant::now());
                quiet = None;
            } else if sent_all.load(Ordering::Acquire)
                && quiet.get_or_insert_with(Instant::now).elapsed() > QUIET
            {
                break;
            } else {
                spin_loop();
            }
        }
        Ok((last, thread_time()?.saturating_sub(used + QUIET)))
    };
    let ((began, sent, sending), (last, receiving)) = cores.run(send, receive)?;
    let last = last.with_context(|| format!("of {} packets none arrived", sent - first))?;
    Ok(Burst {
        bytes,
        sent: sent - first,
        received: incoming.count() - before,
        took: last - began,
        used: sending + receiving,
        wrong: incoming.take_wrong(),
    })
}

impl Burst {
    pub(crate) fn packets_per_second(&self) -> f64 {
        self.received as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn gigabytes_per_second(&self) -> f64 {
        self.packets_per_second() * self.bytes as f64 / 1e9
    }

    /// Of both cores, for each byte that arrived.
    pub(crate) fn nanoseconds_per_byte(&self) -> f64 {
        self.used.as_secs_f64() * 1e9 / (self.received as f64 * self.bytes as f64)
    }
}
