//! How the end that sends tells the other one that there is no more.

use std::sync::atomic::{AtomicBool, Ordering};

/// Says so when it is dropped: also where its end fails.
pub(super) struct Done<'a>(pub(super) &'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
