//! Noise as this protocol uses it: XX, or NN under the secret of a ticket, then the raw split, once.

use snow::{Builder, HandshakeState};

use super::resolver::Resolver;
use super::{BeginError, HandshakeError};
use crate::keys::{Secret, Split, StaticKey};
use crate::limits::HANDSHAKE_MESSAGE_BYTES_MAX;

const PATTERN: &str = "Noise_XX_25519_AESGCM_SHA256";
/// Whoever knows the secret of the ticket is one of the two ends of the connection that it came from, so static keys are
/// not shown again.
const PATTERN_RESUMED: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// Which end of the handshake this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Initiator,
    Responder,
}

/// A handshake under way.
pub(super) struct Noise(HandshakeState);

/// What XX yields at the end.
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
        let own = static_key.private().expose();
        begin(side, PATTERN, prologue, ephemeral, |builder| builder.local_private_key(own))
    }

    /// Two messages under the secret of a ticket.
    pub(super) fn resumed(
        side: Side,
        prologue: &[u8],
        ticket: &Secret<32>,
        ephemeral: Secret<32>,
    ) -> Result<Self, BeginError> {
        begin(side, PATTERN_RESUMED, prologue, ephemeral, |builder| builder.psk(0, ticket.expose()))
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

    /// The keys of a finished handshake, and who is at its other end.
    pub(super) fn finish(self) -> Result<NoiseFinished, HandshakeError> {
        let remote_static =
            self.0.get_remote_static().and_then(|key| key.try_into().ok()).ok_or(HandshakeError::Crypto)?;
        let (split, handshake_hash) = self.split()?;
        Ok(NoiseFinished { split, handshake_hash, remote_static })
    }

    /// Takes keys and hash out of a finished handshake and drops the rest. snow does not wipe its own chaining key, nor
    /// its copy of a ticket's secret.
    pub(super) fn split(mut self) -> Result<(Split, [u8; 32]), HandshakeError> {
        if !self.0.is_handshake_finished() {
            return Err(HandshakeError::Crypto);
        }
        let handshake_hash = self.0.get_handshake_hash().try_into().map_err(|_| HandshakeError::Crypto)?;
        let (mut initiator, mut responder) = self.0.dangerously_get_raw_split();
        let split =
            Split { initiator: Secret::take(&mut initiator), responder: Secret::take(&mut responder) };
        Ok((split, handshake_hash))
    }
}

fn begin<'a>(
    side: Side,
    pattern: &str,
    prologue: &'a [u8],
    ephemeral: Secret<32>,
    keyed: impl FnOnce(Builder<'a>) -> Result<Builder<'a>, snow::Error>,
) -> Result<Noise, BeginError> {
    let begin = || {
        let parameters = pattern.parse()?;
        let builder = Builder::with_resolver(parameters, Box::new(Resolver::new(ephemeral)));
        let builder = keyed(builder.prologue(prologue)?)?;
        match side {
            Side::Initiator => builder.build_initiator(),
            Side::Responder => builder.build_responder(),
        }
    };
    begin().map(Noise).map_err(|_: snow::Error| BeginError::Crypto)
}
