//! A mapping of a memory file, by address.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// All of a memory file, mapped for reading and writing (mmap(2), `MAP_SHARED`).
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread, and is used by address alone.
unsafe impl Send for Mapping {}
// SAFETY: as above. Threads that copy to the same bytes at once are a race, which the language leaves undefined as it does one
// with another process. The copies are one call each that nothing sees through, of bytes that have no invalid value, and what
// lies there decides nothing. Whoever writes here has the range to itself: a slot is of one tensor until it is given back.
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

    pub(crate) fn copy_out(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let from = self.place(offset, into.len())?;
        // SAFETY: `place` has found that many bytes of the mapping there, and `into` is borrowed from elsewhere: nobody has a
        // reference into the mapping.
        unsafe { copy(from.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    pub(crate) fn copy_in(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let into = self.place(offset, bytes.len())?;
        // SAFETY: as above, in the other direction.
        unsafe { copy(bytes.as_ptr(), into.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Where `length` bytes from `offset` on are, if all of them are in the mapping.
    fn place(&self, offset: u64, length: usize) -> io::Result<NonNull<u8>> {
        let beyond = || io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the shared memory");
        let offset = usize::try_from(offset).map_err(|_| beyond())?;
        let end = offset.checked_add(length).ok_or_else(beyond)?;
        if end > self.bytes {
            return Err(beyond());
        }
        // SAFETY: the offset is within the mapping, or one past its end.
        Ok(unsafe { self.start.add(offset) })
    }
}

/// Copies once. Another process may write the shared side meanwhile, so a compiler that saw through this could read it again
/// in place of the copy; it is never inlined for that reason.
///
/// # Safety
/// `from` can be read and `into` written for `length` bytes, and the two do not overlap.
#[inline(never)]
unsafe fn copy(from: *const u8, into: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, into, length) };
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped here, at this address and length, and no copy goes on: each borrows the mapping.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
