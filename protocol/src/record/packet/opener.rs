//! The receiving direction of packets.

use sealane_types::Cipher;

use super::header::{HEADER_BYTES, Header, Mask, PacketNumber};
use super::phase::Usage;
use crate::Moment;
use crate::keys::LinkSecret;
use crate::limits::{
    PACKETS_UNOPENED_CHACHA_MAX, PACKETS_UNOPENED_GCM_MAX, PHASE_BYTES_MAX, PHASE_OVERLAP_MICROS,
    PHASE_RECORDS_MAX, PHASE_SILENCE_MICROS,
};
use crate::record::key::{OpenKey, RecordSequence};
use crate::record::{RecordError, Rekey};

/// What a sender may have sealed before it noticed that its key is spent.
const GRACE: u64 = 1 << 16;

/// Why a packet was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// Anybody may have made it: it is as if it had never come.
    Ignored,
    /// The connection must not go on.
    Fatal(RecordError),
}

/// That a packet opened. Only [`PacketOpener::open`] makes one, and nothing else lets bytes pass for the remote's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PacketProof(());

/// A packet that opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenedPacket<'a> {
    pub(crate) number: PacketNumber,
    pub(crate) plaintext: &'a [u8],
    pub(crate) proof: PacketProof,
}

/// Opens packets in whatever order they come.
///
/// A packet is looked at in three steps: its number may not have been seen, it opens, and then its number is seen. The
/// caller keeps the numbers, and the last step is its.
#[derive(Debug)]
pub(crate) struct PacketOpener {
    secret: LinkSecret,
    key: OpenKey,
    /// Of the phase before, for packets that were overtaken. In a box, as the one after: they are there for moments.
    previous: Option<Box<(OpenKey, Moment)>>,
    /// Of the phase after: made when the first packet asks for it, and kept, so that strangers' packets cost no more than
    /// an attempt to open them.
    next: Option<Box<(LinkSecret, OpenKey)>>,
    /// Whether the next phase is that of a renewal.
    renews: bool,
    /// Whether this phase came from a renewal whose sign has not been seen.
    renewed: bool,
    mask: Mask,
    phase: bool,
    /// The first number that was seen in this phase.
    first: PacketNumber,
    /// Behind the newest number that was seen.
    expected: u64,
    usage: Usage,
    age_micros_max: u64,
    unopened: u64,
    unopened_max: u64,
    updates: u64,
}

impl PacketOpener {
    pub(crate) fn new(secret: LinkSecret, now: Moment) -> Self {
        let unopened_max = match secret.suite().cipher {
            Cipher::Aes256Gcm | Cipher::Aes128Gcm => PACKETS_UNOPENED_GCM_MAX,
            // The draft bounds attempts at tags of 128 bits far above.
            Cipher::ChaCha20Poly1305 | Cipher::Aegis256X4 => PACKETS_UNOPENED_CHACHA_MAX,
        };
        Self {
            key: OpenKey::new(&secret),
            mask: Mask::new(&secret),
            secret,
            previous: None,
            next: None,
            renews: false,
            renewed: false,
            phase: false,
            first: PacketNumber(0),
            expected: 0,
            usage: Usage::begin(now),
            age_micros_max: Rekey::default().age_micros_max(),
            unopened: 0,
            unopened_max,
            updates: 0,
        }
    }

