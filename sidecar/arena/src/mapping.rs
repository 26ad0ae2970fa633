//! A mapping of a memory file, by address.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use sealane_aead::VolatileSlice;

/// All of a memory file, mapped for reading and writing (mmap(2), `MAP_SHARED`).
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread, and is used by address alone.
unsafe impl Send for Mapping {}
// SAFETY: as above. Threads that copy to the same bytes at once are a race, which the language leaves undefined as it does one
// with another process. Each access is one call that nothing sees through, of bytes that have no invalid value, and what lies
// there decides nothing. Whoever writes here has the range to itself: a slot is of one tensor until it is given back.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `file`, whose pages all exist. The caller sees to it that the file never gets shorter: access
    /// beyond its end would be a SIGBUS.
    pub(crate) fn new(file: BorrowedFd<'_>, bytes: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // Page by page on first use would cost a fault for each.
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the kernel chooses an address where nothing is mapped yet.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, flags, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { start, bytes })
    }

    /// `length` bytes from `offset` on, if all of them are in the mapping.
    pub(crate) fn slice(&self, offset: u64, length: usize) -> io::Result<VolatileSlice<'_>> {
        let beyond = || io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the shared memory");
        // SAFETY: they are mapped for reading and writing as long as this is borrowed, and nothing here makes a reference to them.
        let all = unsafe { VolatileSlice::new(self.start, self.bytes) };
        usize::try_from(offset).ok().and_then(|offset| all.slice(offset, length)).ok_or_else(beyond)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped here, at this address and length, and nobody uses it: every slice borrows it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
