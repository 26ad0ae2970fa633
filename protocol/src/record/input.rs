//! The private buffer in which records are opened.

use crate::limits::{OUTPUT_BATCH_BYTES, RECORD_WIRE_BYTES_MAX};

/// Bytes from the carrier, contiguous, with room behind them. Larger than a record, so that a batch is read by
/// one system call and the beginning of a record that is still incomplete moves rarely.
#[derive(Debug)]
pub struct InputBuffer {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl InputBuffer {
    #[must_use]
    pub fn new() -> Self {
        Self { buffer: vec![0; OUTPUT_BATCH_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    /// Where the carrier reads into: never empty when everything that can be consumed was consumed.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len().saturating_sub(self.end) < RECORD_WIRE_BYTES_MAX {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end = self.end.saturating_sub(self.start);
            self.start = 0;
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// The carrier put `bytes` into [`Self::space`].
    pub fn filled(&mut self, bytes: usize) {
        self.end = self.end.saturating_add(bytes).min(self.buffer.len());
    }

    /// What has arrived and was not consumed, for
    /// [`Connection::handle_input`](crate::connection::Connection::handle_input).
    pub fn unread(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.start..self.end).unwrap_or_default()
    }

    /// The connection consumed `bytes` of [`Self::unread`].
    pub fn consumed(&mut self, bytes: usize) {
        self.start = self.start.saturating_add(bytes).min(self.end);
    }
}

impl Default for InputBuffer {
    fn default() -> Self {
        Self::new()
    }
}
