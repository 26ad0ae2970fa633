//! A handshake inside a connection: the same three messages and keys, but nothing is offered or chosen.

use std::sync::Arc;

use super::noise::{Noise, Side};
use super::{BeginError, HandshakeError, Hello, Initiator, Kind, Responder, ResponderWaiting, Suite};
use crate::keys::{Kem, Random, Secret, StaticKey};

/// Starts the prologue; the hash of the handshake before follows.
const PROLOGUE: &[u8] = b"sealane/1 reattest\0";

/// What goes on from the handshake before.
pub(crate) struct Terms {
    pub(crate) handshake_hash: [u8; 32],
    pub(crate) version: u16,
    pub(crate) kind: Kind,
    pub(crate) suite: Suite,
    pub(crate) capabilities: u32,
}

impl Terms {
    /// Both sides know it, so it does not travel.
    fn hello(&self) -> Hello {
        let Self { version, kind, suite, capabilities, .. } = *self;
        let (versions, suites) = (vec![version], vec![suite]);
        Hello { kind: Some(kind), versions, suites, capabilities, ticket: None }
    }

    pub(crate) fn prologue(&self) -> Vec<u8> {
        [PROLOGUE, &self.handshake_hash].concat()
    }
}

impl Initiator {
    /// Begins a handshake that renews an earlier one, and yields message 1.
    pub(crate) fn again(
        terms: &Terms,
        static_key: &StaticKey,
        kem: &dyn Kem,
        random: &mut dyn Random,
    ) -> Result<(Self, Vec<u8>), BeginError> {
        let ephemeral = Secret::random(random)?;
        let noise = Noise::new(Side::Initiator, &terms.prologue(), static_key, ephemeral)?;
        Self::offer(noise, terms.hello(), static_key, kem)
    }
}

/// Takes message 1 of a handshake that renews an earlier one, and yields message 2.
pub(crate) fn answer_renewal(
    terms: &Terms,
    static_key: Arc<StaticKey>,
    kem: Arc<dyn Kem>,
    message: &[u8],
    random: &mut dyn Random,
) -> Result<(ResponderWaiting, Vec<u8>), HandshakeError> {
    let ephemeral = Secret::random(random).map_err(|_| HandshakeError::Crypto)?;
    let (suites, capabilities) = (vec![terms.suite], terms.capabilities);
    let responder = Responder { static_key, kem, suites, audit: false, capabilities, ephemeral };
    responder.on_message1(&terms.hello(), &terms.prologue(), message)
}
