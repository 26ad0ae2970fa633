//! The private buffer in which frames become records.
//!
//! ```text
//! [ written | sealed, for the carrier | open record: header room, frames … |  free  ]
//!           written                   sealed                              end
//! ```
//!
//! Frames are encoded where they are sealed, and sealed bytes leave from where they were sealed: nothing is
//! copied. The cursors return to the start when everything has left.

use super::{Level, LevelSealer, Plaintext, RecordError, RecordKind};
use crate::Moment;
use crate::codec::CodecError;
use crate::keys::LinkSecret;
use crate::limits::{
    BULK_BYTES_MAX, BULK_FRAME_BYTES, OUTPUT_BATCH_BYTES, OUTPUT_RESERVE_BYTES, RECORD_HEADER_BYTES,
    RECORD_PLAINTEXT_BYTES_MAX, RECORD_WIRE_BYTES_MAX, TAG_BYTES,
};

/// How far a frame may fill the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Data,
    /// Credit, acknowledgements and whatever else must not wait behind data.
    Control,
    /// The last frame of all: there is always room for it.
    Close,
}

impl Lane {
    const fn bytes_max(self) -> usize {
        match self {
            Self::Data => OUTPUT_BATCH_BYTES,
            Self::Control => OUTPUT_BATCH_BYTES.saturating_add(OUTPUT_RESERVE_BYTES),
            Self::Close => Self::Control.bytes_max().saturating_add(RECORD_WIRE_BYTES_MAX_AND_UPDATE),
        }
    }
}

/// A frame that was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputError {
    /// Drain first.
    Full,
    /// The frame fits no record, or contradicts itself.
    Frame(CodecError),
    Record(RecordError),
}

impl From<RecordError> for OutputError {
    fn from(error: RecordError) -> Self {
        Self::Record(error)
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Grows record by record up to its limit, and is zeroed only then.
    buffer: Vec<u8>,
    written: usize,
    sealed: usize,
    end: usize,
    /// How many of the bytes that have not left are the handshake's.
    clear: usize,
}

impl Output {
    /// Queues bytes that are not records: the handshake.
    pub(crate) fn put_clear(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let end = self.end.saturating_add(bytes.len());
        self.grow(end, Lane::Control)?;
        let place = self.buffer.get_mut(self.end..end).ok_or(OutputError::Full)?;
        place.copy_from_slice(bytes);
        (self.sealed, self.end) = (end, end);
        self.clear = self.clear.saturating_add(bytes.len());
        Ok(())
    }

    /// Lets `write` put one frame into the open record, or into a new one when it does not fit.
    pub(crate) fn put_frame(
        &mut self,
        sealer: &mut LevelSealer,
        lane: Lane,
        now: Moment,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, CodecError>,
    ) -> Result<(), OutputError> {
        loop {
            if !self.is_open() {
                self.begin(sealer, lane, now)?;
            }
            match write(self.space()) {
                Ok(used) => {
                    self.end = self.end.saturating_add(used);
                    return Ok(());
                }
                Err(CodecError::NoRoom) if self.is_narrow() => self.widen(),
                Err(CodecError::NoRoom) if self.has_frames() => self.seal_open(sealer)?,
                Err(error) => {
                    self.advance(0);
                    return Err(OutputError::Frame(error));
                }
            }
        }
    }

    /// Seals what is queued under the old key, and what follows under the first key of a new handshake, which is
    /// taken out of `secret` when there was room for the sign of it.
    pub(crate) fn put_renewed(
        &mut self,
        sealer: &mut LevelSealer,
        secret: &mut Option<LinkSecret>,
        now: Moment,
    ) -> Result<(), OutputError> {
        if self.is_open() {
            self.seal_open(sealer)?;
        }
        let bytes = RECORD_HEADER_BYTES.saturating_add(sealer.level().tag_bytes());
        let end = self.end.saturating_add(bytes);
        self.grow(end, Lane::Control)?;
        let record = self.buffer.get_mut(self.end..end).ok_or(OutputError::Full)?;
        if let Some(secret) = secret.take() {
            sealer.renew(record, secret, now)?;
            (self.sealed, self.end) = (end, end);
        }
        Ok(())
    }

