//! Memory files that the sidecar creates and shares with one client.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use sealane_arena::{Plaintext, SharedMemory, VolatileSlice};

use super::budget::Grant;
use super::limits::SEGMENT_STEP_BYTES;
use crate::handoff::TensorSource;

/// Numbers the segments of one client.
#[derive(Debug, Default)]
pub(super) struct SegmentIds(AtomicU32);

impl SegmentIds {
    /// The next number, from 1; None when a client has used them all up.
    pub(super) fn next(&self) -> Option<u32> {
        let step = |last: u32| last.checked_add(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok().and_then(step)
    }
}

/// One memory file, which costs what was granted for it.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: u32,
    pub(super) bytes: u64,
    memory: SharedMemory,
    /// Given back after the pages are.
    grant: Grant,
}

/// `bytes` rounded up to a size that a segment can have.
pub(super) fn rounded(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(SEGMENT_STEP_BYTES)
}

impl Segment {
    /// Takes milliseconds per 16 MiB: not for an asynchronous thread.
    pub(super) fn create(id: u32, bytes: u64, grant: Grant) -> io::Result<Self> {
        Ok(Self { id, bytes, memory: SharedMemory::create(bytes)?, grant })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.memory.descriptor()
    }

    /// `length` bytes from `offset` on, to be written.
    pub(super) fn place(&self, offset: u64, length: usize) -> io::Result<VolatileSlice<'_>> {
        self.memory.slice(offset, length)
    }

    /// Writes all of `bytes` at `offset`.
    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_at(offset, bytes)
    }
}

impl TensorSource for Segment {
    fn bytes(&self, offset: u64, length: usize) -> io::Result<Plaintext<'_>> {
        self.memory.slice(offset, length).map(Plaintext::from)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.grant.has_ended() {
            // What the clients view and put again is all that is left of it; this process needs no pages any more.
            return;
        }
        // A client may keep its mapping. Without this the pages would stay charged to the sidecar, and clients could
        // make it exceed its limit by keeping many; now those that they touch again are their own.
        if let Err(error) = self.memory.discard() {
            tracing::warn!(%error, "cannot give back the pages of a segment");
        }
    }
}

/// What tensors without bytes lie in.
#[derive(Debug)]
pub(super) struct Nothing;

impl TensorSource for Nothing {
    fn bytes(&self, _: u64, length: usize) -> io::Result<Plaintext<'_>> {
        if length == 0 { Ok([][..].into()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::{Budget, Side};
    use super::*;
    use crate::metrics::Door as Metrics;

    #[test]
    fn pages_go_back_although_a_client_keeps_the_file() {
        let budget = Budget::new(1 << 20, Metrics::default());
        let segment = Segment::create(1, 65_536, budget.grant(Side::Put, 65_536).unwrap()).unwrap();
        let kept = segment.descriptor().try_clone_to_owned().unwrap();
        assert_ne!(rustix::fs::fstat(&kept).unwrap().st_blocks, 0);
        drop(segment);
        assert_eq!(rustix::fs::fstat(&kept).unwrap().st_blocks, 0);
    }

    #[test]
    fn pages_stay_when_the_sidecar_ends_before_its_clients() {
        let budget = Budget::new(1 << 20, Metrics::default());
        let segment = Segment::create(1, 65_536, budget.grant(Side::Put, 65_536).unwrap()).unwrap();
        let kept = segment.descriptor().try_clone_to_owned().unwrap();
        budget.end();
        drop(segment);
        assert_ne!(rustix::fs::fstat(&kept).unwrap().st_blocks, 0);
    }
}
