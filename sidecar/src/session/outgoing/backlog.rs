//! What one receiving process has been given and has not taken yet. No locks, no tasks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sealane_protocol::connection::Connection;
use sealane_protocol::frame::{Frame, StreamId, Subject};
use sealane_types::Reason;

use super::links::{Links, Reports};
use super::stream::{Stream, StreamKey, queued};
use super::unsent::Unsent;
use crate::handoff::{LaneIncarnation, Parcel, Sequence};

/// Small tensors that may wait for the link, so that many share a record.
const UNSENT_TENSORS_MAX: usize = 256;
/// Bytes beyond which only [`UNSENT_TENSORS_MIN`] tensors may wait.
const UNSENT_BYTES_MAX: u64 = 4 << 20;
/// Tensors that may always wait, whatever their size: while one is sent, the receiver reserves for the next.
const UNSENT_TENSORS_MIN: usize = 2;
/// What a process may hold of a broadcast without taking it, but for two tensors of any size. It is less than a client
/// has under way, so that a lane runs out of room before its client does: the lane knows who holds it up. A client holds
/// 64 MiB, or four tensors: of any one size it has one more tensor for the lane than these bounds let through.
const UNTAKEN_TENSORS_MAX: usize = 768;
const UNTAKEN_BYTES_MAX: u64 = 32 << 20;
const UNTAKEN_TENSORS_MIN: usize = 2;
/// Streams of one association at once; the protocol allows as many.
const STREAMS_MAX: usize = 256;

/// Something that a lane has to know.
#[derive(Debug)]
pub(super) enum Outcome {
    Taken(Vec<Sequence>),
    /// The receiver's application is gone with these.
    Lost(Vec<Sequence>),
    /// The receiver recorded the end of this stream.
    Ended,
}

/// What is left of a lane when a receiving process is gone.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// Some of it may have arrived.
    pub(super) uncertain: Vec<Sequence>,
    /// Nothing of it was sent.
    pub(super) untouched: Vec<Parcel>,
    /// Ends that were asked for and will not be confirmed any more.
    pub(super) ends: usize,
}

/// What a lane loses when a receiving process is given up.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    pub(super) sequences: Vec<Sequence>,
    /// As in [`Remains`].
    pub(super) ends: usize,
}

/// Streams towards one receiving process.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    streams: BTreeMap<StreamId, Stream>,
    /// Streams in the order in which they get their turn.
    turns: VecDeque<StreamId>,
    next: u32,
    attached: bool,
    aborts: VecDeque<StreamId>,
    outcomes: VecDeque<(StreamId, Outcome)>,
    /// Tensors that will be pushed soon.
    promised: Unsent,
    /// Of the current connection.
    links: Option<Links>,
    /// Those of before a renewal, which finish what they were given.
    links_before: Vec<Links>,
    reports: Arc<Reports>,
}

impl Backlog {
    /// Whether another tensor may be given to this process.
    pub(super) fn has_room(&self) -> bool {
        let unsent = self.streams.values().fold(self.promised, |sum, stream| sum.plus(stream.unsent));
        let links = self.links.as_ref().map_or(0, Links::count);
        unsent.tensors < UNSENT_TENSORS_MIN * (1 + links)
            || (unsent.tensors < UNSENT_TENSORS_MAX && unsent.bytes < UNSENT_BYTES_MAX)
    }

    /// Whether it holds as much as may wait for one receiver of several.
    pub(super) fn is_laden(&self) -> bool {
        let untaken = self.streams.values().fold(self.promised, |sum, stream| sum.plus(stream.untaken));
        untaken.tensors >= UNTAKEN_TENSORS_MAX
            || (untaken.tensors >= UNTAKEN_TENSORS_MIN && untaken.bytes >= UNTAKEN_BYTES_MAX)
    }

