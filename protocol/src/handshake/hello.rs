//! The one message in clear. Its exact bytes are the Noise prologue, so a changed offer breaks the handshake.
//!
//! ```text
//! magic (8) ‖ u16 length of what follows ‖ kind (1) ‖ u8 n ‖ versions (2n) ‖ u8 m ‖ suites (2m)
//!           ‖ capabilities (4) ‖ ticket (16, where a connection is resumed) ‖ extensions
//! ```
//!
//! This layout is the same in every version. A receiver skips versions, suites, capability bits and extensions
//! that it does not know; the prologue covers them all the same.

use super::{HandshakeError, Kind, Suite};
use crate::codec::{CodecError, Reader, Writer};
use crate::keys::TicketId;
use crate::limits::{HELLO_BYTES_MAX, HELLO_LIST_MAX};

const MAGIC: &[u8; 8] = b"SEALANE\0";
const FIXED_BYTES: usize = MAGIC.len() + 2;

/// An initiator's offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    /// `None` for a kind that this build does not know.
    pub(crate) kind: Option<Kind>,
    pub(crate) versions: Vec<u16>,
    /// The suites that this build knows, in the initiator's order.
    pub(crate) suites: Vec<Suite>,
    pub(crate) capabilities: u32,
    /// There exactly when a connection is resumed.
    pub(crate) ticket: Option<TicketId>,
}

impl Hello {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let mut bytes = vec![0; HELLO_BYTES_MAX];
        let (fixed, body) = bytes.split_first_chunk_mut::<FIXED_BYTES>().ok_or(CodecError::NoRoom)?;
        let mut writer = Writer::new(body);
        writer.u8(self.kind.ok_or(CodecError::Value)? as u8)?;
        writer.u8(listed(self.versions.len())?)?;
        self.versions.iter().try_for_each(|version| writer.u16(*version))?;
        writer.u8(listed(self.suites.len())?)?;
        self.suites.iter().try_for_each(|suite| writer.u16(suite.code()))?;
        writer.u32(self.capabilities)?;
        self.ticket.iter().try_for_each(|ticket| writer.put(&ticket.0))?;
        let body = writer.used();
        let mut writer = Writer::new(fixed);
        writer.put(MAGIC)?;
        writer.u16(u16::try_from(body).map_err(|_| CodecError::TooLong)?)?;
        bytes.truncate(body.saturating_add(FIXED_BYTES));
        debug_assert_eq!(Self::parse(&bytes), Ok(Some((self.clone(), bytes.len()))));
        Ok(bytes)
    }

    /// The hello at the front of `input` and its length, or `None` while more bytes are needed. What cannot
    /// become a hello is refused at its first wrong byte.
    pub(crate) fn parse(input: &[u8]) -> Result<Option<(Self, usize)>, HandshakeError> {
        if MAGIC.iter().zip(input).any(|(expected, byte)| expected != byte) {
            return Err(HandshakeError::NotSealane);
        }
        let Some((fixed, rest)) = input.split_first_chunk::<FIXED_BYTES>() else { return Ok(None) };
        let mut reader = Reader::new(fixed);
        reader.take(MAGIC.len())?;
        let length = usize::from(reader.u16()?);
        let total = length.saturating_add(FIXED_BYTES);
        if total > HELLO_BYTES_MAX {
            return Err(CodecError::TooLong.into());
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        Ok(Some((Self::read(&mut Reader::new(body))?, total)))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let kind = Kind::from_code(reader.u8()?);
        let list = |reader: &mut Reader<'_>| -> Result<Vec<u16>, CodecError> {
            let count = usize::from(reader.u8()?);
            if count > HELLO_LIST_MAX {
                return Err(CodecError::TooLong);
            }
            (0..count).map(|_| reader.u16()).collect()
        };
        let versions = list(reader)?;
        let suites = list(reader)?.into_iter().filter_map(Suite::from_code).collect();
        let capabilities = reader.u32()?;
        let ticket = (kind == Some(Kind::Resume)).then(|| reader.array().map(TicketId)).transpose()?;
        Ok(Self { kind, versions, suites, capabilities, ticket })
    }
}

fn listed(count: usize) -> Result<u8, CodecError> {
    if count > HELLO_LIST_MAX {
        return Err(CodecError::TooLong);
    }
    u8::try_from(count).map_err(|_| CodecError::TooLong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_types::Cipher;

    fn hello() -> Hello {
        Hello {
            kind: Some(Kind::Full),
            versions: vec![1],
            suites: Suite::offer(Cipher::ALL, true),
            capabilities: 0,
            ticket: None,
        }
    }

    #[test]
    fn arrives_in_any_fragmentation() {
        let bytes = hello().encode().unwrap();
        for length in 0..bytes.len() {
            assert_eq!(Hello::parse(&bytes[..length]), Ok(None), "{length}");
        }
        let mut longer = bytes.clone();
        longer.extend_from_slice(b"next message");
        assert_eq!(Hello::parse(&longer), Ok(Some((hello(), bytes.len()))));
    }

    #[test]
    fn what_a_later_version_adds_is_skipped() {
        let mut bytes = hello().encode().unwrap();
        bytes.extend_from_slice(b"extension");
        let length = (bytes.len() - FIXED_BYTES) as u16;
        bytes[8..10].copy_from_slice(&length.to_be_bytes());
        bytes[12..14].copy_from_slice(&0x7777_u16.to_be_bytes()); // an unknown version in place of ours
        let (parsed, used) = Hello::parse(&bytes).unwrap().unwrap();
        assert_eq!(used, bytes.len());
        assert_eq!(parsed.suites, hello().suites);
    }

    #[test]
    fn a_ticket_is_named_exactly_where_a_connection_is_resumed() {
        let ticket = Some(TicketId([7; 16]));
        let resume = Hello { kind: Some(Kind::Resume), ticket, ..hello() };
        let bytes = resume.encode().unwrap();
        assert_eq!(bytes.len(), hello().encode().unwrap().len() + 16);
        assert_eq!(Hello::parse(&bytes), Ok(Some((resume, bytes.len()))));
        let mut shorter = bytes[..bytes.len() - 1].to_vec();
        let length = (shorter.len() - FIXED_BYTES) as u16;
        shorter[8..10].copy_from_slice(&length.to_be_bytes());
        assert_eq!(Hello::parse(&shorter), Err(HandshakeError::Malformed(CodecError::Truncated)));
    }

    #[test]
    fn one_that_is_too_long_is_not_waited_for() {
        let of_length = |total: usize| [&MAGIC[..], &((total - FIXED_BYTES) as u16).to_be_bytes()].concat();
        assert_eq!(Hello::parse(&of_length(HELLO_BYTES_MAX)), Ok(None));
        let refused = Hello::parse(&of_length(HELLO_BYTES_MAX + 1));
        assert_eq!(refused, Err(HandshakeError::Malformed(CodecError::TooLong)));
    }

    #[test]
    fn another_protocol_is_refused_at_its_first_byte() {
        assert_eq!(Hello::parse(b"G"), Err(HandshakeError::NotSealane));
        assert_eq!(Hello::parse(b"SEALANE\x01"), Err(HandshakeError::NotSealane));
        assert!(Hello::parse(b"SEALANE\0\xff\xff").is_err());
    }
}
