//! The sending end of one direction of a pipe.

use super::PipeError;
use crate::limits::{PIPE_WINDOW_BYTES, PIPE_WINDOW_BYTES_MAX};

/// Counts what was sent against what may be sent.
#[derive(Debug)]
pub struct PipeSender {
    bytes_through: u64,
    sent: u64,
    ended: bool,
}

impl PipeSender {
    /// Begins with the first window, which needs no grant.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes_through: PIPE_WINDOW_BYTES, sent: 0, ended: false }
    }

    /// How many bytes may be sent now; none after the end.
    #[must_use]
    pub const fn room(&self) -> u64 {
        if self.ended { 0 } else { self.bytes_through.saturating_sub(self.sent) }
    }

    /// `bytes` were queued, at most [`Self::room`].
    pub const fn sent(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.room());
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Bytes sent so far: what [`Frame::PipeEnd`](crate::frame::Frame::PipeEnd) says when it goes out now.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.sent
    }

    /// The end was queued: nothing more goes out in this direction.
    pub const fn end_sent(&mut self) {
        self.ended = true;
    }

    /// Whether the end was queued.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Grants may arrive after the end: the receiver did not know of it yet.
    ///
    /// # Errors
    /// [`PipeError::CreditShrunk`], or [`PipeError::CreditTooLarge`] for what no honest receiver holds ready.
    pub const fn on_credit(&mut self, bytes_through: u64) -> Result<(), PipeError> {
        if bytes_through < self.bytes_through {
            return Err(PipeError::CreditShrunk);
        }
        if bytes_through > self.sent.saturating_add(PIPE_WINDOW_BYTES_MAX) {
            return Err(PipeError::CreditTooLarge);
        }
        self.bytes_through = bytes_through;
        Ok(())
    }
}

impl Default for PipeSender {
    fn default() -> Self {
        Self::new()
    }
}
