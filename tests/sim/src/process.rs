//! The two processes: what a sidecar keeps while connections come and go.

use std::collections::{BTreeMap, BTreeSet};

use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord, Connection, Sink};
use sealane_protocol::frame::{Frame, Sequence, StreamId, Subject};
use sealane_support::endpoint::{Receiver, Sender};
use sealane_types::Reason;

/// The side with tensors.
#[derive(Default)]
pub(crate) struct Sending {
    pub(crate) streams: BTreeMap<StreamId, Sender>,
    /// Those that the connection knows of.
    attached: BTreeSet<StreamId>,
    /// Of dead applications, with their abort still to be said.
    aborting: BTreeSet<StreamId>,
}

impl Sending {
    pub(crate) fn detach(&mut self) {
        self.attached.clear();
        self.aborting.clear();
        self.streams.values_mut().for_each(|sender| sender.outbound.detach());
    }

    pub(crate) fn stream(&mut self, id: StreamId) -> &mut Sender {
        self.streams.entry(id).or_insert_with(|| Sender::new(id))
    }

    pub(crate) fn abort(&mut self, id: StreamId) {
        self.streams.remove(&id);
        if self.attached.remove(&id) {
            self.aborting.insert(id);
        }
    }

    /// Puts on the connection what it has room for.
    pub(crate) fn pump(&mut self, connection: &mut Connection) {
        while let Some(id) = self.aborting.first().copied() {
            if connection.send(&Frame::Abort(id)).is_err() {
                return;
            }
            self.aborting.remove(&id);
        }
        for (id, sender) in &mut self.streams {
            if !self.attached.contains(id) {
                let open = sender.outbound.attach();
                if connection.send(&Frame::Open(open)).is_err() {
                    sender.outbound.detach();
                    return;
                }
                self.attached.insert(*id);
            }
            sender.pump(connection);
        }
    }
}

impl Sink for Sending {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        let Subject::Stream(id) = frame.subject() else { return Err(Reason::FrameMalformed) };
        match self.streams.get_mut(&id) {
            Some(sender) => sender.on_frame(frame),
            // News about a stream that was aborted here.
            None => Ok(()),
        }
    }
}

/// The side with applications that take.
pub(crate) struct Receiving {
    pub(crate) streams: BTreeMap<StreamId, Receiver>,
    pub(crate) aborted: BTreeSet<StreamId>,
    arena: usize,
    staging: u64,
}

impl Receiving {
    pub(crate) const fn new(arena: usize, staging: u64) -> Self {
        Self { streams: BTreeMap::new(), aborted: BTreeSet::new(), arena, staging }
    }

    pub(crate) fn detach(&mut self) {
        self.streams.values_mut().for_each(Receiver::cut);
    }

    pub(crate) fn pump(&mut self, connection: &mut Connection) {
        for (id, receiver) in &mut self.streams {
            receiver.pump(connection, *id);
        }
    }

    /// What applications took since the last time, with the stream it came from.
    pub(crate) fn delivered(&mut self) -> Vec<(StreamId, Sequence, Vec<u8>)> {
        let taken = |(id, receiver): (&StreamId, &mut Receiver)| {
            let id = *id;
            std::mem::take(&mut receiver.delivered)
                .into_iter()
                .map(move |(sequence, bytes)| (id, sequence, bytes))
        };
        self.streams.iter_mut().flat_map(taken).collect()
    }

    pub(crate) const fn arena(&self) -> usize {
        self.arena
    }

    pub(crate) const fn staging(&self) -> u64 {
        self.staging
    }
}

impl Sink for Receiving {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        let Subject::Stream(id) = frame.subject() else { return Err(Reason::FrameMalformed) };
        match frame {
            Frame::Open(_) => {
                let (arena, staging) = (self.arena, self.staging);
                self.streams.entry(id).or_insert_with(|| Receiver::new(arena, staging)).on_frame(frame)
            }
            Frame::Abort(_) => {
                let receiver = self.streams.get_mut(&id).ok_or(Reason::FrameMalformed)?;
                receiver.cut();
                self.aborted.insert(id);
                Ok(())
            }
            frame => self.streams.get_mut(&id).ok_or(Reason::FrameMalformed)?.on_frame(frame),
        }
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let receiver = self.streams.get_mut(&record.range().stream).ok_or(Reason::FrameMalformed)?;
        receiver.on_bulk(record)
    }
}
