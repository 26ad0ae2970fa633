//! Bytes that another process may write at any time.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// Source and destination of a copy are not of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("source and destination differ in length")]
pub struct LengthDiffers;

/// An address range that another process may read and write at the same time, in the sense of rust-vmm's type of this name:
/// there is no way from it to a reference.
///
/// Borrowed from whatever keeps the range mapped. It is not sent between threads. Several threads may read one range at once, as
/// many as a tensor has receivers; who writes one has it alone.
#[derive(Clone, Copy)]
pub struct VolatileSlice<'a> {
    start: NonNull<u8>,
    length: usize,
    /// As a slice of cells, which anyone who has it may write.
    memory: PhantomData<&'a [Cell<u8>]>,
}

impl<'a> VolatileSlice<'a> {
    /// `length` bytes from `start` on.
    ///
    /// # Safety
    /// For `'a` all of them can be read and written, belong to one mapping or allocation, and nobody in this process has a
    /// reference to any of them. Threads of this process that use the same bytes at once race as another process does: what
    /// they read is any bytes.
    #[must_use]
    pub const unsafe fn new(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length, memory: PhantomData }
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// `length` of its bytes from `offset` on, if it has them.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> Option<Self> {
        let end = offset.checked_add(length)?;
        if end > self.length {
            return None;
        }
        // SAFETY: the offset is within the range, or one past its end.
        let start = unsafe { self.start.add(offset) };
        Some(Self { start, length, memory: PhantomData })
    }

    /// Copies all of it, once.
    ///
    /// # Errors
    /// [`LengthDiffers`], and nothing was copied.
    pub fn copy_to(&self, into: &mut [u8]) -> Result<(), LengthDiffers> {
        if into.len() != self.length {
            return Err(LengthDiffers);
        }
        // SAFETY: `new` promised that many bytes, and that nobody has a reference to them: `into` lies elsewhere.
        unsafe { copy(self.start.as_ptr(), into.as_mut_ptr(), self.length) };
        Ok(())
    }

    /// Overwrites all of it.
    ///
    /// # Errors
    /// As [`Self::copy_to`].
    pub fn copy_from(&self, bytes: &[u8]) -> Result<(), LengthDiffers> {
        if bytes.len() != self.length {
            return Err(LengthDiffers);
        }
        // SAFETY: as above, in the other direction.
        unsafe { copy(bytes.as_ptr(), self.start.as_ptr(), self.length) };
        Ok(())
    }

    pub(crate) const fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

/// Private memory, where a caller has either.
impl<'a> From<&'a mut [u8]> for VolatileSlice<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        let length = bytes.len();
        let start = NonNull::from(bytes).cast();
        // SAFETY: they are borrowed for as long, and for this alone.
        unsafe { Self::new(start, length) }
    }
}

/// Bytes that are only read: private ones, or such that another process may write meanwhile.
#[derive(Clone, Copy)]
pub struct Plaintext<'a>(VolatileSlice<'a>);

impl<'a> Plaintext<'a> {
    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As [`VolatileSlice::slice`].
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> Option<Self> {
        self.0.slice(offset, length).map(Self)
    }

    /// As [`VolatileSlice::copy_to`].
    ///
    /// # Errors
    /// [`LengthDiffers`], and nothing was copied.
    pub fn copy_to(&self, into: &mut [u8]) -> Result<(), LengthDiffers> {
        self.0.copy_to(into)
    }

    pub(crate) const fn start(&self) -> *const u8 {
        self.0.start.as_ptr().cast_const()
    }
}

impl<'a> From<VolatileSlice<'a>> for Plaintext<'a> {
    fn from(slice: VolatileSlice<'a>) -> Self {
        Self(slice)
    }
}

impl<'a> From<&'a [u8]> for Plaintext<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        // It is never written: this type gives no `VolatileSlice` away.
        Self(VolatileSlice { start: NonNull::from(bytes).cast(), length: bytes.len(), memory: PhantomData })
    }
}

impl fmt::Debug for Plaintext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plaintext({} bytes)", self.len())
    }
}

impl fmt::Debug for VolatileSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VolatileSlice({} bytes)", self.length)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_copied_whole_or_not_at_all() {
        let mut memory = [1, 2, 3, 4];
        let slice = VolatileSlice::from(&mut memory[..]);
        let mut out = [0; 4];
        assert_eq!(slice.copy_to(&mut out), Ok(()));
        assert_eq!(out, [1, 2, 3, 4]);
        assert_eq!(slice.copy_to(&mut out[..3]), Err(LengthDiffers));
        assert_eq!(slice.copy_from(&[9; 5]), Err(LengthDiffers));
        assert_eq!(slice.copy_from(&[5, 6, 7, 8]), Ok(()));
        assert_eq!(memory, [5, 6, 7, 8]);
    }

    #[test]
    fn parts_of_it_lie_within() {
        let mut memory = [0, 1, 2, 3, 4, 5];
        let slice = VolatileSlice::from(&mut memory[..]);
        let part = slice.slice(2, 3).unwrap();
        let mut out = [0; 3];
        part.copy_to(&mut out).unwrap();
        assert_eq!(out, [2, 3, 4]);
        assert!(slice.slice(6, 0).unwrap().is_empty() && slice.slice(0, 6).unwrap().len() == 6);
        for (offset, length) in [(7, 0), (6, 1), (0, 7), (usize::MAX, 1), (1, usize::MAX)] {
            assert!(slice.slice(offset, length).is_none(), "{offset} {length}");
        }
        assert!(part.slice(0, 4).is_none(), "a part has no more than its bytes");
    }

    #[test]
    fn what_it_prints_is_no_byte_of_it() {
        assert_eq!(format!("{:?}", VolatileSlice::from(&mut [7; 3][..])), "VolatileSlice(3 bytes)");
    }
}
