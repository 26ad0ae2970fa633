//! A bottleneck in virtual time, for the tests of controllers: senders that always have something to send share one
//! link with a rate, a delay, a queue that drops at its tail, and random loss. Acknowledgements are never lost.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::controller::{Acknowledged, Controller, Lost};
use super::delivery::{Delivery, Stamp};
use super::pacer::Pacer;
use super::rtt::Rtt;
use crate::Moment;

pub(super) const DATAGRAM: u64 = 1_200;
/// Later datagrams that arrive before an earlier one counts as lost (RFC 9002, section 6.1.1).
const REORDERED: u64 = 3;

pub(super) struct Link {
    pub(super) bytes_per_second: u64,
    pub(super) round_trip_micros: u64,
    pub(super) queue_bytes: u64,
    pub(super) loss_permille: u64,
    /// Acknowledgements arrive in heaps, so many microseconds apart.
    pub(super) heap_micros: u64,
}

pub(super) struct Flow {
    pub(super) controller: Box<dyn Controller>,
    delivery: Delivery,
    pacer: Pacer,
    rtt: Rtt,
    sent: VecDeque<Sent>,
    next: u64,
    in_flight: u64,
    /// An event for the next departure is under way.
    armed: bool,
    /// Something came since it last sent.
    heard: bool,
    acknowledged_at: Moment,
    starts: Moment,
    pub(super) delivered: u64,
    pub(super) lost: u64,
}

struct Sent {
    number: u64,
    at: Moment,
    stamp: Stamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Acknowledged { flow: usize, number: u64 },
    Departure { flow: usize },
    Timeout { flow: usize },
}

pub(super) struct Bottleneck {
    pub(super) link: Link,
    pub(super) flows: Vec<Flow>,
    pub(super) now: Moment,
    events: BinaryHeap<Reverse<(Moment, u64, Event)>>,
    events_ever: u64,
    /// When the link has sent all that is queued, in nanoseconds.
    busy_until: u64,
    pub(super) queue_max: u64,
    random: u64,
}

/// A link whose queue holds so many tenths of what the path does.
pub(super) fn world(
    mbit: u64,
    round_trip_micros: u64,
    queue_pipes_tenths: u64,
    loss_permille: u64,
) -> Bottleneck {
    let bytes_per_second = mbit * 125_000;
    let queue_bytes = bytes_per_second * round_trip_micros / 1_000_000 * queue_pipes_tenths / 10;
    Bottleneck::new(Link { bytes_per_second, round_trip_micros, queue_bytes, loss_permille, heap_micros: 0 })
}

