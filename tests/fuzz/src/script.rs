//! Decisions read off the front of an input.

/// What is left of an input; every read past its end yields nothing.
pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(crate) const fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(crate) fn word(&mut self) -> Option<u16> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*word))
    }

    /// As many of `length` bytes as are left.
    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Bytes behind their length.
    pub(crate) fn part(&mut self) -> Option<&'a [u8]> {
        let length = self.word()?;
        Some(self.bytes(length.into()))
    }
}