    /// Room for plaintext after making sure that at least `wanted` bytes of it are there: in the open record if
    /// they fit, else in a new one. The caller reports what it used to [`Self::advance`].
    pub(crate) fn space_for(
        &mut self,
        wanted: usize,
        sealer: &mut LevelSealer,
        now: Moment,
    ) -> Result<&mut [u8], OutputError> {
        if self.is_open() {
            if self.is_narrow() {
                self.widen();
            }
            if self.space().len() < wanted {
                self.seal_open(sealer)?;
            }
        }
        if !self.is_open() {
            self.begin(sealer, Lane::Data, now)?;
        }
        Ok(self.space())
    }

    /// Queues bulk records of `bytes`, as many as there is room for and all of them full but the last, behind a frame that says
    /// what they are: `write` puts it, given how many bytes follow. Returns how many that were.
    pub(crate) fn put_bulk(
        &mut self,
        sealer: &mut LevelSealer,
        now: Moment,
        bytes: Plaintext<'_>,
        write: impl Fn(usize, &mut [u8]) -> Result<usize, CodecError>,
    ) -> Result<usize, OutputError> {
        let before = self.end.saturating_add(BEFORE_BULK_BYTES);
        let room = Lane::Data.bytes_max().saturating_sub(before) / RECORD_WIRE_BYTES_MAX_AND_UPDATE;
        let length = bytes.len().min(BULK_BYTES_MAX).min(room.saturating_mul(RECORD_PLAINTEXT_BYTES_MAX));
        if length == 0 {
            return Err(OutputError::Full);
        }
        self.put_frame(sealer, Lane::Data, now, |space| write(length, space))?;
        self.seal_open(sealer)?;
        let mut offset = 0_usize;
        while offset < length {
            let part = length.saturating_sub(offset).min(RECORD_PLAINTEXT_BYTES_MAX);
            let plaintext = bytes.slice(offset, part).ok_or(RecordError::Length)?;
            self.put_bulk_record(sealer, now, plaintext).map_err(|error| match error {
                // The frame has promised it, so that draining is no remedy. There was room for it.
                OutputError::Full => OutputError::Record(RecordError::Length),
                other => other,
            })?;
            offset = offset.saturating_add(part);
        }
        Ok(length)
    }

    fn put_bulk_record(
        &mut self,
        sealer: &mut LevelSealer,
        now: Moment,
        plaintext: Plaintext<'_>,
    ) -> Result<(), OutputError> {
        let bytes = RECORD_HEADER_BYTES.saturating_add(plaintext.len()).saturating_add(TAG_BYTES);
        self.grow(self.end.saturating_add(UPDATE_BYTES).saturating_add(bytes), Lane::Data)?;
        self.update_if_due(sealer, now)?;
        let end = self.end.saturating_add(bytes);
        let record = self.buffer.get_mut(self.end..end).ok_or(OutputError::Full)?;
        sealer.seal_from(RecordKind::Bulk, plaintext, record)?;
        (self.sealed, self.end) = (end, end);
        Ok(())
    }

    /// The caller used `bytes` of [`Self::space_for`]; none: an empty record is taken back.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.end = self.end.saturating_add(bytes);
        if !self.has_frames() {
            self.end = self.sealed;
        }
    }

    /// Whether data may begin another record.
    pub(crate) const fn has_room(&self) -> bool {
        let end = self.end.saturating_add(BEFORE_BULK_BYTES).saturating_add(RECORD_WIRE_BYTES_MAX_AND_UPDATE);
        end <= Lane::Data.bytes_max()
    }

    /// Sealed bytes that have not left. Seals the open record when there are none, and for packets always: what leaves with
    /// its memory leaves nothing behind.
    pub(crate) fn poll(&mut self, sealer: Option<&mut LevelSealer>) -> Result<&[u8], RecordError> {
        if self.is_open()
            && let Some(sealer) = sealer
            && (self.written == self.sealed || sealer.level() == Level::Packets)
        {
            self.seal_open(sealer)?;
        }
        Ok(self.buffer.get(self.written..self.sealed).unwrap_or_default())
    }

    /// Bytes of the handshake that have not left, which nothing seals.
    pub(crate) fn clear(&self) -> &[u8] {
        self.buffer.get(self.written..self.written.saturating_add(self.clear)).unwrap_or_default()
    }

