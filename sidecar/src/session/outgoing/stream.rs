//! One lane's tensors on their way to one receiving process. No locks, no tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealane_protocol::connection::{Connection, SendError};
use sealane_protocol::frame::Sequence as WireSequence;
use sealane_protocol::frame::{Frame, Incarnation, Open, Shape, StreamId, Taken, TensorHeader};
use sealane_protocol::limits::BULK_BYTES_MAX;
use sealane_protocol::transfer::{Outbound, Step};
use sealane_types::Reason;

use super::lease::{Lease, lease};
use super::links::{Links, Stripe};
use super::unsent::Unsent;
use crate::handoff::{LaneIncarnation, Parcel, Sequence};

/// Identifies a stream across connections: a lane, and how many times tensors of it had to find another replica before.
/// Sequence numbers grow within each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamKey {
    pub(super) lane: StreamId,
    pub(super) generation: u8,
}

/// A parcel, and how much of it the link still has to take on the current connection.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) parcel: Parcel,
    /// Whether any of it may have reached the receiver, on any connection.
    pub(super) started: bool,
    /// None: the link took all of it.
    left: Option<u64>,
    /// Of a further link that was given it on the current connection.
    lease: Option<Lease>,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) key: StreamKey,
    pub(super) parcels: BTreeMap<Sequence, Held>,
    pub(super) unsent: Unsent,
    /// All of them, with their whole length.
    pub(super) untaken: Unsent,
    outbound: Outbound,
    /// The receiver said that these are lost; their fate is settled with the others.
    lost: BTreeSet<Sequence>,
    /// Still to be sent on the current connection.
    open: Option<Open>,
    /// Its end was asked for, and a lane waits for it to be confirmed.
    pub(super) ending: bool,
}

impl Stream {
    pub(super) fn new(id: StreamId, key: StreamKey, incarnation: LaneIncarnation) -> Self {
        let outbound = Outbound::new(id, Incarnation(derived(incarnation, key.generation).0));
        Self {
            key,
            parcels: BTreeMap::new(),
            unsent: Unsent::default(),
            untaken: Unsent::default(),
            outbound,
            lost: BTreeSet::new(),
            open: None,
            ending: false,
        }
    }

    pub(super) fn push(&mut self, parcel: Parcel, started: bool) -> Result<(), Parcel> {
        if self
            .outbound
            .push(WireSequence(parcel.sequence.0), parcel.header.tensors(), parcel.length)
            .is_err()
        {
            return Err(parcel);
        }
        self.unsent.add(parcel.length);
        self.untaken.add(parcel.length);
        let left = Some(parcel.length);
        self.parcels.insert(parcel.sequence, Held { parcel, started, left, lease: None });
        Ok(())
    }

    pub(super) fn finish(&mut self) {
        self.outbound.finish();
        self.ending = true;
    }

    pub(super) fn attach(&mut self) {
        self.open = Some(self.outbound.attach());
        self.unsent = Unsent::default();
        for held in self.parcels.values_mut() {
            held.left = Some(held.parcel.length);
            held.lease = None;
            self.unsent.add(held.parcel.length);
        }
    }

    /// No further link reads a tensor of it any more.
    pub(super) fn end_leases(&mut self) {
        self.parcels.values_mut().for_each(|held| held.lease = None);
    }

    pub(super) fn detach(&mut self) {
        self.outbound.detach();
        self.open = None;
    }

