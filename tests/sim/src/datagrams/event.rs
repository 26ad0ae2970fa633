//! What is going to happen, in order of time, and at the same time in the order in which it was said.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use sealane_protocol::Moment;

#[derive(Debug)]
pub(super) enum Event {
    /// A link has sent the first datagram of its queue.
    Sent { link: usize },
    /// A datagram arrives, by a path or, without one, from the intruder.
    Arrival { way: Option<usize>, from: SocketAddr, to: SocketAddr, bytes: Vec<u8> },
    /// A node's timer rings.
    Wake { node: usize },
    /// A node is seen under another address.
    Rebinding { node: usize, address: SocketAddr },
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    entries: BinaryHeap<Reverse<Entry>>,
    count: u64,
}

#[derive(Debug)]
struct Entry {
    at: Moment,
    number: u64,
    event: Event,
}

impl Agenda {
    pub(super) fn put(&mut self, at: Moment, event: Event) {
        self.count += 1;
        self.entries.push(Reverse(Entry { at, number: self.count, event }));
    }

    /// What happens next, if it is not after `until`.
    pub(super) fn take(&mut self, until: Moment) -> Option<(Moment, Event)> {
        if self.entries.peek()?.0.at > until {
            return None;
        }
        self.entries.pop().map(|Reverse(Entry { at, event, .. })| (at, event))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