    pub(crate) fn written(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.sealed.saturating_sub(self.written));
        self.written = self.written.saturating_add(bytes).min(self.sealed);
        self.clear = self.clear.saturating_sub(bytes);
        if self.written == self.end {
            (self.written, self.sealed, self.end) = (0, 0, 0);
        }
    }

    /// Gives away all that is sealed, with the memory that it lies in, if it fills half of that and is worth it. `spare`
    /// takes its place.
    pub(crate) fn take(&mut self, spare: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        let is_all = self.written == 0 && self.sealed == self.end && self.clear == 0;
        if !is_all || self.end < TAKEN_BYTES_MIN.max(self.buffer.capacity() / 2) {
            return None;
        }
        let mut taken = std::mem::replace(&mut self.buffer, spare());
        taken.truncate(self.end);
        (self.sealed, self.end) = (0, 0);
        Some(taken)
    }

    /// Gives its memory back, unless something is queued.
    pub(crate) fn release(&mut self) {
        if self.end == 0 {
            self.buffer = Vec::new();
        }
    }

    const fn is_open(&self) -> bool {
        self.end > self.sealed
    }

    const fn has_frames(&self) -> bool {
        self.end > self.sealed.saturating_add(RECORD_HEADER_BYTES)
    }

    /// Whether the buffer ends before the open record would be full.
    const fn is_narrow(&self) -> bool {
        self.buffer.len() < self.sealed.saturating_add(RECORD_WIRE_BYTES_MAX)
    }

    /// Makes room for a full record where a narrow one was begun; [`Self::begin`] made sure that there may be.
    fn widen(&mut self) {
        self.lengthen(self.sealed.saturating_add(RECORD_WIRE_BYTES_MAX));
    }

    /// To no more than `end`: memory that is given away shall not be half empty.
    fn lengthen(&mut self, end: usize) {
        if let Some(more) = end.checked_sub(self.buffer.len()) {
            self.buffer.reserve_exact(more);
            self.buffer.resize(end, 0);
        }
    }

    /// Free plaintext of the open record.
    fn space(&mut self) -> &mut [u8] {
        let full = self.sealed.saturating_add(PLAINTEXT_END);
        let end = full.min(self.buffer.len().saturating_sub(TAG_BYTES));
        self.buffer.get_mut(self.end..end).unwrap_or_default()
    }

    /// A record of control frames begins narrow: one that says that a connection still lives shall not take the memory
    /// of one that is full.
    fn begin(&mut self, sealer: &mut LevelSealer, lane: Lane, now: Moment) -> Result<(), OutputError> {
        debug_assert!(!self.is_open());
        let full = self.end.saturating_add(RECORD_WIRE_BYTES_MAX_AND_UPDATE);
        match lane {
            Lane::Data => self.grow(full, lane)?,
            Lane::Control | Lane::Close if full > lane.bytes_max() => return Err(OutputError::Full),
            Lane::Control | Lane::Close => self.grow(self.end.saturating_add(NARROW_BYTES), lane)?,
        }
        self.update_if_due(sealer, now)?;
        self.end = self.end.saturating_add(RECORD_HEADER_BYTES);
        Ok(())
    }

    /// Puts a key update in front of the next record if one is due; there is room for it.
    fn update_if_due(&mut self, sealer: &mut LevelSealer, now: Moment) -> Result<(), OutputError> {
        if sealer.update_due(now) {
            let end = self.end.saturating_add(UPDATE_BYTES);
            let record = self.buffer.get_mut(self.end..end).ok_or(OutputError::Full)?;
            sealer.update(record, now)?;
            (self.sealed, self.end) = (end, end);
        }
        Ok(())
    }

    fn seal_open(&mut self, sealer: &mut LevelSealer) -> Result<(), RecordError> {
        let end = self.end.saturating_add(sealer.level().tag_bytes());
        let record = self.buffer.get_mut(self.sealed..end).ok_or(RecordError::Length)?;
        sealer.seal(RecordKind::Data, record)?;
        (self.sealed, self.end) = (end, end);
        Ok(())
    }

    fn grow(&mut self, end: usize, lane: Lane) -> Result<(), OutputError> {
        if end > lane.bytes_max() {
            return Err(OutputError::Full);
        }
        self.lengthen(end);
        Ok(())
    }
}

