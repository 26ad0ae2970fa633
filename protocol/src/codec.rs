//! Checked reading and writing of big-endian fields. Nothing here allocates, and nothing can run past the
//! end of its slice.

/// Bytes that do not have the form they must have, or do not fit where they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    #[error("the bytes end before the field does")]
    Truncated,
    #[error("bytes remain after the last field")]
    Trailing,
    #[error("a length is above its limit")]
    TooLong,
    #[error("a field holds a value outside its range")]
    Value,
    #[error("the output has no room left")]
    NoRoom,
}

/// Reads fields off the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], CodecError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(CodecError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, CodecError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, CodecError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u24(&mut self) -> Result<usize, CodecError> {
        let [high, middle, low] = self.array()?;
        let value = u32::from_be_bytes([0, high, middle, low]);
        usize::try_from(value).map_err(|_| CodecError::Value)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, CodecError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, CodecError> {
        self.array().map(u64::from_be_bytes)
    }

    /// UTF-8 text behind a two-byte length, at most `bytes_max` long.
    pub(crate) fn text(&mut self, bytes_max: usize) -> Result<&'a str, CodecError> {
        std::str::from_utf8(self.prefixed(bytes_max)?).map_err(|_| CodecError::Value)
    }

    /// Bytes behind a two-byte length, at most `bytes_max` of them.
    pub(crate) fn prefixed(&mut self, bytes_max: usize) -> Result<&'a [u8], CodecError> {
        let length = usize::from(self.u16()?);
        if length > bytes_max {
            return Err(CodecError::TooLong);
        }
        self.take(length)
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Everything that is left.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Confirms that nothing is left.
    pub(crate) const fn finish(self) -> Result<(), CodecError> {
        if self.rest.is_empty() { Ok(()) } else { Err(CodecError::Trailing) }
    }
}

/// Writes fields to the front of a slice.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    bytes: &'a mut [u8],
    used: usize,
}

impl<'a> Writer<'a> {
    pub(crate) const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, used: 0 }
    }

    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// The next `length` bytes, to be filled by the caller.
    pub(crate) fn gap(&mut self, length: usize) -> Result<&mut [u8], CodecError> {
        let end = self.used.checked_add(length).ok_or(CodecError::NoRoom)?;
        let gap = self.bytes.get_mut(self.used..end).ok_or(CodecError::NoRoom)?;
        self.used = end;
        Ok(gap)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        self.gap(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn u8(&mut self, value: u8) -> Result<(), CodecError> {
        self.put(&[value])
    }

    pub(crate) fn u16(&mut self, value: u16) -> Result<(), CodecError> {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u24(&mut self, value: usize) -> Result<(), CodecError> {
        match u32::try_from(value).map(u32::to_be_bytes) {
            Ok([0, high, middle, low]) => self.put(&[high, middle, low]),
            _ => Err(CodecError::TooLong),
        }
    }

    pub(crate) fn u32(&mut self, value: u32) -> Result<(), CodecError> {
        self.put(&value.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> Result<(), CodecError> {
        self.put(&value.to_be_bytes())
    }

    /// Text behind a two-byte length.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), CodecError> {
        self.put_prefixed(text.as_bytes())
    }

    /// Bytes behind a two-byte length.
    pub(crate) fn put_prefixed(&mut self, bytes: &[u8]) -> Result<(), CodecError> {
        let length = u16::try_from(bytes.len()).map_err(|_| CodecError::TooLong)?;
        self.u16(length)?;
        self.put(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn reads_back(a: u8, b: u16, c in 0usize..1 << 24, d: u32, e: u64, text in ".{0,40}") {
            let mut bytes = [0; 256];
            let mut writer = Writer::new(&mut bytes);
            writer.u8(a).unwrap();
            writer.u16(b).unwrap();
            writer.u24(c).unwrap();
            writer.u32(d).unwrap();
            writer.u64(e).unwrap();
            writer.text(&text).unwrap();
            let used = writer.used();
            let mut reader = Reader::new(&bytes[..used]);
            prop_assert_eq!(reader.u8(), Ok(a));
            prop_assert_eq!(reader.u16(), Ok(b));
            prop_assert_eq!(reader.u24(), Ok(c));
            prop_assert_eq!(reader.u32(), Ok(d));
            prop_assert_eq!(reader.u64(), Ok(e));
            prop_assert_eq!(reader.text(255), Ok(text.as_str()));
            prop_assert_eq!(reader.finish(), Ok(()));
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        assert_eq!(Reader::new(&[1]).u16(), Err(CodecError::Truncated));
        assert_eq!(Reader::new(&[0, 3, b'a', b'b', b'c']).text(2), Err(CodecError::TooLong));
        assert_eq!(Reader::new(&[0, 1, 0xff]).text(9), Err(CodecError::Value));
        assert_eq!(Reader::new(&[0]).finish(), Err(CodecError::Trailing));
        assert_eq!(Writer::new(&mut [0; 3]).u32(1), Err(CodecError::NoRoom));
        assert_eq!(Writer::new(&mut [0; 9]).u24(1 << 24), Err(CodecError::TooLong));
    }
}
