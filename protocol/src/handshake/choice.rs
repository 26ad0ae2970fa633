//! What a responder chose of the offer: the beginning of message 2's payload.

use super::{HandshakeError, Hello, Suite};
use crate::codec::{CodecError, Reader, Writer};

/// Version, suite and capabilities of a connection.
pub(super) struct Choice {
    pub(super) version: u16,
    pub(super) suite: Suite,
    pub(super) capabilities: u32,
}

impl Choice {
    /// On the wire.
    pub(super) const BYTES: usize = 8;

    /// The capabilities are those that both sides have.
    pub(super) const fn new(version: u16, suite: Suite, offer: &Hello, own_capabilities: u32) -> Self {
        Self { version, suite, capabilities: offer.capabilities & own_capabilities }
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), CodecError> {
        writer.u16(self.version)?;
        writer.u16(self.suite.code())?;
        writer.u32(self.capabilities)
    }

    /// What the other side chose, if `offer` had it.
    pub(super) fn read(reader: &mut Reader<'_>, offer: &Hello) -> Result<Self, HandshakeError> {
        let version = reader.u16()?;
        let suite = Suite::from_code(reader.u16()?).ok_or(HandshakeError::Choice)?;
        let capabilities = reader.u32()?;
        let offered = offer.versions.contains(&version)
            && offer.suites.contains(&suite)
            && capabilities & !offer.capabilities == 0;
        if !offered {
            return Err(HandshakeError::Choice);
        }
        Ok(Self { version, suite, capabilities })
    }
}