/// End of a record's plaintext, from its start.
const PLAINTEXT_END: usize = RECORD_HEADER_BYTES + RECORD_PLAINTEXT_BYTES_MAX;
/// What a record of control frames begins with: a key update and a few small frames.
const NARROW_BYTES: usize = 512;
/// What leaves with its memory at least; less is copied.
const TAKEN_BYTES_MIN: usize = 16 << 10;
/// An empty sealed record.
const UPDATE_BYTES: usize = RECORD_HEADER_BYTES + TAG_BYTES;
/// What may come between what is queued and bulk records: the end of the open record, and one with the frame that says what they
/// are.
const BEFORE_BULK_BYTES: usize =
    TAG_BYTES + UPDATE_BYTES + RECORD_HEADER_BYTES + BULK_FRAME_BYTES + TAG_BYTES;
/// What a new record may need at most: a key update goes before it.
const RECORD_WIRE_BYTES_MAX_AND_UPDATE: usize = RECORD_WIRE_BYTES_MAX + UPDATE_BYTES;

#[cfg(test)]
mod tests {
    use sealane_types::Cipher;

    use super::super::{Level, Rekey};
    use super::*;
    use crate::handshake::{KeyExchange, Suite};
    use crate::keys::{Label, Root, Secret, Split};

    const NOW: Moment = Moment::from_micros(0);

