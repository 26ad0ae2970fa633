//! When a sender replaces its key.

use crate::limits::{PHASE_BYTES_MAX, PHASE_MICROS_MAX, PHASE_RECORDS_MAX};

/// Triggers of a key update, whichever comes first. Values above the protocol's own bounds are lowered to
/// them, and zero means the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rekey {
    bytes: u64,
    records: u64,
    micros: u64,
}

impl Rekey {
    #[must_use]
    pub const fn new(bytes: u64, records: u64, micros: u64) -> Self {
        const fn lowered(value: u64, bound: u64) -> u64 {
            if value == 0 || value > bound { bound } else { value }
        }
        Self {
            bytes: lowered(bytes, PHASE_BYTES_MAX),
            records: lowered(records, PHASE_RECORDS_MAX),
            micros: lowered(micros, PHASE_MICROS_MAX),
        }
    }

    /// How old a key of a sender that keeps to this may become at its receiver: twice the interval.
    pub(crate) const fn age_micros_max(&self) -> u64 {
        self.micros.saturating_mul(2)
    }

    /// Whether a phase that sealed `bytes` in `records` and is `micros` old is over.
    pub(crate) const fn due(&self, bytes: u64, records: u64, micros: u64) -> bool {
        bytes >= self.bytes || records >= self.records || micros >= self.micros
    }
}

impl Default for Rekey {
    fn default() -> Self {
        Self::new(0, 0, 0)
    }
}
