//! The receiving end of one direction of a pipe.

use super::PipeError;
use crate::limits::{PIPE_WINDOW_BYTES, PIPE_WINDOW_BYTES_MAX};

/// Counts what arrived against what was granted and what the application took.
///
/// ```text
/// 0 … taken … received … granted        received - taken: held, at most one window
/// ```
#[derive(Debug)]
pub struct PipeReceiver {
    window: u64,
    taken: u64,
    received: u64,
    granted: u64,
    ended: bool,
}

impl PipeReceiver {
    /// Begins with a window of [`PIPE_WINDOW_BYTES`], which the sender knows without a grant.
    #[must_use]
    pub const fn new() -> Self {
        Self { window: PIPE_WINDOW_BYTES, taken: 0, received: 0, granted: PIPE_WINDOW_BYTES, ended: false }
    }

    /// From now on up to `bytes` may lie here, at most [`PIPE_WINDOW_BYTES_MAX`]. A window never shrinks: what was
    /// granted cannot be taken back.
    pub fn widen(&mut self, bytes: u64) {
        self.window = self.window.max(bytes.min(PIPE_WINDOW_BYTES_MAX));
    }

    /// The next bytes arrived.
    ///
    /// # Errors
    /// [`PipeError::AfterEnd`] or [`PipeError::CreditExceeded`].
    pub fn on_data(&mut self, bytes: &[u8]) -> Result<(), PipeError> {
        if self.ended {
            return Err(PipeError::AfterEnd);
        }
        let received = u64::try_from(bytes.len()).ok().and_then(|length| self.received.checked_add(length));
        match received {
            Some(received) if received <= self.granted => {
                self.received = received;
                Ok(())
            }
            _ => Err(PipeError::CreditExceeded),
        }
    }

    /// The application took `bytes` of [`Self::held`].
    pub fn taken(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.held());
        self.taken = self.taken.saturating_add(bytes).min(self.received);
    }

    /// The grant to send now, if one is worth a frame: half a window has become free, or the window was widened
    /// by as much. A sender without credit is never forgotten, since all that it sent is taken at last.
    #[must_use]
    pub const fn credit_due(&self) -> Option<u64> {
        let through = self.taken.saturating_add(self.window);
        let worth = through.saturating_sub(self.granted) >= self.window / 2;
        if worth && !self.ended { Some(through) } else { None }
    }

    /// The grant of [`Self::credit_due`] was queued.
    pub fn credit_sent(&mut self, bytes_through: u64) {
        self.granted = self.granted.max(bytes_through);
    }

    /// # Errors
    /// [`PipeError::AfterEnd`] when it comes twice, [`PipeError::TotalDiffers`].
    pub const fn on_end(&mut self, bytes: u64) -> Result<(), PipeError> {
        if self.ended {
            return Err(PipeError::AfterEnd);
        }
        if bytes != self.received {
            return Err(PipeError::TotalDiffers);
        }
        self.ended = true;
        Ok(())
    }

    /// Bytes that arrived and were not taken.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.received.saturating_sub(self.taken)
    }

    /// Whether the end has arrived. Bytes may still wait to be taken.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether the end has arrived and everything before it was taken: the application may see the end.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.ended && self.held() == 0
    }
}

impl Default for PipeReceiver {
    fn default() -> Self {
        Self::new()
    }
}
