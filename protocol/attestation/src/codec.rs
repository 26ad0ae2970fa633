//! Bounded reading and writing of the byte strings that this crate puts on the wire.

/// Reads from the front of a byte string; every read may fail, none allocates.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A `u32` length of at most `max`, and that many bytes.
    pub(crate) fn prefixed(&mut self, max: usize) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok().filter(|length| *length <= max)?;
        self.take(length)
    }

    /// Everything that was not read yet.
    pub(crate) const fn remaining(&self) -> &'a [u8] {
        self.0
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `lp(bytes)`: the length as a big-endian `u32`, then the bytes.
///
/// Everything written this way is bounded far below 4 GiB by [`crate::limits`]; a longer string would get a
/// length that no reader accepts.
pub(crate) fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&length_prefix(bytes));
    out.extend_from_slice(bytes);
}

pub(crate) fn length_prefix(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes()
}