    fn sealer() -> LevelSealer {
        let part = |byte| Secret::take(&mut [byte; 32]);
        let split = Split { initiator: part(1), responder: part(2) };
        let suite = Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm);
        LevelSealer::new(
            Level::Records,
            Root::new(&split, None, suite, [4; 32]).link(Label::Initiator),
            Rekey::default(),
            NOW,
        )
    }

    #[test]
    fn it_grows_to_what_its_lane_may_fill() {
        for lane in [Lane::Data, Lane::Control, Lane::Close] {
            let mut output = Output::default();
            assert_eq!(output.grow(lane.bytes_max(), lane), Ok(()));
            assert_eq!(output.grow(lane.bytes_max() + 1, lane), Err(OutputError::Full));
        }
    }

    /// What is queued by one frame of `bytes`.
    fn put(
        output: &mut Output,
        sealer: &mut LevelSealer,
        lane: Lane,
        bytes: usize,
    ) -> Result<(), OutputError> {
        output.put_frame(sealer, lane, NOW, |space| {
            let place = space.get_mut(..bytes).ok_or(CodecError::NoRoom)?;
            place.fill(7);
            Ok(bytes)
        })
    }

    fn sealer_of(rekey: Rekey) -> LevelSealer {
        let mut sealer = sealer();
        sealer.rotate(rekey);
        sealer
    }

    /// Whatever is queued before it, and with a key update before every record: all that its frame promises follows, or nothing
    /// is queued.
    #[test]
    fn a_bulk_is_queued_whole_or_not_at_all() {
        let tensor = vec![7; BULK_BYTES_MAX + 1];
        let every = Rekey::new(0, 1, 0);
        let data = (0..260_000).step_by(977).map(|bytes| (Lane::Data, bytes));
        let around = |edge: usize| edge.saturating_sub(140)..edge + 140;
        let edges = (0..4).flat_map(|records| around(records * RECORD_WIRE_BYTES_MAX_AND_UPDATE));
        let control = (0..400).step_by(7).map(|bytes| (Lane::Control, bytes));
        for (lane, before) in data.chain(edges.map(|bytes| (Lane::Data, bytes))).chain(control) {
            let (mut output, mut sealer) = (Output::default(), sealer_of(every));
            let mut left = before;
            while left > 0 {
                let bytes = left.min(RECORD_PLAINTEXT_BYTES_MAX);
                if put(&mut output, &mut sealer, lane, bytes).is_err() {
                    break;
                }
                left -= bytes;
            }
            let end = output.end;
            let promised = std::cell::Cell::new(0);
            let write = |length, space: &mut [u8]| {
                space.get_mut(..BULK_FRAME_BYTES).ok_or(CodecError::NoRoom)?.fill(9);
                promised.set(length);
                Ok(BULK_FRAME_BYTES)
            };
            let bulk = Plaintext::from(&tensor[..]);
            let put = output.put_bulk(&mut sealer, NOW, bulk, write);
            let sealed = output.poll(Some(&mut sealer)).unwrap();
            let (mut rest, mut followed) = (sealed, 0);
            while let Some((head, more)) = rest.split_first_chunk() {
                let header = super::super::Header::parse(*head, Level::Records).unwrap();
                followed += if header.kind == RecordKind::Bulk { header.length - TAG_BYTES } else { 0 };
                rest = &more[header.length..];
            }
            match put {
                Ok(length) => assert_eq!((length, followed), (promised.get(), length), "{lane:?} {before}"),
                Err(error) => {
                    assert_eq!((error, followed, promised.get()), (OutputError::Full, 0, 0), "{before}");
                    assert!(end + BEFORE_BULK_BYTES + RECORD_WIRE_BYTES_MAX_AND_UPDATE > OUTPUT_BATCH_BYTES);
                }
            }
        }
    }

    #[test]
    fn a_small_control_frame_takes_little_memory_and_larger_ones_still_fit_its_record() {
        let (mut output, mut sealer) = (Output::default(), sealer());
        assert_eq!(put(&mut output, &mut sealer, Lane::Control, 20), Ok(()));
        assert_eq!(output.buffer.len(), NARROW_BYTES);
        assert_eq!(put(&mut output, &mut sealer, Lane::Control, NARROW_BYTES), Ok(()));
        assert_eq!(
            put(&mut output, &mut sealer, Lane::Data, RECORD_PLAINTEXT_BYTES_MAX - 20 - NARROW_BYTES),
            Ok(())
        );
        let record = output.poll(Some(&mut sealer)).unwrap();
        assert_eq!(record.len(), RECORD_WIRE_BYTES_MAX, "one record, and full");
    }

    #[test]
    fn data_fills_a_record_that_a_control_frame_began() {
        let (mut output, mut sealer) = (Output::default(), sealer());
        put(&mut output, &mut sealer, Lane::Control, 20).unwrap();
        let space = output.space_for(1, &mut sealer, NOW).unwrap();
        assert_eq!(space.len(), RECORD_PLAINTEXT_BYTES_MAX - 20);
    }

    #[test]
    fn a_frame_that_fits_no_record_is_refused_and_leaves_nothing() {
        let (mut output, mut sealer) = (Output::default(), sealer());
        let refused = Err(OutputError::Frame(CodecError::NoRoom));
        for lane in [Lane::Data, Lane::Control] {
            assert_eq!(put(&mut output, &mut sealer, lane, RECORD_PLAINTEXT_BYTES_MAX + 1), refused);
            assert!(output.poll(Some(&mut sealer)).unwrap().is_empty());
        }
    }

    #[test]
    fn its_memory_is_given_back_once_nothing_is_queued() {
        let mut output = Output::default();
        output.grow(100, Lane::Data).unwrap();
        (output.sealed, output.end) = (100, 100);
        output.release();
        assert_eq!(output.buffer.len(), 100);
        output.written(100);
        output.release();
        assert!(output.buffer.is_empty());
    }

    #[test]
    fn what_fills_its_memory_leaves_with_it_and_little_does_not() {
        let (mut output, mut sealer) = (Output::default(), sealer());
        let full = RECORD_PLAINTEXT_BYTES_MAX;
        let spare = || vec![9; RECORD_WIRE_BYTES_MAX];
        for (bytes, leaves) in [(20, false), (full, true), (full / 3, false)] {
            put(&mut output, &mut sealer, Lane::Data, bytes).unwrap();
            assert_eq!(output.take(spare), None, "it is not sealed");
            let sealed = output.poll(Some(&mut sealer)).unwrap().to_vec();
            assert_eq!(output.take(spare), leaves.then(|| sealed.clone()), "{bytes}");
            output.written(if leaves { 0 } else { sealed.len() });
            assert!(output.poll(Some(&mut sealer)).unwrap().is_empty());
        }
        put(&mut output, &mut sealer, Lane::Data, full).unwrap();
        output.poll(Some(&mut sealer)).unwrap();
        output.written(1);
        assert_eq!(output.take(spare), None, "the rest of a record is of no use");
    }
}