    /// Opens `packet` in place, unless `is_seen` knows its number.
    pub(crate) fn open<'a>(
        &mut self,
        packet: &'a mut [u8],
        now: Moment,
        is_seen: impl FnOnce(PacketNumber) -> bool,
    ) -> Result<OpenedPacket<'a>, OpenError> {
        self.mask.apply(packet).ok_or(OpenError::Ignored)?;
        let (head, sealed) = packet.split_first_chunk_mut::<HEADER_BYTES>().ok_or(OpenError::Ignored)?;
        let Some(header) = Header::parse(*head, self.expected) else { return Err(self.failed()) };
        if is_seen(header.number) {
            return Err(OpenError::Ignored);
        }
        let sequence = RecordSequence::of(header.number);
        let which = self.which(&header, now);
        let key = match which {
            Which::Current => &self.key,
            Which::Previous => match &self.previous {
                Some(previous) => &previous.0,
                None => return Err(OpenError::Ignored),
            },
            Which::Next => self.next_key(),
        };
        let Ok(plaintext) = key.open(sequence, head, sealed) else { return Err(self.failed()) };
        if matches!(which, Which::Next) {
            self.advance(header.number, now)?;
        }
        self.expected = self.expected.max(header.number.0.saturating_add(1));
        if !matches!(which, Which::Previous) {
            self.first = self.first.min(header.number);
            self.count(plaintext.len(), now)?;
        }
        Ok(OpenedPacket { number: header.number, plaintext, proof: PacketProof(()) })
    }

    /// Packets may come under the first key of a new handshake.
    pub(crate) fn expect(&mut self, secret: LinkSecret) {
        let key = OpenKey::new(&secret);
        self.next = Some(Box::new((secret, key)));
        self.renews = true;
    }

    /// The sign of a renewal came: what carried it must have been under the new key. The old one is wiped.
    pub(crate) fn confirm_renewal(&mut self) -> Result<(), RecordError> {
        if !std::mem::take(&mut self.renewed) {
            return Err(RecordError::Kind);
        }
        self.previous = None;
        Ok(())
    }

    /// Changes how old a key may become, the one in use included.
    pub(crate) const fn rotate(&mut self, rekey: Rekey) {
        self.age_micros_max = rekey.age_micros_max();
    }

    /// How often the key was replaced.
    pub(crate) const fn updates(&self) -> u64 {
        self.updates
    }

    fn which(&mut self, header: &Header, now: Moment) -> Which {
        if self.previous.as_ref().is_some_and(|previous| now >= previous.1) {
            self.previous = None;
        }
        if header.phase == self.phase {
            Which::Current
        } else if header.number < self.first {
            Which::Previous
        } else {
            Which::Next
        }
    }

    fn next_key(&mut self) -> &OpenKey {
        let secret = &self.secret;
        let next = self.next.get_or_insert_with(|| {
            let secret = secret.successor();
            let key = OpenKey::new(&secret);
            Box::new((secret, key))
        });
        &next.1
    }

    /// The remote has replaced its key. It may not make us do so without using it.
    fn advance(&mut self, first: PacketNumber, now: Moment) -> Result<(), OpenError> {
        let Some((secret, key)) = self.next.take().map(|next| *next) else { return Err(OpenError::Ignored) };
        let renews = std::mem::take(&mut self.renews);
        if self.usage.packets == 0 && !renews {
            return Err(OpenError::Fatal(RecordError::KeyUnused));
        }
        let until = now.plus_micros(PHASE_OVERLAP_MICROS);
        self.previous = Some(Box::new((std::mem::replace(&mut self.key, key), until)));
        self.secret = secret;
        self.phase = !self.phase;
        self.first = first;
        self.renewed |= renews;
        self.usage = Usage::begin(now);
        self.updates = self.updates.saturating_add(1);
        Ok(())
    }

    fn count(&mut self, bytes: usize, now: Moment) -> Result<(), OpenError> {
        self.usage.count(bytes);
        let Usage { bytes, packets, since } = self.usage;
        let overdue = bytes > PHASE_BYTES_MAX.saturating_add(GRACE)
            || packets > PHASE_RECORDS_MAX.saturating_add(GRACE)
            || now.micros_since(since) > self.age_micros_max.saturating_add(PHASE_SILENCE_MICROS);
        if overdue { Err(OpenError::Fatal(RecordError::KeyOverdue)) } else { Ok(()) }
    }

    /// One more forgery; so many are not worth the risk that one succeeds (RFC 9001 §6.6).
    fn failed(&mut self) -> OpenError {
        self.unopened = self.unopened.saturating_add(1);
        let fatal = self.unopened > self.unopened_max;
        if fatal { OpenError::Fatal(RecordError::Tag) } else { OpenError::Ignored }
    }
}

/// The phase of a packet, from where we stand.
#[derive(Debug, Clone, Copy)]
enum Which {
    Previous,
    Current,
    Next,
}
