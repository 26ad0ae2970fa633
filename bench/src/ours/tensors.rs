//! Frames to messages.

use sealane_protocol::connection::Sink;
use sealane_protocol::frame::{Chunk, Frame, TensorHeader};
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
            Frame::Chunk(chunk) => self.fill(&chunk),
            _ => self.inbox.report(|| "a frame that nobody sent".to_owned()),
        }
        Ok(())
    }
}

impl IntoInbox<'_> {
    fn announce(&mut self, header: &TensorHeader<'_>) {
        if header.sequence.0 != self.inbox.count() {
            self.inbox.report(|| "a tensor is out of order".to_owned());
        }
        *self.tensors = Tensors { total: header.length, arrived: 0 };
    }

    fn fill(&mut self, chunk: &Chunk<'_>) {
        if chunk.sequence.0 != self.inbox.count() || chunk.offset != self.tensors.arrived {
            self.inbox.report(|| "a chunk is out of order".to_owned());
        }
        let offset = usize::try_from(chunk.offset).unwrap_or(usize::MAX);
        self.inbox.put(offset, chunk.bytes);
        self.tensors.arrived += chunk.bytes.len() as u64;
        if self.tensors.arrived == self.tensors.total {
            self.inbox.finish();
        }
    }
}
