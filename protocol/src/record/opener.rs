//! The receiving direction of a link.

use super::key::{OpenKey, RecordSequence};
use super::{Header, RecordError, RecordKind};
use crate::Moment;
use crate::keys::LinkSecret;
use crate::limits::{PHASE_BYTES_MAX, PHASE_MICROS_MAX, PHASE_RECORDS_MAX, RECORD_PLAINTEXT_BYTES_MAX};

/// Opens records one after the other.
#[derive(Debug)]
pub(crate) struct Opener {
    /// `None` only while it is being replaced.
    secret: Option<LinkSecret>,
    key: OpenKey,
    sequence: RecordSequence,
    bytes: u64,
    records: u64,
    since: Moment,
    updates: u64,
}

/// A record and a half more than the sender's own bound: what it may have sealed before it noticed.
const BYTES_MAX: u64 = PHASE_BYTES_MAX + 2 * RECORD_PLAINTEXT_BYTES_MAX as u64;
const RECORDS_MAX: u64 = PHASE_RECORDS_MAX + 2;
/// An idle sender replaces its key when it next has something to say, and pings see to that.
const AGE_MICROS_MAX: u64 = 2 * PHASE_MICROS_MAX;

impl Opener {
    pub(crate) fn new(secret: LinkSecret, now: Moment) -> Self {
        let key = OpenKey::new(&secret);
        Self {
            secret: Some(secret),
            key,
            sequence: RecordSequence::FIRST,
            bytes: 0,
            records: 0,
            since: now,
            updates: 0,
        }
    }

    /// Opens the body behind `header` in place. After an error the link must not be used any more.
    pub(crate) fn open<'a>(
        &mut self,
        header: Header,
        body: &'a mut [u8],
        now: Moment,
    ) -> Result<&'a [u8], RecordError> {
        let aad = header.encode()?;
        let next = self.sequence.next()?;
        let plaintext = &*self.key.open(self.sequence, &aad, body)?;
        self.sequence = next;
        match header.kind {
            RecordKind::Data => self.count(plaintext.len(), now)?,
            RecordKind::KeyUpdate => self.update(now)?,
            RecordKind::Handshake | RecordKind::Refusal => return Err(RecordError::Kind),
        }
        Ok(plaintext)
    }

    fn count(&mut self, bytes: usize, now: Moment) -> Result<(), RecordError> {
        self.records = self.records.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        let overdue = self.bytes > BYTES_MAX
            || self.records > RECORDS_MAX
            || now.micros_since(self.since) > AGE_MICROS_MAX;
        if overdue { Err(RecordError::KeyOverdue) } else { Ok(()) }
    }

    /// Moves to the next key; the old one is wiped. A peer may not make us do so without using the key.
    fn update(&mut self, now: Moment) -> Result<(), RecordError> {
        if self.records == 0 {
            return Err(RecordError::KeyUnused);
        }
        let secret = self.secret.take().ok_or(RecordError::Exhausted)?.update();
        self.key = OpenKey::new(&secret);
        self.secret = Some(secret);
        (self.bytes, self.records, self.since) = (0, 0, now);
        self.updates = self.updates.saturating_add(1);
        Ok(())
    }

    /// How often the key was replaced.
    pub(crate) const fn updates(&self) -> u64 {
        self.updates
    }
}
