//! What is sealed: every record by itself, where the carrier keeps order, or the packets that carry records, where it
//! does not.
//!
//! A record inside of packets has its header and no tag: what came out of a packet is authenticated. Which of the two a
//! connection does is decided before it has keys and never changes.

use sealane_aead::Plaintext;

use super::packet::{PacketOpener, PacketProof, PacketSealer};
use super::{Header, Opener, RecordError, RecordKind, Rekey, Sealer};
use crate::Moment;
use crate::keys::{Label, LinkSecret, Root};
use crate::limits::{RECORD_HEADER_BYTES, TAG_BYTES};

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Records,
    Packets,
}

impl Level {
    /// What a record of no bytes has behind its header.
    pub(crate) const fn tag_bytes(self) -> usize {
        match self {
            Self::Records => TAG_BYTES,
            Self::Packets => 0,
        }
    }

    /// The secret under which the direction `from` begins.
    pub(crate) fn secret(self, root: &Root, from: Label) -> LinkSecret {
        match self {
            Self::Records => root.link(from),
            Self::Packets => root.datagrams(from),
        }
    }
}

/// Bytes of records as the carrier brought them.
#[derive(Debug)]
pub(crate) enum Unread<'a> {
    /// Every record in them is sealed.
    Sealed(&'a mut [u8]),
    /// They came out of packets that opened.
    Opened(&'a [u8], &'a PacketProof),
}

impl Unread<'_> {
    /// Header and body of the record at their front; `None` while it is incomplete.
    pub(crate) fn into_record(self) -> Result<Option<(Header, Self)>, RecordError> {
        Ok(match self {
            Self::Sealed(bytes) => {
                let Some((head, rest)) = bytes.split_first_chunk_mut() else { return Ok(None) };
                let header = Header::parse(*head, Level::Records)?;
                rest.get_mut(..header.length).map(|body| (header, Self::Sealed(body)))
            }
            Self::Opened(bytes, proof) => {
                let Some((head, rest)) = bytes.split_first_chunk() else { return Ok(None) };
                let header = Header::parse(*head, Level::Packets)?;
                rest.get(..header.length).map(|body| (header, Self::Opened(body, proof)))
            }
        })
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Sealed(bytes) => bytes.len(),
            Self::Opened(bytes, _) => bytes.len(),
        }
    }
}

/// Seals what a connection sends.
#[derive(Debug)]
pub(crate) enum LevelSealer {
    Records(Sealer),
    Packets(Box<PacketSealer>),
}

/// Opens what a connection receives.
#[derive(Debug)]
pub(crate) enum LevelOpener {
    Records(Opener),
    Packets(Box<PacketOpener>),
}

impl LevelSealer {
    pub(crate) fn new(level: Level, secret: LinkSecret, rekey: Rekey, now: Moment) -> Self {
        match level {
            Level::Records => Self::Records(Sealer::new(secret, rekey, now)),
            Level::Packets => Self::Packets(Box::new(PacketSealer::new(secret, rekey, now))),
        }
    }

    pub(crate) const fn level(&self) -> Level {
        match self {
            Self::Records(_) => Level::Records,
            Self::Packets(_) => Level::Packets,
        }
    }

    /// Whether the next record has to be a key update; packets see to themselves.
    pub(crate) const fn update_due(&self, now: Moment) -> bool {
        match self {
            Self::Records(sealer) => sealer.update_due(now),
            Self::Packets(_) => false,
        }
    }

    /// As [`Sealer::update`].
    pub(crate) fn update(&mut self, record: &mut [u8], now: Moment) -> Result<(), RecordError> {
        match self {
            Self::Records(sealer) => sealer.update(record, now),
            Self::Packets(_) => Err(RecordError::Kind),
        }
    }

    /// Seals `record`: header, plaintext and, where records are sealed, room for the tag, in one piece.
    pub(crate) fn seal(&mut self, kind: RecordKind, record: &mut [u8]) -> Result<(), RecordError> {
        match self {
            Self::Records(sealer) => sealer.seal(kind, record),
            Self::Packets(_) => put_header(kind, record),
        }
    }

