//! How many policies are taken at one time from remotes that have proved nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places for policies that unverified remotes hand over, megabytes each. Clones share them, so that a process with
/// thousands of connections has one bound. A connection takes a place when it begins to wait for such a policy, is
/// over if there is none, and gives it back when the policy was adopted or the connection ends.
#[derive(Debug, Clone)]
pub struct Places(Arc<AtomicUsize>);

impl Places {
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(count)))
    }

    pub(super) fn take(&self) -> Option<Place> {
        let less = |free: usize| free.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(Place(self.clone()))
    }
}

/// One of the places; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place(Places);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}
