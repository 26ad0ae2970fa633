//! How much one key was used, and for how long.

use crate::Moment;

/// Use of one key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) since: Moment,
}

impl Usage {
    pub(super) const fn begin(since: Moment) -> Self {
        Self { bytes: 0, packets: 0, since }
    }

    pub(super) fn count(&mut self, bytes: usize) {
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}
