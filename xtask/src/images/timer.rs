//! What a step made, how large it is and how long it took.

use std::{fmt, time::Instant};

use crate::progress::note;

/// Measures one step.
pub(super) struct Timer(Instant);

impl Timer {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn done(self, what: impl fmt::Display, bytes: u64) {
        note(&format!(
            "images: {what}: {:.1} MB in {:.1} s",
            bytes as f64 / 1e6,
            self.0.elapsed().as_secs_f64()
        ));
    }
}
