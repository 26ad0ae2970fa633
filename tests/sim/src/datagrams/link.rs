//! What paths share: a rate, and a queue in front of it that drops at its tail.

use std::collections::VecDeque;
use std::net::SocketAddr;

use sealane_protocol::Moment;

use super::steps::Steps;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub(super) usize);

/// A datagram on its way.
#[derive(Debug)]
pub(super) struct Flying {
    /// The path that it takes, as an index.
    pub(super) way: usize,
    pub(super) from: SocketAddr,
    pub(super) bytes: Vec<u8>,
}

#[derive(Debug)]
pub struct Link {
    bytes_per_second: Steps<u64>,
    queue_bytes_limit: u64,
    /// The first one is being sent.
    queue: VecDeque<Flying>,
    queue_bytes: u64,
    queue_bytes_max: u64,
    /// What the last departure was rounded down by, in millionths of a second times the rate.
    rest: u64,
}

impl Link {
    /// The queue holds what is being sent as well.
    #[must_use]
    pub const fn new(bytes_per_second: Steps<u64>, queue_bytes_limit: u64) -> Self {
        Self {
            bytes_per_second,
            queue_bytes_limit,
            queue: VecDeque::new(),
            queue_bytes: 0,
            queue_bytes_max: 0,
            rest: 0,
        }
    }

    /// So fast that it takes no time.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::new(Steps::always(u64::MAX), u64::MAX)
    }

    pub(super) const fn queue_bytes_max(&self) -> u64 {
        self.queue_bytes_max
    }

    pub(super) fn forget_queue_bytes_max(&mut self) {
        self.queue_bytes_max = self.queue_bytes;
    }

    /// Puts a datagram into the queue. None: there is no room. Otherwise, if it is being sent already, when that is done.
    pub(super) fn put(&mut self, now: Moment, flying: Flying) -> Option<Option<Moment>> {
        let bytes = self.queue_bytes.saturating_add(flying.bytes.len() as u64);
        if bytes > self.queue_bytes_limit {
            return None;
        }
        self.queue_bytes = bytes;
        self.queue_bytes_max = self.queue_bytes_max.max(bytes);
        let idle = self.queue.is_empty();
        self.queue.push_back(flying);
        if idle {
            self.rest = 0;
        }
        Some(if idle { self.departure(now) } else { None })
    }

    /// The first datagram of the queue, which has been sent, and when the next one will have been.
    pub(super) fn take(&mut self, now: Moment) -> (Option<Flying>, Option<Moment>) {
        let flying = self.queue.pop_front();
        let bytes = flying.as_ref().map_or(0, |flying| flying.bytes.len() as u64);
        self.queue_bytes = self.queue_bytes.saturating_sub(bytes);
        (flying, self.departure(now))
    }

    fn departure(&mut self, now: Moment) -> Option<Moment> {
        let bytes = self.queue.front()?.bytes.len() as u64;
        let rate = self.bytes_per_second.at(now).max(1);
        let work = bytes * 1_000_000 + self.rest;
        self.rest = work % rate;
        if rate == u64::MAX {
            self.rest = 0;
        }
        Some(now.plus_micros(work / rate))
    }
}
