//! Frames that the connections exchange about themselves.

use std::sync::Arc;

use sealane_attestation::TrustConfiguration;
use sealane_attestation::limits::TRUST_CONFIGURATION_BYTES_MAX;
use sealane_types::{Digest, PeerName, PodIdentity, Reason, SessionName};

use crate::codec::{CodecError, Reader, Writer};
use crate::keys::TicketId;

/// A frame that never reaches a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Control<'a> {
    /// The first frame of each direction.
    Confirm(Confirm),
    Policy(Fragment<'a>),
    Evidence(Fragment<'a>),
    /// The initiator has accepted the responder's evidence: data may flow.
    Ready,
    Ping(u64),
    Pong(u64),
    /// Zero bytes that hide the length of what travels beside them.
    Pad,
    Close(Reason),
    /// A Noise message of the handshake by which an established connection is attested again.
    Renew {
        step: u8,
        message: &'a [u8],
    },
    /// The initiator may resume this connection, once, within so many seconds.
    Ticket {
        id: TicketId,
        seconds: u32,
    },
}

/// What a side says about itself in the first record: it confirms the keys, and everything in it is a claim
/// until evidence proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confirm {
    pub(crate) version: u16,
    /// The Peer that this side belongs to.
    pub(crate) peer: PeerName,
    /// The Peer that this side expects at the other end.
    pub(crate) expected: PeerName,
    pub(crate) session: SessionName,
    pub(crate) pod: PodIdentity,
    /// Epoch of the policy that this side holds; zero when it holds none.
    pub(crate) epoch: u64,
    /// SHA-256 of that policy's exact bytes; zeros when it holds none.
    pub(crate) digest: Digest,
    /// What decides which policies this side follows.
    pub(crate) trust: Arc<TrustConfiguration>,
}

/// Part of a policy chain or of an evidence message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment<'a> {
    /// Epoch of the policy; zero for evidence.
    pub(crate) epoch: u64,
    pub(crate) total: u32,
    pub(crate) offset: u32,
    pub(crate) bytes: &'a [u8],
}

/// Longest name of RFC 1123, and three of them with two slashes.
const NAME_BYTES_MAX: usize = 253;
const POD_BYTES_MAX: usize = 3 * NAME_BYTES_MAX + 2;

impl Confirm {
    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), CodecError> {
        writer.u16(self.version)?;
        writer.text(self.peer.as_str())?;
        writer.text(self.expected.as_str())?;
        writer.text(self.session.as_str())?;
        writer.text(self.pod.as_str())?;
        writer.u64(self.epoch)?;
        writer.put(self.digest.as_bytes())?;
        writer.put_prefixed(&self.trust.to_bytes())
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, CodecError> {
        let peer = |reader: &mut Reader<'_>| {
            PeerName::new(reader.text(NAME_BYTES_MAX)?).map_err(|_| CodecError::Value)
        };
        Ok(Self {
            version: reader.u16()?,
            peer: peer(reader)?,
            expected: peer(reader)?,
            session: SessionName::new(reader.text(NAME_BYTES_MAX)?).map_err(|_| CodecError::Value)?,
            pod: PodIdentity::try_from(reader.text(POD_BYTES_MAX)?.to_owned())
                .map_err(|_| CodecError::Value)?,
            epoch: reader.u64()?,
            digest: Digest::new(reader.array()?),
            trust: TrustConfiguration::parse(reader.prefixed(TRUST_CONFIGURATION_BYTES_MAX)?)
                .map(Arc::new)
                .map_err(|_| CodecError::Value)?,
        })
    }
}
