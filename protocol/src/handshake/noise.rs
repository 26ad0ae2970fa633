//! Noise XX as this protocol uses it: three messages, then the raw split, once.

use snow::{Builder, HandshakeState};

use super::resolver::Resolver;
use super::{BeginError, HandshakeError};
use crate::keys::{Secret, Split, StaticKey};
use crate::limits::HANDSHAKE_MESSAGE_BYTES_MAX;

const PATTERN: &str = "Noise_XX_25519_AESGCM_SHA256";

/// Which end of the handshake this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Initiator,
    Responder,
}

/// A handshake under way.
pub(super) struct Noise(HandshakeState);

/// What Noise yields at the end.
pub(super) struct NoiseFinished {
    pub(super) split: Split,
    pub(super) handshake_hash: [u8; 32],
    pub(super) remote_static: [u8; 32],
}

impl Noise {
    /// `ephemeral` is the private key that this side will use, drawn by the caller.
    pub(super) fn new(
        side: Side,
        prologue: &[u8],
        static_key: &StaticKey,
        ephemeral: Secret<32>,
    ) -> Result<Self, BeginError> {
        let begin = || {
            let parameters = PATTERN.parse()?;
            let builder = Builder::with_resolver(parameters, Box::new(Resolver::new(ephemeral)))
                .prologue(prologue)?
                .local_private_key(static_key.private().expose())?;
            match side {
                Side::Initiator => builder.build_initiator(),
                Side::Responder => builder.build_responder(),
            }
        };
        begin().map(Self).map_err(|_: snow::Error| BeginError::Crypto)
    }

    pub(super) fn write(&mut self, payload: &[u8]) -> Result<Vec<u8>, HandshakeError> {
        let mut message = vec![0; HANDSHAKE_MESSAGE_BYTES_MAX];
        let length = self.0.write_message(payload, &mut message).map_err(|_| HandshakeError::Crypto)?;
        message.truncate(length);
        Ok(message)
    }

    pub(super) fn read(&mut self, message: &[u8]) -> Result<Vec<u8>, HandshakeError> {
        if message.len() > HANDSHAKE_MESSAGE_BYTES_MAX {
            return Err(crate::codec::CodecError::TooLong.into());
        }
        let mut payload = vec![0; message.len()];
        let length = self.0.read_message(message, &mut payload).map_err(|_| HandshakeError::Crypto)?;
        payload.truncate(length);
        Ok(payload)
    }

    /// Takes the keys out of a finished handshake and drops the rest. snow does not wipe its own chaining key.
    pub(super) fn finish(mut self) -> Result<NoiseFinished, HandshakeError> {
        if !self.0.is_handshake_finished() {
            return Err(HandshakeError::Crypto);
        }
        let handshake_hash = self.0.get_handshake_hash().try_into().map_err(|_| HandshakeError::Crypto)?;
        let remote_static =
            self.0.get_remote_static().and_then(|key| key.try_into().ok()).ok_or(HandshakeError::Crypto)?;
        let (mut initiator, mut responder) = self.0.dangerously_get_raw_split();
        let split =
            Split { initiator: Secret::take(&mut initiator), responder: Secret::take(&mut responder) };
        Ok(NoiseFinished { split, handshake_hash, remote_static })
    }
}
