//! The receiving direction of a link.

use sealane_aead::VolatileSlice;

use super::key::{OpenKey, RecordSequence};
use super::{Header, RecordError, RecordKind, Rekey};
use crate::Moment;
use crate::keys::LinkSecret;
use crate::limits::{PHASE_BYTES_MAX, PHASE_RECORDS_MAX, RECORD_PLAINTEXT_BYTES_MAX};

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
    /// An idle sender replaces its key when it next has something to say, and pings see to that.
    age_micros_max: u64,
    /// A key's age counts from its first record: nothing makes its sender use it.
    rests: bool,
    updates: u64,
}

/// A record and a half more than the sender's own bound: what it may have sealed before it noticed.
const BYTES_MAX: u64 = PHASE_BYTES_MAX + 2 * RECORD_PLAINTEXT_BYTES_MAX as u64;
const RECORDS_MAX: u64 = PHASE_RECORDS_MAX + 2;

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
            age_micros_max: Rekey::default().age_micros_max(),
            rests: false,
            updates: 0,
        }
    }

    /// For a sender that may say nothing for any time, and replaces no key meanwhile.
    pub(crate) fn resting(secret: LinkSecret, now: Moment) -> Self {
        Self { rests: true, ..Self::new(secret, now) }
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
            RecordKind::Data | RecordKind::Bulk => self.count(plaintext.len(), now)?,
            RecordKind::KeyUpdate => self.update(now)?,
            // The connection knows whether it is time for it, and what the next key is.
            RecordKind::Renewed => {}
            RecordKind::Handshake | RecordKind::Refusal => return Err(RecordError::Kind),
        }
        Ok(plaintext)
    }

    /// Opens the body behind the header of a bulk record into `place`, which has the length of its plaintext. After an error the
    /// link must not be used any more.
    pub(crate) fn open_into(
        &mut self,
        header: Header,
        body: &[u8],
        place: VolatileSlice<'_>,
        now: Moment,
    ) -> Result<(), RecordError> {
        if header.kind != RecordKind::Bulk {
            return Err(RecordError::Kind);
        }
        let aad = header.encode()?;
        let next = self.sequence.next()?;
        self.key.open_into(self.sequence, &aad, body, place)?;
        self.sequence = next;
        self.count(place.len(), now)
    }

    fn count(&mut self, bytes: usize, now: Moment) -> Result<(), RecordError> {
        if self.rests && self.records == 0 {
            self.since = now;
        }
        self.records = self.records.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        let overdue = self.bytes > BYTES_MAX
            || self.records > RECORDS_MAX
            || now.micros_since(self.since) > self.age_micros_max;
        if overdue { Err(RecordError::KeyOverdue) } else { Ok(()) }
    }

    /// Moves to the next key; the old one is wiped. A peer may not make us do so without using the key.
    fn update(&mut self, now: Moment) -> Result<(), RecordError> {
        if self.records == 0 {
            return Err(RecordError::KeyUnused);
        }
        let secret = self.secret.take().ok_or(RecordError::Exhausted)?.update();
        self.replace(secret, now);
        Ok(())
    }

    /// Changes how old a key may become, the one in use included.
    pub(crate) const fn rotate(&mut self, rekey: Rekey) {
        self.age_micros_max = rekey.age_micros_max();
    }

    /// Opens under another secret from the next record on; the old one is wiped. The sequence goes on.
    pub(crate) fn replace(&mut self, secret: LinkSecret, now: Moment) {
        self.key = OpenKey::new(&secret);
        self.secret = Some(secret);
        (self.bytes, self.records, self.since) = (0, 0, now);
        self.updates = self.updates.saturating_add(1);
    }

    /// How often the key was replaced.
    pub(crate) const fn updates(&self) -> u64 {
        self.updates
    }
}

#[cfg(test)]
mod tests {
    use sealane_types::Cipher;

    use super::super::{Level, Rekey, Sealer};
    use super::*;
    use crate::handshake::{KeyExchange, Suite};
    use crate::keys::{Label, Root, Secret, Split};
    use crate::limits::{RECORD_HEADER_BYTES, TAG_BYTES};

    const NOW: Moment = Moment::from_micros(0);

