//! One replica that sends to this session.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealane_protocol::Moment;
use sealane_protocol::limits::STREAMS_MAX;
use sealane_types::{PeerName, PodIdentity, Reason};

use super::announced::SenderAnnounced;
use super::stream::{Standing, Stream};
use crate::session::arrival::{Arrival, Connected};
use crate::session::stop::Stop;

/// How long a cut stream may take to come back before the receivers are told that it is lost: a sidecar's restart.
pub(super) const RESUME_MICROS_MAX: u64 = 15_000_000;
/// Streams that are remembered although their sender is done with them, in case its last answer was lost.
const SETTLED_MAX: usize = 64;
/// Streams that are remembered although they are over: a sender comes back with all that it had open at once.
const OVER_MAX: usize = STREAMS_MAX + SETTLED_MAX;

#[derive(Debug)]
struct Connection {
    number: u64,
    known: Option<Connected>,
    degraded: Vec<Reason>,
    stop: Stop,
}

/// A sender and its streams.
#[derive(Debug)]
pub(super) struct Sender {
    peer: PeerName,
    /// `pod/uid`, as the configuration names replicas.
    pub(super) id: String,
    name: String,
    connection: Option<Connection>,
    streams: BTreeMap<[u8; 16], Arc<Stream>>,
    /// What it has announced in all of them.
    announced: SenderAnnounced,
    /// Incarnations, those opened last at the end.
    order: Vec<[u8; 16]>,
    /// When it was last connected.
    pub(super) seen: Moment,
}

impl Sender {
    pub(super) fn new(peer: PeerName, pod: &PodIdentity) -> Self {
        let name = format!("{peer}/{}", pod.pod());
        let id = format!("{}/{}", pod.pod(), pod.uid());
        Self {
            peer,
            id,
            name,
            connection: None,
            streams: BTreeMap::new(),
            announced: SenderAnnounced::default(),
            order: Vec::new(),
            seen: Moment::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// As it proved; part of what names a sender.
    pub(super) fn peer(&self) -> &PeerName {
        &self.peer
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Whether its current connection is this one.
    pub(super) fn is_on(&self, number: u64) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.number == number)
    }

    pub(super) fn connected(&self) -> Option<Connected> {
        self.connection.as_ref().and_then(|connection| connection.known)
    }

    pub(super) fn degraded(&self) -> &[Reason] {
        self.connection.as_ref().map_or(&[], |connection| &connection.degraded)
    }

    /// A new connection takes over; an older one that is still there is of no use any more.
    pub(super) fn attach(&mut self, number: u64, arrival: Arrival, now: Moment) {
        let Arrival { degraded, stop, .. } = arrival;
        if let Some(older) = self.connection.replace(Connection { number, known: None, degraded, stop }) {
            older.stop.ask(Reason::LinkLost);
            // Its end will come too late to be its sender's. What is not opened again in time is lost.
            self.cut(now);
        }
    }

    pub(super) fn established(&mut self, number: u64, known: Connected) {
        if let Some(connection) = self.connection.as_mut().filter(|connection| connection.number == number) {
            connection.known = Some(known);
        }
    }

    pub(super) fn judged_again(&mut self, number: u64, degraded: &[Reason]) {
        if let Some(connection) = self.connection.as_mut().filter(|connection| connection.number == number) {
            connection.degraded = degraded.to_vec();
        }
    }

    /// False when another connection has taken over.
    pub(super) fn detach(&mut self, number: u64, now: Moment) -> bool {
        if self.connection.as_ref().is_none_or(|connection| connection.number != number) {
            return false;
        }
        self.connection = None;
        self.cut(now);
        true
    }

    /// Its pod is gone, whatever its connection says.
    pub(super) fn cut_off(&mut self, now: Moment) {
        if let Some(connection) = self.connection.take() {
            connection.stop.ask(Reason::LinkLost);
            self.cut(now);
        }
    }

    fn cut(&mut self, now: Moment) {
        self.seen = now;
        for stream in self.streams.values() {
            stream.detach(now);
        }
    }

    /// The session is suspended.
    pub(super) fn rest(&self) {
        self.streams.values().for_each(|stream| stream.rest());
    }

    pub(super) fn close(&self, reason: Reason) {
        if let Some(connection) = &self.connection {
            connection.stop.ask(reason);
        }
    }

    /// The stream of one of its lanes.
    pub(super) fn stream(&mut self, incarnation: [u8; 16]) -> Result<Arc<Stream>, Reason> {
        if let Some(stream) = self.streams.get(&incarnation) {
            let stream = Arc::clone(stream);
            self.order.retain(|known| *known != incarnation);
            self.order.push(incarnation);
            return Ok(stream);
        }
        let open = self.streams.values().filter(|stream| !stream.is_over()).count();
        if open >= STREAMS_MAX {
            return Err(Reason::LimitExceeded);
        }
        self.forget_oldest();
        let stream = Stream::new(self.name.clone(), self.announced.clone(), incarnation);
        self.streams.insert(incarnation, Arc::clone(&stream));
        self.order.push(incarnation);
        Ok(stream)
    }

    /// Gives up streams that did not come back, or all that are cut if the sender is gone for good. True if there were.
    pub(super) fn give_up(&self, now: Moment, gone: bool) -> bool {
        let mut lost = false;
        for stream in self.streams.values() {
            let Standing::Cut(since) = stream.standing() else { continue };
            if gone || now.micros_since(since) > RESUME_MICROS_MAX {
                lost |= stream.interrupt();
            }
        }
        lost
    }

    /// Whether it has streams that may still bring something.
    pub(super) fn is_busy(&self) -> bool {
        self.streams.values().any(|stream| !stream.is_over())
    }

    /// Whether it was told what became of everything that clients are done with.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.streams.values().all(|stream| stream.is_acknowledged())
    }

    /// Whether it closed a stream.
    pub(super) fn has_ended(&self) -> bool {
        self.streams.values().any(|stream| stream.has_ended())
    }

    /// Whether it opened a stream since the session began or was resumed.
    pub(super) fn has_streams(&self) -> bool {
        self.streams.values().any(|stream| stream.standing() != Standing::Past)
    }

    fn forget_oldest(&mut self) {
        let count = |over: fn(&Stream) -> bool| self.streams.values().filter(|stream| over(stream)).count();
        let forgotten: fn(&Stream) -> bool = if count(Stream::is_settled) >= SETTLED_MAX {
            Stream::is_settled
        } else if count(Stream::is_over) >= OVER_MAX {
            Stream::is_over
        } else {
            return;
        };
        let oldest =
            self.order.iter().position(|known| self.streams.get(known).is_some_and(|one| forgotten(one)));
        if let Some(oldest) = oldest {
            self.streams.remove(&self.order.remove(oldest));
        }
    }
}
