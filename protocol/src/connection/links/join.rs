//! The greeting of a further link and its answer.

use std::sync::Arc;

use super::{LinkSender, LinkTerms};
use crate::Moment;
use crate::codec::{CodecError, Reader, Writer};
use crate::connection::{Fail, StartError};
use crate::handshake::{HandshakeError, VERSIONS};
use crate::keys::{Label, Random, Secret};
use crate::limits::{LINKS_MAX, RECORD_HEADER_BYTES};
use crate::record::{Header, Level, RecordKind, Rekey};

const MAGIC: &[u8; 8] = b"SEALANE\0";
/// In the place of a kind of connection.
const JOIN: u8 = 2;
/// Kind, one version, no suites, no capabilities, name, link, nonce, proof.
const BODY_BYTES: usize = 1 + 1 + 2 + 1 + 4 + 16 + 4 + 32 + 32;
/// The greeting of a further link.
pub const LINK_GREETING_BYTES: usize = MAGIC.len() + 2 + BODY_BYTES;
const ANSWER_BYTES: usize = 64;

/// Whether what somebody says first greets a further link; None while that cannot be told.
#[must_use]
pub fn joins(input: &[u8]) -> Option<bool> {
    if MAGIC.iter().zip(input).any(|(expected, byte)| expected != byte) {
        return Some(false);
    }
    input.get(MAGIC.len().saturating_add(2)).map(|kind| *kind == JOIN)
}

/// A greeting that has arrived. Nothing of it is proved until [`LinkTerms::admit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRequest {
    /// See [`LinkTerms::name`].
    pub name: [u8; 16],
    pub(super) link: u8,
    pub(super) nonce: [u8; 32],
    pub(super) proof: [u8; 32],
}

impl JoinRequest {
    /// Which of the connection's links it is, from 1 on.
    #[must_use]
    pub const fn link(&self) -> u8 {
        self.link
    }

    /// Reads a greeting, which has that length.
    ///
    /// # Errors
    /// [`HandshakeError`] when it is none, or is of another version.
    pub fn parse(greeting: &[u8; LINK_GREETING_BYTES]) -> Result<Self, HandshakeError> {
        let mut reader = Reader::new(greeting);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(HandshakeError::NotSealane);
        }
        if usize::from(reader.u16()?) != BODY_BYTES {
            return Err(CodecError::Value.into());
        }
        if reader.u8()? != JOIN {
            return Err(HandshakeError::Kind);
        }
        if reader.u8()? != 1 || !VERSIONS.contains(&reader.u16()?) {
            return Err(HandshakeError::Version);
        }
        if reader.u8()? != 0 || reader.u32()? != 0 {
            return Err(CodecError::Value.into());
        }
        let name = reader.array()?;
        let link = u8::try_from(reader.u32()?).ok().filter(|link| *link > 0 && *link < LINKS_MAX);
        let link = link.ok_or(CodecError::Value)?;
        Ok(Self { name, link, nonce: reader.array()?, proof: reader.array()? })
    }

    fn write(&self) -> Result<Vec<u8>, CodecError> {
        let mut bytes = vec![0; LINK_GREETING_BYTES];
        let mut writer = Writer::new(&mut bytes);
        writer.put(MAGIC)?;
        writer.u16(u16::try_from(BODY_BYTES).map_err(|_| CodecError::TooLong)?)?;
        writer.u8(JOIN)?;
        writer.u8(1)?;
        VERSIONS.iter().take(1).try_for_each(|version| writer.u16(*version))?;
        writer.u8(0)?;
        writer.u32(0)?;
        writer.put(&self.name)?;
        writer.u32(self.link.into())?;
        writer.put(&self.nonce)?;
        writer.put(&self.proof)?;
        Ok(bytes)
    }
}

/// The side that dials a further link, before it is answered.
#[derive(Debug)]
pub struct Joiner {
    terms: Arc<LinkTerms>,
    link: u8,
    nonce: [u8; 32],
}

impl Joiner {
    pub(super) fn new(terms: Arc<LinkTerms>, link: u8, random: &mut dyn Random) -> Result<Self, StartError> {
        let mut nonce = [0; 32];
        random.fill(&mut nonce)?;
        Ok(Self { terms, link, nonce })
    }

    /// Which of the connection's links it is, from 1 on.
    #[must_use]
    pub const fn link(&self) -> u8 {
        self.link
    }

    /// What it says first.
    ///
    /// # Errors
    /// [`StartError::Crypto`].
    pub fn greeting(&self) -> Result<Vec<u8>, StartError> {
        let Self { terms, link, nonce } = self;
        let proof = *terms.joining.proof(Label::Initiator, *link, nonce).expose();
        let request = JoinRequest { name: terms.name(), link: *link, nonce: *nonce, proof };
        request.write().map_err(|_| StartError::Crypto)
    }

    /// The answer at the front of `input` and its length, or None while it is incomplete.
    ///
    /// # Errors
    /// [`Fail`]: the other side refused, or is not the one that the connection is with.
    pub fn on_answer(
        &self,
        input: &[u8],
        rekey: Rekey,
        now: Moment,
    ) -> Result<Option<(LinkSender, usize)>, Fail> {
        let Some((message, used)) = crate::connection::opening::handshake_message(Level::Records, input)?
        else {
            return Ok(None);
        };
        let mut reader = Reader::new(message);
        let theirs = reader.array::<32>().map_err(HandshakeError::from)?;
        let mut proof = reader.array::<32>().map_err(HandshakeError::from)?;
        reader.finish().map_err(HandshakeError::from)?;
        let nonces = both(&self.nonce, &theirs);
        let Self { terms, link, .. } = self;
        if Secret::take(&mut proof) != terms.joining.proof(Label::Responder, *link, &nonces) {
            return Err(HandshakeError::Crypto.into());
        }
        Ok(Some((LinkSender::new(terms.joining.link(*link, &nonces), rekey, now), used)))
    }
}

pub(super) fn both(initiator: &[u8; 32], responder: &[u8; 32]) -> [u8; 64] {
    let mut nonces = [0; 64];
    let (first, second) = nonces.split_at_mut(32);
    first.copy_from_slice(initiator);
    second.copy_from_slice(responder);
    nonces
}

pub(super) fn answer(nonce: &[u8; 32], proof: &Secret<32>) -> Result<Vec<u8>, Fail> {
    let header = Header { kind: RecordKind::Handshake, length: ANSWER_BYTES }.encode()?;
    debug_assert_eq!(header.len(), RECORD_HEADER_BYTES);
    Ok([&header[..], nonce, proof.expose()].concat())
}
