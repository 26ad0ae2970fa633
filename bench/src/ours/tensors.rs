//! Frames to messages.

use sealane_protocol::connection::{BulkError, BulkOpened, BulkRecord, Sink};
use sealane_protocol::frame::{Frame, Sequence, TensorHeader};
use sealane_types::Reason;

use crate::message::Inbox;

/// The tensor that is arriving. It outlives single reads.
#[derive(Debug, Default)]
pub(super) struct Tensors {
    total: u64,
    arrived: u64,
}

/// Puts what arrives into an inbox.
pub(super) struct IntoInbox<'a> {
    tensors: &'a mut Tensors,
    inbox: &'a mut Inbox,
}

impl Tensors {
    pub(super) const fn filling<'a>(&'a mut self, inbox: &'a mut Inbox) -> IntoInbox<'a> {
        IntoInbox { tensors: self, inbox }
    }
}

impl Sink for IntoInbox<'_> {
    fn on_frame(&mut self, frame: Frame<'_>) -> Result<(), Reason> {
        match frame {
            Frame::Tensor(header) => self.announce(&header),
            Frame::Chunk(chunk) => {
                let offset = self.next(chunk.sequence, chunk.offset);
                self.inbox.put(offset, chunk.bytes);
                self.arrived(chunk.bytes.len());
            }
            _ => self.inbox.report(|| "a frame that nobody sent".to_owned()),
        }
        Ok(())
    }

    fn on_bulk(&mut self, record: BulkRecord<'_>) -> Result<BulkOpened, BulkError> {
        let range = record.range();
        let offset = self.next(range.sequence, range.offset);
        let place = self.inbox.space(offset).get_mut(..range.length).ok_or(Reason::LimitExceeded)?;
        let opened = record.open_into(place.into())?;
        self.arrived(range.length);
        Ok(opened)
    }
}

impl IntoInbox<'_> {
    fn announce(&mut self, header: &TensorHeader<'_>) {
        if header.sequence.0 != self.inbox.count() {
            self.inbox.report(|| "a tensor is out of order".to_owned());
        }
        *self.tensors = Tensors { total: header.length, arrived: 0 };
    }

    /// Bytes of this tensor from `offset` on come next; yields where they go.
    fn next(&mut self, sequence: Sequence, offset: u64) -> usize {
        if sequence.0 != self.inbox.count() || offset != self.tensors.arrived {
            self.inbox.report(|| "bytes of a tensor are out of order".to_owned());
        }
        usize::try_from(offset).unwrap_or(usize::MAX)
    }

    fn arrived(&mut self, bytes: usize) {
        self.tensors.arrived += bytes as u64;
        if self.tensors.arrived == self.tensors.total {
            self.inbox.finish();
        }
    }
}
