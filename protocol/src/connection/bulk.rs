//! Tensor bytes in records of their own, which are opened straight into their place.
//!
//! A frame says which bytes follow. From then on this direction carries bulk records and key updates and nothing else, until all of
//! them have come: every record is full but the last, so its length follows from what the frame said.

use sealane_types::Reason;

use super::Fail;
use crate::Moment;
use crate::frame::{ByteRange, Chunk};
use crate::limits::{RECORD_PLAINTEXT_BYTES_MAX, TAG_BYTES};
use crate::record::{Header, Opener, RecordError, RecordKind, VolatileSlice};

/// A bulk record that has arrived whole and is not opened: nothing of it is authentic but [`Self::range`], which a frame said.
#[derive(Debug)]
pub struct BulkRecord<'a> {
    range: ByteRange,
    opener: &'a mut Opener,
    header: Header,
    body: &'a mut [u8],
    now: Moment,
}

/// Proof that a [`BulkRecord`] was opened.
#[derive(Debug)]
pub struct BulkOpened(());

/// A bulk record that was not taken; the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkError {
    Record(RecordError),
    Refused(Reason),
}

impl From<RecordError> for BulkError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

impl From<Reason> for BulkError {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

impl From<BulkError> for Fail {
    fn from(error: BulkError) -> Self {
        match error {
            BulkError::Record(error) => Self::Record(error),
            BulkError::Refused(reason) => Self::Sink(reason),
        }
    }
}

impl<'a> BulkRecord<'a> {
    pub(super) const fn new(
        range: ByteRange,
        opener: &'a mut Opener,
        header: Header,
        body: &'a mut [u8],
        now: Moment,
    ) -> Self {
        Self { range, opener, header, body, now }
    }

    /// Which bytes these are.
    #[must_use]
    pub const fn range(&self) -> ByteRange {
        self.range
    }

    /// Opens it into `place`, which has the length of its range. Nothing may be told of these bytes before this returns.
    ///
    /// # Errors
    /// It does not verify, and `place` was zeroed; or `place` has another length.
    pub fn open_into(self, place: VolatileSlice<'_>) -> Result<BulkOpened, BulkError> {
        self.opener.open_into(self.header, self.body, place, self.now)?;
        Ok(BulkOpened(()))
    }

    /// Opens it where it lies, for whoever has no place for it.
    ///
    /// # Errors
    /// It does not verify.
    pub fn open(self) -> Result<(Chunk<'a>, BulkOpened), BulkError> {
        let ByteRange { stream, sequence, offset, .. } = self.range;
        let bytes = self.opener.open(self.header, self.body, self.now)?;
        Ok((Chunk { stream, sequence, offset, bytes }, BulkOpened(())))
    }
}

/// Bytes that a frame said to follow.
#[derive(Debug)]
pub(super) struct BulkArrival {
    rest: ByteRange,
}

impl BulkArrival {
    pub(super) const fn new(range: ByteRange) -> Self {
        Self { rest: range }
    }

    /// The range of the next record, if `header` can be its header.
    pub(super) fn next(&self, header: Header) -> Result<ByteRange, RecordError> {
        if header.kind != RecordKind::Bulk {
            return Err(RecordError::Kind);
        }
        let length = self.rest.length.min(RECORD_PLAINTEXT_BYTES_MAX);
        if header.length != length.saturating_add(TAG_BYTES) {
            return Err(RecordError::Length);
        }
        Ok(ByteRange { length, ..self.rest })
    }

    /// That record was opened; what still follows, if anything does.
    pub(super) fn advance(self, opened: ByteRange) -> Option<Self> {
        let length = self.rest.length.saturating_sub(opened.length);
        let offset = self.rest.offset.saturating_add(opened.length as u64);
        (length > 0).then_some(Self { rest: ByteRange { offset, length, ..self.rest } })
    }
}