    /// Whether the receiver knows of this stream on the current connection.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_none()
    }

    pub(super) fn outbound(&mut self) -> &mut Outbound {
        &mut self.outbound
    }

    /// The receiver is done with these; `lost`: its application is gone, and nobody knows whether it took them.
    pub(super) fn on_taken(&mut self, taken: &Taken<'_>, lost: bool) -> Result<(), Reason> {
        if lost {
            self.lost.extend(taken.sequences.iter().map(|sequence| Sequence(sequence.0)));
        }
        self.outbound.on_taken(taken).map_err(|_| Reason::FrameMalformed)
    }

    /// Tensors whose memory is free now: taken ones, and lost ones.
    pub(super) fn settled(&mut self) -> (Vec<Sequence>, Vec<Sequence>) {
        let (mut taken, mut lost) = (Vec::new(), Vec::new());
        while let Some(sequence) = self.outbound.poll_settled() {
            let sequence = Sequence(sequence.0);
            if let Some(Held { left, parcel, .. }) = self.parcels.remove(&sequence) {
                self.untaken.remove(parcel.length);
                // Taken on an earlier connection, and not sent again yet.
                left.into_iter().for_each(|left| self.unsent.remove(left));
            }
            if self.lost.remove(&sequence) { lost.push(sequence) } else { taken.push(sequence) }
        }
        (taken, lost)
    }

    /// Queues what can go. False when the output is full.
    pub(super) fn fill(
        &mut self,
        id: StreamId,
        connection: &mut Connection,
        links: Option<&Links>,
    ) -> Result<bool, Reason> {
        if let Some(open) = self.open {
            if !queued(connection.send(&Frame::Open(open)))? {
                return Ok(false);
            }
            self.open = None;
        }
        while let Some(sequence) = self.outbound.next_stripe() {
            if !self.give(id, sequence, links)? {
                break;
            }
        }
        while let Some(step) = self.outbound.next_step() {
            let room = match step {
                Step::Announce { sequence } => self.announce(id, sequence, connection, links)?,
                Step::Data { sequence, offset, length_max } => {
                    self.send(id, sequence, offset, length_max, connection)?
                }
                Step::End(end) => {
                    let room = queued(connection.send(&Frame::End(end)))?;
                    if room {
                        self.outbound.end_sent();
                    }
                    room
                }
            };
            if !room {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives the bytes of a tensor to a further link. False when all of them have enough.
    fn give(
        &mut self,
        stream: StreamId,
        sequence: WireSequence,
        links: Option<&Links>,
    ) -> Result<bool, Reason> {
        let held = self.parcels.get_mut(&Sequence(sequence.0)).ok_or(Reason::Internal)?;
        let Parcel { source, offset: start, length, .. } = &held.parcel;
        let (source, start, length) = (Arc::clone(source), *start, *length);
        // Those that it was announced for may have been of before a renewal.
        let links = links.filter(|links| !links.have_failed()).ok_or(Reason::LinkLost)?;
        let (lease, reader) = lease();
        if links.give(Stripe { stream, sequence, source, start, length, reader }).is_err() {
            return Ok(false);
        }
        (held.left, held.lease) = (None, Some(lease));
        self.unsent.shrink(length, true);
        self.outbound.stripe_given();
        Ok(true)
    }

    fn announce(
        &mut self,
        stream: StreamId,
        sequence: WireSequence,
        connection: &mut Connection,
        links: Option<&Links>,
    ) -> Result<bool, Reason> {
        let held = self.parcels.get_mut(&Sequence(sequence.0)).ok_or(Reason::Internal)?;
        let header = &held.parcel.header;
        let shape = Shape::new(&header.shape).map_err(|_| Reason::LimitExceeded)?;
        let header = TensorHeader {
            stream,
            sequence,
            dtype: header.dtype,
            shape,
            run: header.run,
            name: &header.name,
            length: held.parcel.length,
        };
        let is_striped = !header.run && links.is_some_and(|links| links.want(header.length));
        let frame = if is_striped { Frame::Striped(header) } else { Frame::Tensor(header) };
        if !queued(connection.send(&frame))? {
            return Ok(false);
        }
        held.started = true;
        if is_striped {
            self.outbound.striped();
            return Ok(true);
        }
        if held.parcel.length == 0 {
            held.left = None;
            self.unsent.remove(0);
        }
        self.outbound.announced();
        Ok(true)
    }

    fn send(
        &mut self,
        stream: StreamId,
        sequence: WireSequence,
        offset: u64,
        length_max: u64,
        connection: &mut Connection,
    ) -> Result<bool, Reason> {
        let held = self.parcels.get_mut(&Sequence(sequence.0)).ok_or(Reason::Internal)?;
        let Parcel { source, offset: start, length, .. } = &held.parcel;
        let most = usize::try_from(length_max).unwrap_or(usize::MAX).min(BULK_BYTES_MAX);
        let bytes = source.bytes(start.saturating_add(offset), most).map_err(|error| {
            tracing::error!(%error, "a client's memory cannot be read");
            Reason::MemoryUnusable
        })?;
        match connection.send_bytes(stream, sequence, offset, bytes) {
            Ok(sent) => {
                let sent = sent as u64;
                let left = length.saturating_sub(offset.saturating_add(sent));
                held.left = (left > 0).then_some(left);
                self.unsent.shrink(sent, left == 0);
                self.outbound.sent(sent);
                Ok(true)
            }
            Err(SendError::NoRoom) => Ok(false),
            Err(SendError::Misuse(misuse)) => {
                tracing::error!(%misuse, "bytes of a tensor were not accepted");
                Err(Reason::Internal)
            }
        }
    }
}

/// Tensors that had to find another replica travel in a stream of their own, since their numbers are lower than those
/// that the other replica has seen; it is known by an incarnation of its own.
fn derived(incarnation: LaneIncarnation, generation: u8) -> LaneIncarnation {
    if generation == 0 {
        return incarnation;
    }
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    hash.update(b"sealane/1 redirected");
    hash.update(&incarnation.0);
    hash.update(&[generation]);
    let digest = hash.finish();
    let mut derived = [0; 16];
    derived.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    LaneIncarnation(derived)
}

/// Whether a frame was queued; false when the output is full.
pub(super) fn queued(sent: Result<(), SendError>) -> Result<bool, Reason> {
    match sent {
        Ok(()) => Ok(true),
        Err(SendError::NoRoom) => Ok(false),
        Err(SendError::Misuse(misuse)) => {
            tracing::error!(%misuse, "a frame was not accepted");
            Err(Reason::Internal)
        }
    }
}
