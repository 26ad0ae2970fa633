//! The sending end of a further link.

use crate::Moment;
use crate::connection::{SendError, keyed};
use crate::frame::{ByteRange, Sequence, StreamId, encode};
use crate::keys::LinkSecret;
use crate::record::{Level, LevelSealer, Output, Plaintext, Rekey};

/// Seals bytes of tensors and nothing else. The shell moves them as it moves those of a connection.
#[derive(Debug)]
pub struct LinkSender {
    sealer: LevelSealer,
    output: Output,
}

impl LinkSender {
    pub(super) fn new(secret: LinkSecret, rekey: Rekey, now: Moment) -> Self {
        Self { sealer: LevelSealer::new(Level::Records, secret, rekey, now), output: Output::default() }
    }

    /// Queues bytes of a tensor that [`Frame::Striped`](crate::frame::Frame::Striped) announced and that has a place, from
    /// `offset` on, as many as there is room for. Returns how many.
    ///
    /// # Errors
    /// [`SendError::NoRoom`] until the output is drained.
    pub fn send_bytes<'b>(
        &mut self,
        now: Moment,
        stream: StreamId,
        sequence: Sequence,
        offset: u64,
        bytes: impl Into<Plaintext<'b>>,
    ) -> Result<usize, SendError> {
        let write = |length, space: &mut [u8]| encode(ByteRange { stream, sequence, offset, length }, space);
        self.output.put_bulk(&mut self.sealer, now, bytes.into(), write).map_err(keyed::refused)
    }

    /// Sealed bytes for the carrier; empty when there are none.
    pub fn poll_output(&mut self) -> &[u8] {
        // Every record was sealed as it was queued, so that nothing fails here.
        self.output.poll(Some(&mut self.sealer)).unwrap_or_default()
    }

    /// The carrier took the first `bytes` of [`Self::poll_output`].
    pub fn output_written(&mut self, bytes: usize) {
        self.output.written(bytes);
    }

    /// Gives back memory that an idle link has no use for.
    pub fn release_memory(&mut self) {
        self.output.release();
    }
}