    /// As [`Sealer::seal_from`]; packets carry no such record.
    pub(crate) fn seal_from(
        &mut self,
        kind: RecordKind,
        plaintext: Plaintext<'_>,
        record: &mut [u8],
    ) -> Result<(), RecordError> {
        match self {
            Self::Records(sealer) => sealer.seal_from(kind, plaintext, record),
            Self::Packets(_) => Err(RecordError::Kind),
        }
    }

    /// Puts the sign that this direction goes on under the first key of a new handshake into `record`. Packets are under
    /// it from the next one on, whatever they carry.
    pub(crate) fn renew(
        &mut self,
        record: &mut [u8],
        secret: LinkSecret,
        now: Moment,
    ) -> Result<(), RecordError> {
        match self {
            Self::Records(sealer) => sealer.renew(record, secret, now),
            Self::Packets(sealer) => {
                sealer.renew(secret, now);
                put_header(RecordKind::Renewed, record)
            }
        }
    }

    /// A renewal is under way: its key comes next, and no other.
    pub(crate) fn renewal_begun(&mut self) {
        if let Self::Packets(sealer) = self {
            sealer.hold();
        }
    }

    pub(crate) const fn rotate(&mut self, rekey: Rekey) {
        match self {
            Self::Records(sealer) => sealer.rotate(rekey),
            Self::Packets(sealer) => sealer.rotate(rekey),
        }
    }

    pub(crate) const fn updates(&self) -> u64 {
        match self {
            Self::Records(sealer) => sealer.updates(),
            Self::Packets(sealer) => sealer.updates(),
        }
    }
}

fn put_header(kind: RecordKind, record: &mut [u8]) -> Result<(), RecordError> {
    let (head, body) = record.split_first_chunk_mut::<RECORD_HEADER_BYTES>().ok_or(RecordError::Length)?;
    *head = Header { kind, length: body.len() }.encode()?;
    Ok(())
}

impl LevelOpener {
    pub(crate) fn new(level: Level, secret: LinkSecret, now: Moment) -> Self {
        match level {
            Level::Records => Self::Records(Opener::new(secret, now)),
            Level::Packets => Self::Packets(Box::new(PacketOpener::new(secret, now))),
        }
    }

    /// What the record of `header` says, with `body` opened in place where records are sealed. After an error the
    /// connection must not go on.
    pub(crate) fn open<'a>(
        &mut self,
        header: Header,
        body: Unread<'a>,
        now: Moment,
    ) -> Result<&'a [u8], RecordError> {
        match (self, body) {
            (Self::Records(opener), Unread::Sealed(body)) => opener.open(header, body, now),
            (Self::Packets(_), Unread::Opened(body, _))
                if matches!(header.kind, RecordKind::Data | RecordKind::Renewed) =>
            {
                Ok(body)
            }
            _ => Err(RecordError::Kind),
        }
    }

    /// The keys of a renewal are shared: packets under the remote's may come from now on.
    pub(crate) fn expect(&mut self, secret: impl FnOnce() -> LinkSecret) {
        if let Self::Packets(opener) = self {
            opener.expect(secret());
        }
    }

    /// The remote's sign that it goes on under the first key of a new handshake has arrived.
    ///
    /// # Errors
    /// It does not: what carried the sign was under another key.
    pub(crate) fn replace(&mut self, secret: LinkSecret, now: Moment) -> Result<(), RecordError> {
        match self {
            Self::Records(opener) => {
                opener.replace(secret, now);
                Ok(())
            }
            Self::Packets(opener) => opener.confirm_renewal(),
        }
    }

    pub(crate) const fn rotate(&mut self, rekey: Rekey) {
        match self {
            Self::Records(opener) => opener.rotate(rekey),
            Self::Packets(opener) => opener.rotate(rekey),
        }
    }

    pub(crate) const fn updates(&self) -> u64 {
        match self {
            Self::Records(opener) => opener.updates(),
            Self::Packets(opener) => opener.updates(),
        }
    }
}
