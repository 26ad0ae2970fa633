//! A tensor between its announcement and its last byte.

use std::io;
use std::sync::Arc;

use sealane_arena::VolatileSlice;
use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord};
use sealane_protocol::frame::ByteRange;
use sealane_types::Reason;

use super::announced::AnnouncedRoom;
use super::hub::ReceiverId;
use crate::handoff::{SlotId, TakeArena, TensorHeader};

/// A slot in a receiving client's memory; given back when dropped, unless it was delivered.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) receiver: ReceiverId,
    arena: Arc<dyn TakeArena>,
    slot: Option<SlotId>,
}

impl Place {
    pub(super) fn new(receiver: ReceiverId, arena: Arc<dyn TakeArena>, slot: SlotId) -> Self {
        Self { receiver, arena, slot: Some(slot) }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.slot.map_or(Ok(()), |slot| self.arena.write_at(slot, offset, bytes))
    }

    /// As [`TakeArena::with_bytes`].
    fn with_bytes(&self, range: ByteRange, write: &mut dyn FnMut(VolatileSlice<'_>)) -> io::Result<()> {
        let slot = self.slot.ok_or(io::ErrorKind::InvalidInput)?;
        self.arena.with_bytes(slot, range.offset, range.length, write)
    }

    /// Opens a record of bytes into it; whether the client's memory was there for them. They are opened all the same if it
    /// was not.
    pub(super) fn open(&self, record: BulkRecord<'_>) -> Result<(BulkOpened, io::Result<()>), BulkError> {
        let (range, mut unopened, mut opened) = (record.range(), Some(record), None);
        let given = self.with_bytes(range, &mut |bytes| {
            opened = unopened.take().map(|record| record.open_into(bytes));
        });
        let opened = match (unopened, opened) {
            (Some(record), _) => record.open()?.1,
            (None, Some(opened)) => opened?,
            (None, None) => return Err(BulkError::Refused(Reason::Internal)),
        };
        Ok((opened, given))
    }

    /// The slot is the client's from now on.
    pub(super) fn into_slot(mut self) -> Option<SlotId> {
        self.slot.take()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.arena.release(slot);
        }
    }
}

/// What has arrived of one tensor.
#[derive(Debug)]
pub(super) struct Arriving {
    /// Tells this arrival from an earlier one of the same tensor.
    pub(super) number: u64,
    pub(super) header: TensorHeader,
    pub(super) length: u64,
    /// A further link that opens bytes into it has it as well, so that it goes to nobody else meanwhile.
    pub(super) place: Option<Arc<Place>>,
    /// Bytes that came before there was a place, from offset 0. The credit bounds them.
    staged: Vec<u8>,
    pub(super) whole: bool,
    /// It is not to be delivered: no client can hold it, or its bytes could not be written.
    pub(super) broken: bool,
    /// Of the session's memory for what was announced.
    _room: AnnouncedRoom,
}

impl Arriving {
    pub(super) fn new(number: u64, header: TensorHeader, length: u64, room: AnnouncedRoom) -> Self {
        Self {
            number,
            header,
            length,
            place: None,
            staged: Vec::new(),
            whole: length == 0,
            broken: false,
            _room: room,
        }
    }

    /// Puts bytes where they belong, or aside while there is no place. Those of a broken tensor are dropped.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let written = match &self.place {
            _ if self.broken => Ok(()),
            Some(place) => place.write(offset, bytes),
            None => {
                debug_assert_eq!(offset, self.staged.len() as u64, "chunks come in order");
                self.staged.extend_from_slice(bytes);
                Ok(())
            }
        };
        self.note(written);
    }

    /// Opens a record of its bytes: into their place, or else where it lies, and they go on as if they were a chunk.
    pub(super) fn open(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        if let Some(place) = self.usable_place() {
            let (opened, given) = place.open(record)?;
            self.note(given);
            return Ok(opened);
        }
        let (chunk, opened) = record.open()?;
        self.write(chunk.offset, chunk.bytes);
        Ok(opened)
    }

    /// Its place, unless it is not to be delivered.
    pub(super) fn usable_place(&self) -> Option<Arc<Place>> {
        self.place.clone().filter(|_| !self.broken)
    }

    /// Gives it a place, and moves there what was put aside.
    pub(super) fn settle(&mut self, place: Place) {
        let written = if self.staged.is_empty() { Ok(()) } else { place.write(0, &self.staged) };
        self.staged = Vec::new();
        self.place = Some(Arc::new(place));
        self.note(written);
    }

    /// There will never be a place for it.
    pub(super) fn discard(&mut self) {
        self.staged = Vec::new();
        self.broken = true;
    }

    /// Bytes that lie here without a place.
    pub(super) fn staged(&self) -> u64 {
        self.staged.len() as u64
    }

    pub(super) fn wants_place(&self) -> bool {
        self.place.is_none() && !self.broken
    }

    /// Whether its turn to be delivered, or told as lost, can come.
    pub(super) fn is_ready(&self) -> bool {
        self.whole && !self.wants_place()
    }

    pub(super) fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::error!(%error, "a client's memory cannot be written");
            self.broken = true;
        }
    }
}
