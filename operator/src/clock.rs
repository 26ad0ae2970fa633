//! The one place that reads the wall clock for decisions; everything else is told what time it is.

use std::time::{SystemTime, UNIX_EPOCH};

use sealane_types::UnixSeconds;

/// Now, or the epoch on a machine whose clock is before it: then nothing is in force, which fails closed.
#[must_use]
pub fn now() -> UnixSeconds {
    UnixSeconds(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}
