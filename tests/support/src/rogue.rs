//! A second implementation of the wire, from `PROTOCOL.md` alone: Noise, key schedule, records and frames share no code
//! with the product. It completes handshakes like anybody honest, and then says what a test tells it to say, sealed
//! with genuine keys. That honest connections understand it at all holds the page against the code.

mod frames;
mod kdf;
mod noise;
mod opposed;
mod packets;
mod record;
mod resumed;

use sealane_protocol::handshake::Suite;

use self::noise::{Noise, public};
use self::record::Keys;

pub use frames::{Claim, bulk, close, confirm, evidence, frame, ready, split};
pub use noise::Broken;
pub use opposed::{Opposed, RogueIs, SUITE, drain};
pub use packets::{Packets, Posted, source};
pub use record::{BULK, DATA, Direction, KEY_UPDATE, Tickets, header};
pub use resumed::{Presenting, presentation};

/// A handshake message with its header.
pub fn handshake(message: &[u8]) -> Vec<u8> {
    [&header(1, message.len())[..], message].concat()
}

/// The body of the first message in `bytes`.
fn body(bytes: &[u8]) -> Result<&[u8], Broken> {
    let (header, rest) = bytes.split_first_chunk::<4>().ok_or(Broken)?;
    rest.get(..u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize).ok_or(Broken)
}

/// A hello of version 1.
pub fn hello(kind: u8, suites: &[Suite]) -> Vec<u8> {
    hello_with(kind, suites, 0, &[])
}

/// One with capabilities, and what stands behind them.
pub fn hello_with(kind: u8, suites: &[Suite], capabilities: u32, rest: &[u8]) -> Vec<u8> {
    let mut body = vec![kind, 1, 0, 1, suites.len() as u8];
    suites.iter().for_each(|suite| body.extend(suite.code().to_be_bytes()));
    body.extend(capabilities.to_be_bytes());
    body.extend(rest);
    [&b"SEALANE\0"[..], &(body.len() as u16).to_be_bytes(), &body].concat()
}

/// Shared keys, as the rogue has them.
pub struct Rogue {
    pub seal: Direction,
    pub open: Direction,
    pub handshake_hash: [u8; 32],
    pub binding_key: [u8; 32],
    pub remote_static: [u8; 32],
    pub tickets: Tickets,
}

/// The rogue as the side that dials, with message 2 still to come. `K` opens the responder's ciphertext.
#[derive(Clone)]
pub struct Dialling {
    noise: Noise,
}

impl Dialling {
    /// The first flight behind `hello`, with any payload in message 1.
    #[must_use]
    pub fn begin(secrets: ([u8; 32], [u8; 32]), hello: &[u8], payload: &[u8]) -> (Self, Vec<u8>) {
        let mut noise = Noise::new(hello, secrets.0, secrets.1);
        let message = handshake(&noise.write_1(payload));
        (Self { noise }, [hello, &message].concat())
    }

    /// Takes message 2 and yields message 3, with any payload, and the keys for `suite`.
    ///
    /// # Errors
    /// [`Broken`] when message 2 does not verify.
    pub fn finish(
        mut self,
        reply: &[u8],
        payload: &[u8],
        suite: Suite,
        kem: impl FnOnce(&[u8]) -> [u8; 32],
    ) -> Result<(Rogue, Vec<u8>), Broken> {
        let choice = self.noise.read_2(body(reply)?)?;
        let shared = suite.post_quantum().then(|| kem(choice.get(8..).unwrap_or_default()));
        let message = handshake(&self.noise.write_3(payload));
        let finished = self.noise.finish();
        let Keys { initiator, responder, binding, tickets } = Keys::new(&finished, shared, suite);
        let rogue = Rogue {
            seal: initiator,
            open: responder,
            handshake_hash: finished.hash,
            binding_key: binding,
            remote_static: finished.remote_static,
            tickets,
        };
        Ok((rogue, message))
    }
}

/// The rogue as the side that was dialled, with message 3 still to come.
#[derive(Clone)]
pub struct Answering {
    noise: Noise,
    shared: Option<[u8; 32]>,
    suite: Suite,
}

impl Answering {
    /// Takes the first flight and yields message 2 with any payload: `payload` sees the initiator's encapsulation key
    /// and returns what to say, and the secret that both share.
    ///
    /// # Errors
    /// [`Broken`] when it is no first flight.
    pub fn begin(
        secrets: ([u8; 32], [u8; 32]),
        flight: &[u8],
        suite: Suite,
        payload: impl FnOnce(&[u8]) -> (Vec<u8>, Option<[u8; 32]>),
    ) -> Result<(Self, Vec<u8>), Broken> {
        let fixed = flight.get(8..10).ok_or(Broken)?;
        let length = 10 + usize::from(u16::from_be_bytes([fixed[0], fixed[1]]));
        let (hello, rest) = flight.split_at_checked(length).ok_or(Broken)?;
        let mut noise = Noise::new(hello, secrets.0, secrets.1);
        let key = noise.read_1(body(rest)?)?;
        let (payload, shared) = payload(&key);
        let reply = handshake(&noise.write_2(&payload));
        Ok((Self { noise, shared, suite }, reply))
    }

    /// Takes message 3 and yields the keys, and how many bytes of `flight` it was.
    ///
    /// # Errors
    /// [`Broken`] when it does not verify.
    pub fn finish(mut self, flight: &[u8]) -> Result<(Rogue, usize), Broken> {
        let message = body(flight)?;
        self.noise.read_3(message)?;
        let finished = self.noise.finish();
        let Keys { initiator, responder, binding, tickets } = Keys::new(&finished, self.shared, self.suite);
        let rogue = Rogue {
            seal: responder,
            open: initiator,
            handshake_hash: finished.hash,
            binding_key: binding,
            remote_static: finished.remote_static,
            tickets,
        };
        Ok((rogue, 4 + message.len()))
    }
}

/// The public half of a static key of tests.
pub fn public_key(private: &[u8; 32]) -> [u8; 32] {
    public(private)
}
