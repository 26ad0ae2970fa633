//! The accepting side.

use std::sync::Arc;

use super::choice::Choice;
use super::noise::{Noise, Side};
use super::{Finished, HandshakeError, Hello, Kind, Suite, VERSIONS};
use crate::codec::{CodecError, Writer};
use crate::keys::{Kem, Root, Secret, StaticKey};
use crate::limits::{KEM_CIPHERTEXT_BYTES, KEM_KEY_BYTES};

/// Nothing has arrived yet.
pub(crate) struct Responder {
    pub(crate) static_key: Arc<StaticKey>,
    pub(crate) kem: Arc<dyn Kem>,
    /// Suites that may be chosen: only what the floor permits.
    pub(crate) suites: Vec<Suite>,
    pub(crate) audit: bool,
    pub(crate) capabilities: u32,
    /// Drawn when the connection began, since no source of randomness is at hand later.
    pub(crate) ephemeral: Secret<32>,
}

/// Message 2 is out, message 3 is awaited.
pub(crate) struct ResponderWaiting {
    noise: Noise,
    shared: Option<Secret<32>>,
    suite: Suite,
    version: u16,
    kind: Kind,
    capabilities: u32,
    own_static: [u8; 32],
}

impl Responder {
    /// Whether this hello can lead anywhere: checked before message 1 is waited for or any key is computed.
    pub(crate) fn choose(&self, hello: &Hello) -> Result<(Kind, u16, Suite), HandshakeError> {
        let kind = hello.kind.ok_or(HandshakeError::Kind)?;
        if kind == Kind::Audit && !self.audit {
            return Err(HandshakeError::Audit);
        }
        let version = VERSIONS.iter().find(|version| hello.versions.contains(version));
        let version = *version.ok_or(HandshakeError::Version)?;
        let suite = hello.suites.iter().find(|suite| self.suites.contains(suite));
        Ok((kind, version, *suite.ok_or(HandshakeError::Suite)?))
    }

    /// Takes message 1, behind the hello with exactly these bytes, and yields message 2.
    pub(crate) fn on_message1(
        self,
        hello: &Hello,
        hello_bytes: &[u8],
        message: &[u8],
    ) -> Result<(ResponderWaiting, Vec<u8>), HandshakeError> {
        let (kind, version, suite) = self.choose(hello)?;
        let own_static = *self.static_key.public();
        let mut noise = Noise::new(Side::Responder, hello_bytes, &self.static_key, self.ephemeral)
            .map_err(|_| HandshakeError::Crypto)?;
        let payload = noise.read(message)?;
        let key: Option<&[u8; KEM_KEY_BYTES]> = match payload.as_slice() {
            [] => None,
            bytes => Some(bytes.try_into().map_err(|_| CodecError::Value)?),
        };
        let (ciphertext, shared) = if suite.post_quantum() {
            let key = key.ok_or(CodecError::Truncated)?;
            let (ciphertext, shared) = self.kem.encapsulate(key).map_err(|_| HandshakeError::Crypto)?;
            (Some(ciphertext), Some(shared))
        } else {
            (None, None)
        };
        let mut payload = [0; Choice::BYTES + KEM_CIPHERTEXT_BYTES];
        let mut writer = Writer::new(&mut payload);
        let choice = Choice::new(version, suite, hello, self.capabilities);
        choice.write(&mut writer)?;
        if let Some(ciphertext) = &ciphertext {
            writer.put(ciphertext)?;
        }
        let used = writer.used();
        let reply = noise.write(payload.get(..used).unwrap_or_default())?;
        let capabilities = choice.capabilities;
        Ok((ResponderWaiting { noise, shared, suite, version, kind, capabilities, own_static }, reply))
    }
}

impl ResponderWaiting {
    /// Takes message 3 and yields the keys.
    pub(crate) fn on_message3(mut self, message: &[u8]) -> Result<Finished, HandshakeError> {
        if !self.noise.read(message)?.is_empty() {
            return Err(CodecError::Trailing.into());
        }
        let noise = self.noise.finish()?;
        if noise.remote_static == self.own_static {
            return Err(HandshakeError::Reflected);
        }
        Ok(Finished {
            root: Root::new(&noise.split, self.shared.as_ref(), self.suite, noise.handshake_hash),
            handshake_hash: noise.handshake_hash,
            remote_static: noise.remote_static,
            suite: self.suite,
            version: self.version,
            kind: self.kind,
            capabilities: self.capabilities,
        })
    }
}