    /// Whether nothing is left to send or to wait for.
    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.aborts.is_empty() && self.promised.tensors == 0
    }

    /// Whether the receiver has, or is to get, tensors that it has not taken.
    pub(super) fn holds_tensors(&self) -> bool {
        self.streams.values().any(|stream| !stream.parcels.is_empty())
    }

    /// Counts a tensor that will be pushed soon.
    pub(super) fn promise(&mut self, length: u64) {
        self.promised.add(length);
    }

    /// Gives up a promise.
    pub(super) fn forgo(&mut self, length: u64) {
        self.promised.remove(length);
    }

    /// Takes a promised tensor over. `started` says that it may have been sent by an earlier life of this sidecar.
    pub(super) fn push(
        &mut self,
        key: StreamKey,
        incarnation: LaneIncarnation,
        parcel: Parcel,
        started: bool,
    ) -> Result<(), Parcel> {
        self.forgo(parcel.length);
        match self.stream(key, incarnation) {
            Some(stream) => stream.push(parcel, started),
            None => Err(parcel),
        }
    }

    /// Begins a lane's stream, even if nothing is to be sent in it yet.
    pub(super) fn open(&mut self, lane: StreamId, incarnation: LaneIncarnation) {
        // Without room for one more stream, the first tensor finds none either, and says so.
        let _ = self.stream(StreamKey { lane, generation: 0 }, incarnation);
    }

    /// Whether this process knows of a lane.
    pub(super) fn has_streams(&self, lane: StreamId) -> bool {
        self.streams.values().any(|stream| stream.key.lane == lane)
    }

    /// Ends every stream of a lane once everything in it was sent; makes one if there is none, so that the receiver
    /// learns of the end. Returns how many ends will be confirmed.
    pub(super) fn finish(&mut self, lane: StreamId, incarnation: LaneIncarnation) -> usize {
        if !self.has_streams(lane) {
            // Without room for one more stream the receiver hears of the end by another lane of this sender.
            let _ = self.stream(StreamKey { lane, generation: 0 }, incarnation);
        }
        let streams = self.streams.values_mut().filter(|stream| stream.key.lane == lane);
        streams.map(Stream::finish).count()
    }

    /// Drops every stream of a lane whose client is gone.
    pub(super) fn abort(&mut self, lane: StreamId) {
        let attached = self.attached;
        let aborts = &mut self.aborts;
        self.streams.retain(|id, stream| {
            let gone = stream.key.lane == lane;
            // A receiver that never saw the stream need not be told.
            if gone && attached && stream.is_open() {
                aborts.push_back(*id);
            }
            !gone
        });
        self.turns.retain(|turn| self.streams.contains_key(turn));
    }

    /// Drops everything that this process has not taken; what that is of each lane.
    pub(super) fn give_up(&mut self) -> BTreeMap<StreamId, Dropped> {
        let mut given_up: BTreeMap<StreamId, Dropped> = BTreeMap::new();
        for stream in self.streams.values() {
            let dropped = given_up.entry(stream.key.lane).or_default();
            dropped.sequences.extend(stream.parcels.keys());
            dropped.ends += usize::from(stream.ending);
        }
        given_up.keys().for_each(|lane| self.abort(*lane));
        given_up
    }

    /// A connection to the same process begins: what it has not taken goes out again.
    pub(super) fn attach(&mut self) {
        self.attached = true;
        self.streams.values_mut().for_each(Stream::attach);
    }

    /// The connection has other further links than before.
    pub(super) fn link(&mut self, links: Option<Links>) {
        if let Some(before) = std::mem::replace(&mut self.links, links) {
            before.finish();
            self.links_before.push(before);
        }
    }

    /// What further links of the current connection tell.
    pub(super) fn reports(&self) -> Arc<Reports> {
        Arc::clone(&self.reports)
    }

    /// Takes in what links have sealed: before it is acknowledged.
    fn hear_links(&mut self) {
        for (id, sequence) in self.reports.take_sealed() {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.outbound().stripe_sent(sequence);
            }
        }
    }

    /// The connection is gone. True: a further link of it failed before.
    pub(super) fn detach(&mut self) -> bool {
        self.links = None;
        self.links_before.clear();
        // Nothing more is sealed from here on, and what was may be acknowledged on the next connection.
        self.streams.values_mut().for_each(Stream::end_leases);
        self.hear_links();
        let failed = std::mem::take(&mut self.reports).has_failed();
        self.attached = false;
        self.aborts.clear();
        self.streams.values_mut().for_each(Stream::detach);
        self.collect();
        failed
    }

    /// The next thing that a lane has to know.
    pub(super) fn poll_outcome(&mut self) -> Option<(StreamId, Outcome)> {
        self.outcomes.pop_front()
    }

    /// The process is gone: what is left of each lane. Promises stay, and find no stream of theirs any more.
    pub(super) fn dissolve(&mut self) -> BTreeMap<StreamId, Remains> {
        let mut remains: BTreeMap<StreamId, Remains> = BTreeMap::new();
        for stream in std::mem::take(&mut self.streams).into_values() {
            let left = remains.entry(stream.key.lane).or_default();
            left.ends += usize::from(stream.ending);
            for (sequence, held) in stream.parcels {
                if held.started {
                    left.uncertain.push(sequence);
                } else {
                    left.untouched.push(held.parcel);
                }
            }
        }
        self.turns.clear();
        self.aborts.clear();
        self.attached = false;
        remains
    }

    /// Queues what can go now, each stream in its turn, until the output is full.
    pub(super) fn fill(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        let filled = self.fill_turns(connection);
        self.collect();
        filled
    }

    fn fill_turns(&mut self, connection: &mut Connection) -> Result<(), Reason> {
        self.links_before.retain(|links| !links.are_over());
        if self.reports.is_broken() {
            return Err(Reason::LinkLost);
        }
        self.hear_links();
        while let Some(stream) = self.aborts.front() {
            if !queued(connection.send(&Frame::Abort(*stream)))? {
                return Ok(());
            }
            self.aborts.pop_front();
        }
        for _ in 0..self.turns.len() {
            let Some(id) = self.turns.front() else { return Ok(()) };
            if let Some(stream) = self.streams.get_mut(id)
                && !stream.fill(*id, connection, self.links.as_ref())?
            {
                return Ok(());
            }
            self.turns.rotate_left(1);
        }
        Ok(())
    }

    /// The receiver answered. Streams that this side dropped are not known any more, which is no fault of the receiver.
    pub(super) fn on_frame(&mut self, frame: &Frame<'_>) -> Result<(), Reason> {
        self.hear_links();
        // A session of streams carries no pipe.
        let Subject::Stream(id) = frame.subject() else { return Err(Reason::FrameMalformed) };
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        match frame {
            Frame::Credit(credit) => stream.outbound().on_credit(*credit),
            Frame::Placed { sequence, .. } => {
                stream.outbound().on_placed(*sequence).map_err(|_| Reason::FrameMalformed)?;
            }
            Frame::Taken(taken) => stream.on_taken(taken, false)?,
            Frame::Lost(lost) => stream.on_taken(lost, true)?,
            Frame::Ended(_) => {
                stream.outbound().on_ended().map_err(|_| Reason::FrameMalformed)?;
                let lane = stream.key.lane;
                self.collect();
                self.outcomes.push_back((lane, Outcome::Ended));
                self.streams.remove(&id);
                self.turns.retain(|turn| *turn != id);
            }
            Frame::Open(_)
            | Frame::Tensor(_)
            | Frame::Striped(_)
            | Frame::Chunk(_)
            | Frame::End(_)
            | Frame::Abort(_)
            | Frame::PipeOpen(_)
            | Frame::PipeData { .. }
            | Frame::PipeCredit { .. }
            | Frame::PipeEnd { .. }
            | Frame::PipeReset { .. } => return Err(Reason::FrameMalformed),
        }
        self.collect();
        Ok(())
    }

    fn collect(&mut self) {
        for stream in self.streams.values_mut() {
            let (taken, lost) = stream.settled();
            if !taken.is_empty() {
                self.outcomes.push_back((stream.key.lane, Outcome::Taken(taken)));
            }
            if !lost.is_empty() {
                self.outcomes.push_back((stream.key.lane, Outcome::Lost(lost)));
            }
        }
    }

    fn stream(&mut self, key: StreamKey, incarnation: LaneIncarnation) -> Option<&mut Stream> {
        let known = self.streams.iter().find(|(_, stream)| stream.key == key).map(|(id, _)| *id);
        let id = match known {
            Some(id) => id,
            None if self.streams.len() >= STREAMS_MAX => return None,
            None => {
                let id = StreamId(self.next);
                self.next = self.next.wrapping_add(1);
                let mut stream = Stream::new(id, key, incarnation);
                if self.attached {
                    stream.attach();
                }
                self.streams.insert(id, stream);
                self.turns.push_back(id);
                id
            }
        };
        self.streams.get_mut(&id)
    }
}
