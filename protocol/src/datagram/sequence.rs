//! What the two sides of a connection say, each as one sequence of bytes: what is on its way out, and what comes in.

use std::ops::Range;

use super::incoming::Incoming;
use super::outgoing::Outgoing;
use crate::Moment;
use crate::connection::{Connection, Fail, Sink};
use crate::limits::{STREAM_WINDOW_BYTES, STREAM_WINDOW_BYTES_MIN};
use crate::record::{InputBuffer, PacketProof};
use crate::size::wide;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Sequence {
    outgoing: Outgoing,
    incoming: Incoming,
    /// Bytes in order that do not make a record yet.
    input: InputBuffer,
    /// Bytes that the remote has room for, from the beginning.
    through: u64,
    /// What the remote was last told to have room for.
    told: u64,
}

impl Sequence {
    pub(super) fn new() -> Self {
        Self {
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            input: InputBuffer::new(),
            through: STREAM_WINDOW_BYTES_MIN,
            told: STREAM_WINDOW_BYTES_MIN,
        }
    }

    /// What was sent and may have to be sent again.
    pub(super) const fn outgoing(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }

    /// The remote has room through so many bytes.
    pub(super) fn on_room(&mut self, through: u64) {
        self.through = self.through.max(through);
    }

    /// Through how many bytes this side has room, as the remote is told now.
    pub(super) fn tell_room(&mut self, established: bool) -> u64 {
        if established {
            self.input.widen();
        }
        let window = if established { STREAM_WINDOW_BYTES } else { STREAM_WINDOW_BYTES_MIN };
        self.told = self.told.max(self.incoming.next().saturating_add(window));
        self.told
    }

    /// Gets bytes of the connection, when there are not enough for a packet.
    pub(super) fn fetch(&mut self, connection: &mut Connection, now: Moment, room: u64) {
        while self.outgoing.unsent() < room && !self.is_starved() {
            let kept = self.outgoing.kept();
            let length = connection.poll_bytes(now).len();
            if length == 0 {
                return;
            }
            match connection.take_output(|| kept.spare()) {
                Some(bytes) => kept.put_whole(bytes),
                None => {
                    kept.put(connection.poll_bytes(now));
                    connection.output_written(length);
                }
            }
        }
    }

    /// Whether bytes wait for the remote to have room.
    pub(super) fn is_starved(&self) -> bool {
        self.outgoing.unsent() > 0 && self.next(1).is_none()
    }

    /// The next bytes that may leave, `length_max` at most.
    pub(super) fn next(&self, length_max: u64) -> Option<Range<u64>> {
        self.outgoing.next(length_max, self.through)
    }

    /// Copies bytes that leave to where they are sealed.
    pub(super) fn take(&mut self, range: &Range<u64>, into: &mut [u8]) {
        self.outgoing.copy(range.start, into);
        self.outgoing.on_sent(range);
    }

    /// Whether all that was said has arrived.
    pub(super) fn has_arrived(&self) -> bool {
        self.outgoing.is_settled()
    }

    /// Bytes of the sequence: those that are next go to the connection, others wait. Whether there was room for them.
    pub(super) fn on_bytes(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        (offset, bytes): (u64, &[u8]),
        proof: &PacketProof,
        sink: &mut dyn Sink,
    ) -> Result<bool, Fail> {
        if offset.saturating_add(wide(bytes.len())) > self.told {
            return Err(Fail::Limit("bytes of a connection"));
        }
        if connection.is_closed() {
            return Ok(true);
        }
        if offset == self.incoming.next() && !self.incoming.has_gaps() {
            self.hand_on(connection, now, bytes, proof, sink)?;
            self.incoming.advance(bytes.len());
            return Ok(true);
        }
        if self.incoming.keep(offset, bytes).is_err() {
            return Ok(false);
        }
        let mut incoming = std::mem::take(&mut self.incoming);
        let mut handed = Ok(());
        while !incoming.ready().is_empty() && handed.is_ok() {
            let ready = incoming.ready();
            handed = self.hand_on(connection, now, ready, proof, sink);
            let length = ready.len();
            incoming.advance(length);
        }
        self.incoming = incoming;
        handed.map(|()| true)
    }

    fn hand_on(
        &mut self,
        connection: &mut Connection,
        now: Moment,
        mut bytes: &[u8],
        proof: &PacketProof,
        sink: &mut dyn Sink,
    ) -> Result<(), Fail> {
        while !bytes.is_empty() {
            let space = self.input.space();
            let (here, rest) = bytes.split_at(bytes.len().min(space.len()));
            space.get_mut(..here.len()).unwrap_or_default().copy_from_slice(here);
            self.input.filled(here.len());
            let used = connection.handle_opened(now, self.input.unread(), proof, sink)?;
            self.input.consumed(used);
            bytes = rest;
            if connection.is_closed() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Gives memory back that nothing is kept in.
    pub(super) fn release(&mut self) {
        self.outgoing.release();
        self.input.release();
    }
}
