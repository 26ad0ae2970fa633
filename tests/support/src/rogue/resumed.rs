//! The rogue as the side that presents a ticket.

use sealane_protocol::handshake::Suite;

use super::noise::{Broken, Noise};
use super::record::Keys;
use super::{Rogue, body, handshake, hello_with};

/// A hello that presents the ticket of this name.
pub fn presentation(id: &[u8; 16], suites: &[Suite]) -> Vec<u8> {
    hello_with(1, suites, 1, id)
}

/// A ticket was presented, message 2 is still to come.
pub struct Presenting {
    noise: Noise,
    ticket: [u8; 32],
}

impl Presenting {
    /// The first flight behind `hello`, under the secret of a ticket, with any payload in message 1.
    #[must_use]
    pub fn begin(ephemeral: [u8; 32], hello: &[u8], ticket: [u8; 32], payload: &[u8]) -> (Self, Vec<u8>) {
        let mut noise = Noise::resumed(hello, &ticket, ephemeral);
        let message = handshake(&noise.present(payload));
        (Self { noise, ticket }, [hello, &message].concat())
    }

    /// Takes message 2 and yields the keys for `suite`.
    ///
    /// # Errors
    /// [`Broken`] when message 2 does not verify.
    pub fn finish(mut self, reply: &[u8], suite: Suite) -> Result<Rogue, Broken> {
        self.noise.read_answer(body(reply)?)?;
        let finished = self.noise.finish();
        let Keys { initiator, responder, binding, tickets } = Keys::new(&finished, Some(self.ticket), suite);
        Ok(Rogue {
            seal: initiator,
            open: responder,
            handshake_hash: finished.hash,
            binding_key: binding,
            remote_static: finished.remote_static,
            tickets,
        })
    }
}