    fn secret() -> LinkSecret {
        let part = |byte| Secret::take(&mut [byte; 32]);
        let split = Split { initiator: part(1), responder: part(2) };
        let suite = Suite::new(KeyExchange::Classical, Cipher::Aes256Gcm);
        Root::new(&split, None, suite, [4; 32]).link(Label::Initiator)
    }

    fn ends() -> (Sealer, Opener) {
        (Sealer::new(secret(), Rekey::default(), NOW), Opener::new(secret(), NOW))
    }

    fn carry(sealer: &mut Sealer, opener: &mut Opener, update: bool) -> Result<(), RecordError> {
        let mut record = [0; RECORD_HEADER_BYTES + TAG_BYTES];
        if update {
            sealer.update(&mut record, NOW).unwrap();
        } else {
            sealer.seal(RecordKind::Data, &mut record).unwrap();
        }
        let (head, body) = record.split_first_chunk_mut().unwrap();
        opener.open(Header::parse(*head, Level::Records).unwrap(), body, NOW).map(|_| ())
    }

    #[test]
    fn the_grace_is_two_records_and_twice_the_time() {
        assert_eq!(BYTES_MAX, (64 << 30) + 131_072);
        assert_eq!(RECORDS_MAX, 4_294_967_298);
        assert_eq!(Rekey::default().age_micros_max(), 7_200_000_000);
    }

    #[test]
    fn a_key_past_its_bytes_or_records_is_refused() {
        let (mut sealer, mut opener) = ends();
        (opener.bytes, opener.records) = (BYTES_MAX, RECORDS_MAX - 1);
        assert_eq!(carry(&mut sealer, &mut opener, false), Ok(()));
        assert_eq!(carry(&mut sealer, &mut opener, false), Err(RecordError::KeyOverdue));
        let (mut sealer, mut opener) = ends();
        opener.bytes = BYTES_MAX + 1;
        assert_eq!(carry(&mut sealer, &mut opener, false), Err(RecordError::KeyOverdue));
        // The update itself is what such a key may still seal.
        let (mut sealer, mut opener) = ends();
        carry(&mut sealer, &mut opener, false).unwrap();
        opener.bytes = BYTES_MAX;
        assert_eq!(carry(&mut sealer, &mut opener, true), Ok(()));
        assert_eq!((opener.bytes, opener.records), (0, 0));
    }

    #[test]
    fn a_key_past_its_time_is_refused() {
        const HOUR: u64 = 3_600_000_000;
        const MINUTE: u64 = 60_000_000;
        let overdue = Err(RecordError::KeyOverdue);
        for (interval, age, outcome) in [
            (HOUR, 2 * HOUR, Ok(())),
            (HOUR, 2 * HOUR + 1, overdue),
            (MINUTE, 2 * MINUTE, Ok(())),
            (MINUTE, 2 * MINUTE + 1, overdue),
        ] {
            let (mut sealer, mut opener) = ends();
            opener.rotate(Rekey::new(0, 0, interval));
            let mut record = [0; RECORD_HEADER_BYTES + TAG_BYTES];
            sealer.seal(RecordKind::Data, &mut record).unwrap();
            let (head, body) = record.split_first_chunk_mut().unwrap();
            let header = Header::parse(*head, Level::Records).unwrap();
            assert_eq!(opener.open(header, body, NOW.plus_micros(age)).map(|_| ()), outcome);
        }
    }

    #[test]
    fn a_key_is_not_replaced_unused() {
        let (mut sealer, mut opener) = ends();
        assert_eq!(carry(&mut sealer, &mut opener, true), Err(RecordError::KeyUnused));
        let (sealer, _) = ends();
        assert!(!sealer.update_due(NOW.plus_micros(u64::MAX)));
    }

    #[test]
    fn a_header_is_authenticated() {
        let (mut sealer, mut opener) = ends();
        carry(&mut sealer, &mut opener, false).unwrap();
        let mut record = [0; RECORD_HEADER_BYTES + TAG_BYTES];
        sealer.seal(RecordKind::Data, &mut record).unwrap();
        let header = Header { kind: RecordKind::KeyUpdate, length: TAG_BYTES };
        let body = record.get_mut(RECORD_HEADER_BYTES..).unwrap();
        assert_eq!(opener.open(header, body, NOW), Err(RecordError::Tag));
    }
}
