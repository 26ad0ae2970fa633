//! Mapped memory: pages that this process shares with the kernel, and that go back when their owner is dropped.
//!
//! Invariant: [`Region::start`] is the beginning of [`Region::bytes`] readable and writable bytes that belong to this
//! value alone and stay mapped until it is dropped. Nothing here makes a reference into them that outlives a borrow.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// A mapped range of memory.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

/// What was asked for does not lie in the region, or not where its type may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's structures do not fit the memory that it mapped")]
pub(crate) struct OutOfBounds;

// SAFETY: the region is plain memory that no thread has a special claim to.
unsafe impl Send for Region {}
// SAFETY: a shared region gives away pointers only; who reads or writes behind them answers for that.
unsafe impl Sync for Region {}

impl Region {
    /// Memory of this process, all zeros, that exists from the beginning: no page is missing when a packet comes.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        // Miri knows no flag but the first two, and has no pages that could be missing.
        let populate = if cfg!(miri) { 0 } else { libc::MAP_POPULATE };
        Self::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | populate, -1, 0)
    }

    /// The part of a socket's memory that begins at `offset`: a ring of an AF_XDP socket.
    pub(crate) fn of_socket(socket: BorrowedFd<'_>, offset: libc::off_t, bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED | libc::MAP_POPULATE, socket.as_raw_fd(), offset)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the region lies in this process.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr().expose_provenance() as u64
    }

    /// A pointer to `count` values of type `T` at `offset` bytes. It is aligned, and valid as long as the region lives.
    pub(crate) fn pointer<T>(&self, offset: usize, count: usize) -> Result<NonNull<T>, OutOfBounds> {
        let end = size_of::<T>().checked_mul(count).and_then(|bytes| bytes.checked_add(offset));
        if end.is_none_or(|end| end > self.bytes) {
            return Err(OutOfBounds);
        }
        // SAFETY: `offset` is at most `bytes`, as has just been seen.
        let pointer = unsafe { self.start.add(offset) }.cast::<T>();
        if pointer.is_aligned() { Ok(pointer) } else { Err(OutOfBounds) }
    }

    /// The bytes of a range, or none if it does not lie in the region.
    ///
    /// # Safety
    /// As long as the borrow lives, nobody but its holder touches the range: not the kernel either.
    pub(crate) unsafe fn slice(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        if range.start > range.end || range.end > self.bytes {
            return None;
        }
        // SAFETY: the range lies in the region, as has just been seen.
        let start = unsafe { self.start.add(range.start) };
        // SAFETY: the bytes are mapped and were written by the kernel, and the caller answers for their being the
        // holder's alone; this borrow of the region keeps it mapped.
        Some(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), range.end - range.start) })
    }

    fn map(bytes: usize, flags: i32, descriptor: i32, offset: libc::off_t) -> io::Result<Self> {
        let (anywhere, access) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: without MAP_FIXED the kernel takes an unused range, so no memory of anybody changes.
        let start = unsafe { libc::mmap(anywhere, bytes, access, flags, descriptor, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the range was mapped with this length, nobody else unmaps it, and borrows of it are over. The call can
        // fail only for a range that was not mapped.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_nothing_beyond_its_end() {
        let mut region = Region::anonymous(4096).unwrap();
        assert!(region.pointer::<u32>(4092, 1).is_ok());
        for (offset, count) in [(4093, 1), (4092, 2), (2, 1), (usize::MAX, 1), (0, usize::MAX)] {
            assert_eq!(region.pointer::<u32>(offset, count), Err(OutOfBounds), "{offset} {count}");
        }
        // SAFETY: the test alone knows the region.
        assert_eq!(unsafe { region.slice(4000..4096) }.map(|bytes| bytes.len()), Some(96));
        // SAFETY: the test alone knows the region.
        assert!(unsafe { region.slice(4000..4097) }.is_none());
        // SAFETY: the test alone knows the region.
        #[expect(clippy::reversed_empty_ranges, reason = "what is not to be given")]
        let reversed = unsafe { region.slice(8..4) };
        assert!(reversed.is_none());
    }
}
