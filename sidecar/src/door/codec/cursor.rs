//! Reads fields from a message that lies in private memory.

use super::super::fault::Fault;

#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Fault::Short)?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(Fault::Short)?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn text(&mut self, bytes: usize) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.bytes(bytes)?).map_err(|_| Fault::NotUtf8)
    }

    /// `count` items of at least `size` bytes each, refused before anything is allocated for what is not there.
    pub(super) fn items<T>(
        &mut self,
        count: usize,
        size: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        if count.checked_mul(size).is_none_or(|bytes| bytes > self.rest.len()) {
            return Err(Fault::Short);
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub(super) fn finish(self) -> Result<(), Fault> {
        if self.rest.is_empty() { Ok(()) } else { Err(Fault::Trailing(self.rest.len())) }
    }
}
