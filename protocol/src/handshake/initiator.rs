//! The dialling side.

use super::choice::Choice;
use super::noise::{Noise, Side};
use super::{BeginError, Finished, HandshakeError, Hello, Kind, Suite, VERSIONS};
use crate::codec::Reader;
use crate::keys::{Decapsulate, Kem, Random, Root, Secret, StaticKey};

/// The offer is out, message 2 is awaited.
pub(crate) struct Initiator {
    noise: Noise,
    private: Option<Box<dyn Decapsulate>>,
    hello: Hello,
    own_static: [u8; 32],
}

/// What goes out first: the hello, then message 1.
pub(crate) struct Opening {
    pub(crate) hello: Vec<u8>,
    pub(crate) message: Vec<u8>,
}

impl Initiator {
    /// `suites` is the whole offer: only what the floor permits may be in it.
    pub(crate) fn begin(
        kind: Kind,
        suites: Vec<Suite>,
        capabilities: u32,
        static_key: &StaticKey,
        kem: &dyn Kem,
        random: &mut dyn Random,
    ) -> Result<(Self, Opening), BeginError> {
        // What carries nothing has nothing to resume.
        let capabilities = if kind == Kind::Audit { 0 } else { capabilities };
        let versions = VERSIONS.to_vec();
        let hello = Hello { kind: Some(kind), versions, suites, capabilities, ticket: None };
        let bytes = hello.encode().map_err(|_| BeginError::Crypto)?;
        let ephemeral = Secret::random(random)?;
        let noise = Noise::new(Side::Initiator, &bytes, static_key, ephemeral)?;
        let (initiator, message) = Self::offer(noise, hello, static_key, kem)?;
        Ok((initiator, Opening { hello: bytes, message }))
    }

    /// Message 1, with the key that any hybrid suite of the offer needs.
    pub(super) fn offer(
        mut noise: Noise,
        hello: Hello,
        static_key: &StaticKey,
        kem: &dyn Kem,
    ) -> Result<(Self, Vec<u8>), BeginError> {
        let hybrid = hello.suites.iter().any(|suite| suite.post_quantum());
        let pair = if hybrid { Some(kem.generate()?) } else { None };
        let payload: &[u8] = pair.as_ref().map_or(&[], |(_, public)| public);
        let message = noise.write(payload).map_err(|_| BeginError::Crypto)?;
        let private = pair.map(|(private, _)| private);
        let initiator = Self { noise, private, hello, own_static: *static_key.public() };
        Ok((initiator, message))
    }

    /// Takes message 2 and yields message 3 with the keys.
    pub(crate) fn on_message2(mut self, message: &[u8]) -> Result<(Finished, Vec<u8>), HandshakeError> {
        let payload = self.noise.read(message)?;
        let mut reader = Reader::new(&payload);
        let Choice { version, suite, capabilities } = Choice::read(&mut reader, &self.hello)?;
        let shared = if suite.post_quantum() {
            let private = self.private.take().ok_or(HandshakeError::Choice)?;
            let ciphertext = reader.array()?;
            Some(private.decapsulate(&ciphertext).map_err(|_| HandshakeError::Crypto)?)
        } else {
            None
        };
        reader.finish()?;
        let reply = self.noise.write(&[])?;
        let noise = self.noise.finish()?;
        if noise.remote_static == self.own_static {
            return Err(HandshakeError::Reflected);
        }
        let finished = Finished {
            root: Root::new(&noise.split, shared.as_ref(), suite, noise.handshake_hash),
            handshake_hash: noise.handshake_hash,
            remote_static: noise.remote_static,
            suite,
            version,
            kind: self.hello.kind.ok_or(HandshakeError::Kind)?,
            capabilities,
        };
        Ok((finished, reply))
    }
}
