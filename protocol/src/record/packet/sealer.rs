//! The sending direction of packets.

use super::header::{ConnectionId, HEADER_BYTES, Header, Mask, PacketNumber};
use super::phase::Usage;
use crate::Moment;
use crate::keys::LinkSecret;
use crate::limits::TAG_BYTES;
use crate::record::key::{RecordSequence, SealKey};
use crate::record::{RecordError, Rekey};

/// Seals packets under numbers that never repeat, and replaces its key when it is due.
#[derive(Debug)]
pub(crate) struct PacketSealer {
    secret: LinkSecret,
    key: SealKey,
    mask: Mask,
    next: PacketNumber,
    rekey: Rekey,
    usage: Usage,
    phase: bool,
    /// The first packet of this phase, until one of the phase was acknowledged: two phases live, never three.
    unsettled: Option<PacketNumber>,
    /// A renewal is under way, whose key comes next.
    held: bool,
    /// The key of a renewal, which the next packet is under.
    renewed: Option<LinkSecret>,
    updates: u64,
}

impl PacketSealer {
    pub(crate) fn new(secret: LinkSecret, rekey: Rekey, now: Moment) -> Self {
        let first = PacketNumber(0);
        Self {
            key: SealKey::new(&secret),
            mask: Mask::new(&secret),
            secret,
            next: first,
            rekey,
            usage: Usage::begin(now),
            phase: false,
            unsettled: Some(first),
            held: false,
            renewed: None,
            updates: 0,
        }
    }

    /// Seals `packet`: room for the header, plaintext and room for the tag, in one piece.
    pub(crate) fn seal(
        &mut self,
        to: ConnectionId,
        packet: &mut [u8],
        now: Moment,
    ) -> Result<PacketNumber, RecordError> {
        self.replace_if_due(now);
        let number = self.next;
        let sequence = RecordSequence::of(number);
        let header = Header { to, number, phase: self.phase }.encode();
        let (head, body) = packet.split_first_chunk_mut::<HEADER_BYTES>().ok_or(RecordError::Length)?;
        let (plaintext, tag) = body.split_last_chunk_mut::<TAG_BYTES>().ok_or(RecordError::Length)?;
        let next = number.0.checked_add(1).map(PacketNumber).ok_or(RecordError::Exhausted)?;
        *head = header;
        *tag = self.key.seal(sequence, &header, plaintext)?;
        self.usage.count(plaintext.len());
        self.next = next;
        self.mask.apply(packet).ok_or(RecordError::Length)?;
        Ok(number)
    }

    /// The remote has opened the packet of this number.
    pub(crate) fn acknowledged(&mut self, number: PacketNumber) {
        if self.unsettled.is_some_and(|first| number >= first) {
            self.unsettled = None;
        }
    }

    /// As if the packets before `number` had been sealed.
    #[cfg(test)]
    pub(crate) const fn skip_to(&mut self, number: PacketNumber) {
        self.next = number;
    }

    pub(crate) const fn hold(&mut self) {
        self.held = true;
    }

    /// The next packet is under the first key of a new handshake.
    pub(crate) fn renew(&mut self, secret: LinkSecret, now: Moment) {
        self.held = false;
        self.renewed = Some(secret);
        // Nothing of the old key is used again, whether its last change was seen or not: the handshake that the new one
        // comes from was carried under it, so it was.
        self.unsettled = None;
        self.replace_if_due(now);
    }

    /// Whether the next packet begins a phase because time has passed. It should ask for an acknowledgement: without one
    /// there is no next phase.
    pub(crate) const fn is_aged(&self, now: Moment) -> bool {
        self.may_replace() && self.rekey.due(0, 0, now.micros_since(self.usage.since))
    }

    /// Changes when the key is replaced, the one in use included.
    pub(crate) const fn rotate(&mut self, rekey: Rekey) {
        self.rekey = rekey;
    }

    /// How often the key was replaced.
    pub(crate) const fn updates(&self) -> u64 {
        self.updates
    }

    fn replace_if_due(&mut self, now: Moment) {
        let secret = match self.renewed.take() {
            Some(secret) => secret,
            None if self.update_due(now) => self.secret.successor(),
            None => return,
        };
        self.key = SealKey::new(&secret);
        self.secret = secret;
        self.phase = !self.phase;
        self.usage = Usage::begin(now);
        self.unsettled = Some(self.next);
        self.updates = self.updates.saturating_add(1);
    }

    const fn update_due(&self, now: Moment) -> bool {
        let Usage { bytes, packets, since } = self.usage;
        self.may_replace() && self.rekey.due(bytes, packets, now.micros_since(since))
    }

    /// A key that sealed nothing is never replaced, and none before the remote has seen it.
    const fn may_replace(&self) -> bool {
        !self.held && self.unsettled.is_none() && self.usage.packets > 0
    }
}
