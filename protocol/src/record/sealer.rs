//! The sending direction of a link.

use sealane_aead::Plaintext;

use super::key::{RecordSequence, SealKey};
use super::{Header, RecordError, RecordKind, Rekey};
use crate::Moment;
use crate::keys::LinkSecret;
use crate::limits::{RECORD_HEADER_BYTES, TAG_BYTES};

/// Seals records one after the other and replaces its key when it is due.
#[derive(Debug)]
pub(crate) struct Sealer {
    /// `None` only while it is being replaced.
    secret: Option<LinkSecret>,
    key: SealKey,
    sequence: RecordSequence,
    rekey: Rekey,
    phase: Phase,
    updates: u64,
}

/// Use of one key.
#[derive(Debug, Clone, Copy)]
struct Phase {
    bytes: u64,
    records: u64,
    since: Moment,
}

impl Phase {
    const fn begin(since: Moment) -> Self {
        Self { bytes: 0, records: 0, since }
    }
}

impl Sealer {
    pub(crate) fn new(secret: LinkSecret, rekey: Rekey, now: Moment) -> Self {
        let key = SealKey::new(&secret);
        Self {
            secret: Some(secret),
            key,
            sequence: RecordSequence::FIRST,
            rekey,
            phase: Phase::begin(now),
            updates: 0,
        }
    }

    /// Whether the next record has to be a key update. A key that sealed nothing is never replaced.
    pub(crate) const fn update_due(&self, now: Moment) -> bool {
        let Phase { bytes, records, since } = self.phase;
        records > 0 && self.rekey.due(bytes, records, now.micros_since(since))
    }

    /// Seals `record`: header, plaintext and room for the tag, in one piece.
    pub(crate) fn seal(&mut self, kind: RecordKind, record: &mut [u8]) -> Result<(), RecordError> {
        self.seal_with(kind, record, |key, sequence, head, bytes| key.seal(sequence, head, bytes))
    }

    /// Seals `plaintext` into `record`, which has room for header, ciphertext and tag, and for nothing more.
    pub(crate) fn seal_from(
        &mut self,
        kind: RecordKind,
        plaintext: Plaintext<'_>,
        record: &mut [u8],
    ) -> Result<(), RecordError> {
        self.seal_with(kind, record, |key, sequence, head, ciphertext| {
            key.seal_from(sequence, head, plaintext, ciphertext)
        })
    }

    /// Lets `seal` make the next record's ciphertext where it belongs in `record`, and yield its tag.
    fn seal_with(
        &mut self,
        kind: RecordKind,
        record: &mut [u8],
        seal: impl FnOnce(&SealKey, RecordSequence, &[u8], &mut [u8]) -> Result<[u8; TAG_BYTES], RecordError>,
    ) -> Result<(), RecordError> {
        let (head, body) =
            record.split_first_chunk_mut::<RECORD_HEADER_BYTES>().ok_or(RecordError::Length)?;
        let length = body.len();
        let (ciphertext, tag) = body.split_last_chunk_mut::<TAG_BYTES>().ok_or(RecordError::Length)?;
        *head = Header { kind, length }.encode()?;
        let next = self.sequence.next()?;
        *tag = seal(&self.key, self.sequence, head, ciphertext)?;
        self.sequence = next;
        self.phase.records = self.phase.records.saturating_add(1);
        let bytes = u64::try_from(ciphertext.len()).unwrap_or(u64::MAX);
        self.phase.bytes = self.phase.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Seals the key update into `record` and moves to the next key; the old one is wiped.
    pub(crate) fn update(&mut self, record: &mut [u8], now: Moment) -> Result<(), RecordError> {
        self.seal(RecordKind::KeyUpdate, record)?;
        let secret = self.secret.take().ok_or(RecordError::Exhausted)?.update();
        self.replace(secret, now);
        Ok(())
    }

    /// Seals the sign of it into `record` and moves to the first key of a new handshake; the old one is wiped. The
    /// sequence goes on.
    pub(crate) fn renew(
        &mut self,
        record: &mut [u8],
        secret: LinkSecret,
        now: Moment,
    ) -> Result<(), RecordError> {
        self.seal(RecordKind::Renewed, record)?;
        self.replace(secret, now);
        Ok(())
    }

    /// Changes when the key is replaced, the one in use included.
    pub(crate) const fn rotate(&mut self, rekey: Rekey) {
        self.rekey = rekey;
    }

    fn replace(&mut self, secret: LinkSecret, now: Moment) {
        self.key = SealKey::new(&secret);
        self.secret = Some(secret);
        self.phase = Phase::begin(now);
        self.updates = self.updates.saturating_add(1);
    }

    /// How often the key was replaced.
    pub(crate) const fn updates(&self) -> u64 {
        self.updates
    }
}
