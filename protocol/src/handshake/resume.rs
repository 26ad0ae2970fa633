//! A handshake by ticket: two messages under a secret that nobody knows but the two ends of an earlier connection.
//!
//! Ephemeral keys make it forward secret. No new ML-KEM secret is made: that of the ticket came from one, if the suite is
//! hybrid, and both sides drop it here. So a ticket serves suites with its own key exchange and no others.

use super::choice::Choice;
use super::initiator::Opening;
use super::noise::{Noise, Side};
use super::{BeginError, Finished, HandshakeError, Hello, KeyExchange, Kind, Responder, Suite, VERSIONS};
use crate::codec::{CodecError, Reader, Writer};
use crate::keys::{Random, Root, Secret, TicketId};

/// What a handshake needs of a ticket.
pub(crate) struct Presented {
    pub(crate) id: TicketId,
    pub(crate) secret: Secret<32>,
    /// Of the connection that it came from.
    pub(crate) exchange: KeyExchange,
    pub(crate) remote_static: [u8; 32],
}

/// The ticket was presented, message 2 is awaited.
pub(crate) struct Resuming {
    noise: Noise,
    hello: Hello,
    secret: Secret<32>,
    remote_static: [u8; 32],
}

impl Resuming {
    /// `suites` is what the floor permits; those with the key exchange of the ticket are offered.
    pub(crate) fn begin(
        ticket: Presented,
        mut suites: Vec<Suite>,
        capabilities: u32,
        random: &mut dyn Random,
    ) -> Result<(Self, Opening), BeginError> {
        let Presented { id, secret, exchange, remote_static } = ticket;
        suites.retain(|suite| suite.exchange == exchange);
        let versions = VERSIONS.to_vec();
        let hello = Hello { kind: Some(Kind::Resume), versions, suites, capabilities, ticket: Some(id) };
        let bytes = hello.encode().map_err(|_| BeginError::Crypto)?;
        let ephemeral = Secret::random(random)?;
        let mut noise = Noise::resumed(Side::Initiator, &bytes, &secret, ephemeral)?;
        let message = noise.write(&[]).map_err(|_| BeginError::Crypto)?;
        Ok((Self { noise, hello, secret, remote_static }, Opening { hello: bytes, message }))
    }

    /// Takes message 2 and yields the keys.
    pub(crate) fn on_message2(mut self, message: &[u8]) -> Result<Finished, HandshakeError> {
        let payload = self.noise.read(message)?;
        let mut reader = Reader::new(&payload);
        let choice = Choice::read(&mut reader, &self.hello)?;
        reader.finish()?;
        finished(self.noise, &choice, &self.secret, self.remote_static)
    }
}

/// Takes message 1, behind a hello with exactly these bytes that presents the ticket, and yields the keys and message 2.
pub(crate) fn answer_ticket(
    mut responder: Responder,
    ticket: &Presented,
    hello: &Hello,
    hello_bytes: &[u8],
    message: &[u8],
) -> Result<(Finished, Vec<u8>), HandshakeError> {
    responder.suites.retain(|suite| suite.exchange == ticket.exchange);
    let (kind, version, suite) = responder.choose(hello)?;
    if kind != Kind::Resume || hello.ticket != Some(ticket.id) {
        return Err(HandshakeError::Ticket);
    }
    let mut noise = Noise::resumed(Side::Responder, hello_bytes, &ticket.secret, responder.ephemeral)
        .map_err(|_| HandshakeError::Crypto)?;
    if !noise.read(message)?.is_empty() {
        return Err(CodecError::Trailing.into());
    }
    let choice = Choice::new(version, suite, hello, responder.capabilities);
    let mut payload = [0; Choice::BYTES];
    choice.write(&mut Writer::new(&mut payload))?;
    let reply = noise.write(&payload)?;
    Ok((finished(noise, &choice, &ticket.secret, ticket.remote_static)?, reply))
}

fn finished(
    noise: Noise,
    choice: &Choice,
    secret: &Secret<32>,
    remote_static: [u8; 32],
) -> Result<Finished, HandshakeError> {
    let (split, handshake_hash) = noise.split()?;
    let Choice { version, suite, capabilities } = *choice;
    let root = Root::resumed(&split, secret, suite, handshake_hash);
    Ok(Finished { root, handshake_hash, remote_static, suite, version, kind: Kind::Resume, capabilities })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sealane_types::Cipher;

    use super::super::capability;
    use super::*;
    use crate::keys::{MlKem768, RandomFailed, StaticKey};

    struct Fixed(u8);

    impl Random for Fixed {
        fn fill(&mut self, bytes: &mut [u8]) -> Result<(), RandomFailed> {
            bytes.fill(self.0);
            Ok(())
        }
    }

    fn presented(exchange: KeyExchange) -> Presented {
        let secret = Secret::take(&mut [7; 32]);
        Presented { id: TicketId([1; 16]), secret, exchange, remote_static: [2; 32] }
    }

    /// What a responder answers that permits both key exchanges, to whoever has the secret of a ticket of `from` and says that
    /// it came of `pretended`.
    fn answered(from: KeyExchange, pretended: KeyExchange) -> Option<HandshakeError> {
        let suites = Suite::offer(&[Cipher::Aes256Gcm], true);
        let begun =
            Resuming::begin(presented(pretended), suites.clone(), capability::of(false), &mut Fixed(3));
        let Ok((_, opening)) = begun else { panic!("it begins") };
        let hello = Hello {
            kind: Some(Kind::Resume),
            versions: VERSIONS.to_vec(),
            suites: suites.iter().copied().filter(|suite| suite.exchange == pretended).collect(),
            capabilities: capability::of(false),
            ticket: Some(TicketId([1; 16])),
        };
        let responder = Responder {
            static_key: Arc::new(StaticKey::generate(&mut Fixed(4)).unwrap()),
            kem: Arc::new(MlKem768),
            suites,
            audit: false,
            capabilities: capability::of(false),
            ephemeral: Secret::random(&mut Fixed(5)).unwrap(),
        };
        answer_ticket(responder, &presented(from), &hello, &opening.hello, &opening.message).err()
    }

    #[test]
    fn a_ticket_opens_nothing_with_another_key_exchange() {
        use KeyExchange::{Classical, Hybrid};
        for exchange in [Classical, Hybrid] {
            assert_eq!(answered(exchange, exchange), None);
        }
        assert_eq!(answered(Classical, Hybrid), Some(HandshakeError::Suite));
        assert_eq!(answered(Hybrid, Classical), Some(HandshakeError::Suite));
    }
}