impl Bottleneck {
    pub(super) fn new(link: Link) -> Self {
        Self {
            link,
            flows: Vec::new(),
            now: Moment::default(),
            events: BinaryHeap::new(),
            events_ever: 0,
            busy_until: 0,
            queue_max: 0,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// A sender that begins at `starts`.
    pub(super) fn join(&mut self, controller: Box<dyn Controller>, starts: Moment) {
        let flow = self.flows.len();
        self.flows.push(Flow {
            controller,
            delivery: Delivery::new(),
            pacer: Pacer::new(DATAGRAM),
            rtt: Rtt::new(),
            sent: VecDeque::new(),
            next: 0,
            in_flight: 0,
            armed: true,
            heard: false,
            acknowledged_at: starts,
            starts,
            delivered: 0,
            lost: 0,
        });
        self.at(starts, Event::Departure { flow });
        self.at(starts.plus_micros(1_000_000), Event::Timeout { flow });
    }

    /// Lets `micros` pass; what every flow delivered in them, in bytes.
    pub(super) fn run(&mut self, micros: u64) -> Vec<u64> {
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.delivered).collect();
        let until = self.now.plus_micros(micros);
        while let Some(Reverse((at, ..))) = self.events.peek()
            && *at <= until
        {
            let Reverse((at, _, event)) = self.events.pop().unwrap();
            self.now = at;
            match event {
                Event::Departure { flow } => {
                    self.flows[flow].armed = false;
                    self.send(flow);
                }
                Event::Acknowledged { flow, number } => self.acknowledge(flow, number),
                Event::Timeout { flow } => self.time_out(flow),
            }
            self.answer();
        }
        self.now = until;
        self.flows.iter().zip(before).map(|(flow, before)| flow.delivered - before).collect()
    }

    /// What the link delivers in `micros`.
    pub(super) fn capacity(&self, micros: u64) -> u64 {
        self.link.bytes_per_second * micros / 1_000_000
    }

    /// What is on the link when it is filled and nothing is queued.
    pub(super) fn pipe(&self) -> u64 {
        self.capacity(self.link.round_trip_micros)
    }

    fn at(&mut self, at: Moment, event: Event) {
        self.events_ever += 1;
        self.events.push(Reverse((at, self.events_ever, event)));
    }

    /// Who heard something sends, once all that comes at this moment has come.
    fn answer(&mut self) {
        if self.events.peek().is_some_and(|Reverse((at, ..))| *at == self.now) {
            return;
        }
        for index in 0..self.flows.len() {
            if std::mem::take(&mut self.flows[index].heard) {
                self.send(index);
            }
        }
    }

    fn send(&mut self, index: usize) {
        loop {
            let (now, flow) = (self.now, &mut self.flows[index]);
            if now < flow.starts || flow.in_flight + DATAGRAM > flow.controller.window() {
                return;
            }
            let rate = flow.controller.rate().or_else(|| {
                let window = flow.controller.window();
                flow.rtt.has_sample().then(|| window * 1_250_000 / flow.rtt.smoothed_micros())
            });
            if let Some(rate) = rate {
                flow.pacer.on_rate(rate);
            }
            if flow.pacer.room(now) < DATAGRAM {
                if !flow.armed {
                    flow.armed = true;
                    let next = flow.pacer.next(now, DATAGRAM);
                    self.at(next, Event::Departure { flow: index });
                }
                return;
            }
            self.depart(index);
        }
    }

    fn depart(&mut self, index: usize) {
        let (now, flow) = (self.now, &mut self.flows[index]);
        flow.pacer.spent(DATAGRAM);
        let stamp = flow.delivery.on_sent(now, DATAGRAM, flow.in_flight);
        flow.in_flight += DATAGRAM;
        flow.controller.on_sent(now, DATAGRAM, flow.in_flight);
        let number = flow.next;
        flow.next += 1;
        flow.sent.push_back(Sent { number, at: now, stamp });
        if let Some(arrives) = self.carry() {
            self.at(arrives, Event::Acknowledged { flow: index, number });
        }
    }

    /// When the acknowledgement of a datagram that leaves now is back.
    fn carry(&mut self) -> Option<Moment> {
        let nanos = self.now.as_micros() * 1_000;
        let rate = self.link.bytes_per_second;
        let waiting = self.busy_until.saturating_sub(nanos);
        let queued = waiting * rate / 1_000_000_000;
        if queued + DATAGRAM > self.link.queue_bytes {
            return None;
        }
        self.queue_max = self.queue_max.max(queued + DATAGRAM);
        self.busy_until = self.busy_until.max(nanos) + DATAGRAM * 1_000_000_000 / rate;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let survives = self.random % 1_000 >= self.link.loss_permille;
        let back = self.busy_until.div_ceil(1_000) + self.link.round_trip_micros;
        let heap = self.link.heap_micros.max(1);
        survives.then_some(Moment::from_micros(back.div_ceil(heap) * heap))
    }

    fn acknowledge(&mut self, index: usize, number: u64) {
        let (now, flow) = (self.now, &mut self.flows[index]);
        let Ok(place) = flow.sent.binary_search_by_key(&number, |sent| sent.number) else { return };
        let sent = flow.sent.remove(place).unwrap();
        flow.acknowledged_at = now;
        flow.delivered += DATAGRAM;
        flow.in_flight -= DATAGRAM;
        flow.rtt.update(now.micros_since(sent.at), 0);
        flow.delivery.on_acknowledged(now, &sent.stamp, sent.at, DATAGRAM);
        let lost = flow.sent.iter().take_while(|other| other.number + REORDERED <= number).count();
        flow.lose(now, lost, false);
        let delivery = flow.delivery.take_sample(now, &flow.rtt);
        let acknowledged = Acknowledged {
            now,
            bytes: DATAGRAM,
            newest_sent: sent.at,
            in_flight: flow.in_flight,
            limited: false,
            delivery,
        };
        flow.controller.on_acknowledged(&acknowledged, &flow.rtt);
        flow.heard = true;
    }

    /// Nothing was acknowledged for a second: all that is on the way is lost.
    fn time_out(&mut self, index: usize) {
        let (now, flow) = (self.now, &mut self.flows[index]);
        let due = flow.acknowledged_at.plus_micros(1_000_000);
        if due <= now && flow.in_flight > 0 {
            flow.lose(now, flow.sent.len(), true);
            flow.acknowledged_at = now;
            self.send(index);
        }
        let due = self.flows[index].acknowledged_at.plus_micros(1_000_000).max(now.plus_micros(1_000));
        self.at(due, Event::Timeout { flow: index });
    }
}

impl Flow {
    /// The oldest `count` datagrams are lost.
    fn lose(&mut self, now: Moment, count: usize, persistent: bool) {
        let Some(newest_sent) = self.sent.drain(..count).map(|sent| sent.at).max() else { return };
        let bytes = count as u64 * DATAGRAM;
        self.in_flight -= bytes;
        self.lost += bytes;
        let lost = Lost { now, bytes, newest_sent, in_flight: self.in_flight, persistent };
        self.controller.on_lost(&lost, &self.rtt);
    }
}
