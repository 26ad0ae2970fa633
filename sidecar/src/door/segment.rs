//! Memory files that the sidecar creates and shares with one client.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};

use super::budget::Grant;
use super::limits::SEGMENT_STEP_BYTES;
use crate::handoff::ReadAt;

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

/// One memory file: all its pages exist, and nobody can change its size any more.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: u32,
    pub(super) bytes: u64,
    file: OwnedFd,
    /// Given back after the pages are.
    grant: Grant,
}

/// `bytes` rounded up to a size that a segment can have.
pub(super) fn rounded(bytes: u64) -> Option<u64> {
    bytes.max(1).checked_next_multiple_of(SEGMENT_STEP_BYTES)
}

impl Segment {
    /// Creates, fills and seals. Takes milliseconds per 16 MiB: not for an asynchronous thread.
    pub(super) fn create(id: u32, bytes: u64, grant: Grant) -> io::Result<Self> {
        let file = memory_file()?;
        rustix::fs::ftruncate(&file, bytes)?;
        // Pages that are missing later could not be refused then: a write would end in SIGBUS or the OOM killer.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self { id, bytes, file, grant })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Writes all of `bytes` at `offset`.
    pub(super) fn write_at(&self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match rustix::io::pwrite(&self.file, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(rustix::io::Errno::INTR) => continue,
                written => written?,
            };
            offset = offset.checked_add(written as u64).ok_or(io::ErrorKind::InvalidInput)?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }
}

impl ReadAt for Segment {
    fn read_at(&self, mut offset: u64, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            let read = match rustix::io::pread(&self.file, &mut *into, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(rustix::io::Errno::INTR) => continue,
                read => read?,
            };
            offset = offset.checked_add(read as u64).ok_or(io::ErrorKind::InvalidInput)?;
            into = into.get_mut(read..).unwrap_or_default();
        }
        Ok(())
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
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Err(error) = rustix::fs::fallocate(&self.file, flags, 0, self.bytes) {
            tracing::warn!(%error, "cannot give back the pages of a segment");
        }
    }
}

fn memory_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know NOEXEC_SEAL.
    match rustix::fs::memfd_create("sealane", flags | MemfdFlags::NOEXEC_SEAL) {
        Err(rustix::io::Errno::INVAL) => Ok(rustix::fs::memfd_create("sealane", flags)?),
        file => Ok(file?),
    }
}

/// What tensors without bytes lie in.
#[derive(Debug)]
pub(super) struct Nothing;

impl ReadAt for Nothing {
    fn read_at(&self, _: u64, into: &mut [u8]) -> io::Result<()> {
        if into.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::{Budget, Side};
    use super::*;
    use crate::metrics::Door as Metrics;

    #[test]
    fn a_segment_is_sealed_and_reads_back() {
        let grant = Budget::new(1 << 20, Metrics::default()).grant(Side::Put, 65_536).unwrap();
        let segment = Segment::create(1, 65_536, grant).unwrap();
        segment.write_at(65_530, b"sealed").unwrap();
        let mut back = [0; 6];
        segment.read_at(65_530, &mut back).unwrap();
        assert_eq!(&back, b"sealed");
        assert!(segment.read_at(65_531, &mut back).is_err());
        assert!(segment.write_at(65_531, &back).is_err());
        assert!(rustix::fs::ftruncate(segment.descriptor(), 0).is_err());
        assert!(rustix::fs::fcntl_add_seals(segment.descriptor(), SealFlags::WRITE).is_err());
    }

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
