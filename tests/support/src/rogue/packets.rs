//! Flights and packets of `PROTOCOL.md` §13, written out, and an honest side of a connection over datagrams with a rogue
//! at its other end.

use std::net::{Ipv4Addr, SocketAddr};

use aws_lc_rs::aead::Aad;
use aws_lc_rs::aead::quic::{AES_128, AES_256, CHACHA20, HeaderProtectionKey};
use sealane_protocol::Moment;
use sealane_protocol::connection::{AcceptSetup, Connection, Fail, Setup, Sink};
use sealane_protocol::datagram::{Engine, Greeter, Greeting, Tuning};
use sealane_protocol::handshake::Kind;
use sealane_types::{Cipher, CongestionChoice};

use super::opposed::{Deaf, EPHEMERAL};
use super::{
    Answering, DATA, Dialling, Direction, Opposed, Rogue, RogueIs, SUITE, confirm, evidence, header, hello,
    ready,
};
use crate::rehearsal::{EMBEDDER_STATIC, FIXED_SECRET, RANKER_STATIC, rehearsed, rehearsed_local};
use crate::world::{Counter, Who, session};

/// How the rogue calls its connection.
const OWN: [u8; 8] = [0x0b; 8];
const TUNING: Tuning = Tuning { congestion: CongestionChoice::Cubic, datagram_bytes_max: 1_472 };

/// Where datagrams of the rogue come from.
#[must_use]
pub fn source() -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, 66), 14_710).into()
}

/// Seals packets of one direction.
pub struct Packets {
    direction: Direction,
    mask: HeaderProtectionKey,
    to: [u8; 8],
    flag: u8,
}

impl Packets {
    fn new(link: &Direction, to: [u8; 8]) -> Self {
        let (direction, key) = link.over_datagrams();
        let algorithm = match direction.cipher() {
            Cipher::Aes256Gcm | Cipher::Aegis256X4 => &AES_256,
            Cipher::ChaCha20Poly1305 => &CHACHA20,
            Cipher::Aes128Gcm => &AES_128,
        };
        let mask = HeaderProtectionKey::new(algorithm, &key[..algorithm.key_len()]).unwrap();
        Self { direction, mask, to, flag: 0 }
    }

    /// The next packet, with any plaintext.
    pub fn seal(&mut self, plaintext: &[u8]) -> Vec<u8> {
        let low = (self.direction.sequence as u32).to_be_bytes();
        let mut head = [&[0x40 | self.flag][..], &self.to, &low].concat();
        let mut body = plaintext.to_vec();
        let (key, nonce) = (self.direction.key(), self.direction.nonce());
        key.seal_in_place_append_tag(nonce, Aad::from(&head), &mut body).unwrap();
        self.direction.sequence += 1;
        let mask = self.mask.new_mask(&body[..16]).unwrap();
        head[0] ^= mask[0] & 0x1f;
        head[9..].iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
        [head, body].concat()
    }

    /// Passes over numbers, as if packets had been lost.
    pub const fn skip(&mut self, numbers: u64) {
        self.direction.sequence = self.direction.sequence.saturating_add(numbers);
    }

    /// The next phase.
    pub fn update(&mut self) {
        self.direction.advance();
        self.flag ^= 1;
    }
}

/// An honest side over datagrams, and the rogue.
pub struct Posted {
    pub opposed: Opposed,
    pub engine: Engine,
    pub packets: Packets,
    /// Bytes of the sequence that the rogue has said in order.
    pub said: u64,
}

impl Posted {
    /// Keys are shared and nothing has been said under them by the rogue.
    #[must_use]
    pub fn keyed(rogue_is: RogueIs) -> Self {
        let now = Moment::from_micros(1_000_000);
        let local = rehearsed_local(rogue_is.victim());
        let (honest, engine, rogue) = match rogue_is {
            RogueIs::Initiator => {
                let setup = AcceptSetup { local, audit: false };
                let honest = Connection::accept(setup, &mut Counter(2), now).unwrap();
                accepted(honest.over_datagrams(), now)
            }
            RogueIs::Responder => {
                let (kind, expected) = (Kind::Full, Who::Ranker.peer());
                let setup = Setup { local, kind, expected, session: session() };
                let honest = Connection::initiate(setup, &mut Counter(2), now).unwrap();
                dialled(honest.over_datagrams(), now)
            }
        };
        let packets = Packets::new(&rogue.seal, engine.id().bytes());
        Self { opposed: Opposed::new(honest, rogue, rogue_is, now), engine, packets, said: 0 }
    }

    /// Both sides have a verdict: a rehearsed one, and the rogue's, which would take anybody.
    #[must_use]
    pub fn established(rogue_is: RogueIs) -> Self {
        let mut posted = Self::keyed(rogue_is);
        let claim = confirm(&posted.opposed.claim());
        let proof = evidence(&rehearsed(rogue_is.who()).evidence.encode().unwrap());
        // The side that dials proves first, and is told that it may begin.
        let said = match rogue_is {
            RogueIs::Initiator => vec![claim, proof, ready()],
            RogueIs::Responder => vec![claim, proof],
        };
        for frames in said {
            posted.say(&frames, &mut Deaf).unwrap();
        }
        assert!(posted.opposed.honest.is_established(), "{:?}", posted.opposed.events);
        posted
    }

    /// Says frames as one record in one packet, which is next in the sequence.
    ///
    /// # Errors
    /// What the honest side finds wrong with it.
    pub fn say(&mut self, frames: &[u8], sink: &mut dyn Sink) -> Result<(), Fail> {
        let record = [&header(DATA, frames.len())[..], frames].concat();
        let plaintext = [&[2][..], &self.said.to_be_bytes(), &record].concat();
        self.said += record.len() as u64;
        let packet = self.packets.seal(&plaintext);
        self.deliver(&packet, source(), sink)
    }

    /// Hands a datagram to the honest side, and answers what it asks.
    ///
    /// # Errors
    /// See [`Self::say`].
    pub fn deliver(&mut self, datagram: &[u8], from: SocketAddr, sink: &mut dyn Sink) -> Result<(), Fail> {
        let Self { opposed, engine, .. } = self;
        let mut datagram = datagram.to_vec();
        let result = engine.handle_datagram(&mut opposed.honest, opposed.now, from, &mut datagram, sink);
        opposed.answer();
        result
    }

    /// What the honest side sends now, with where it goes.
    pub fn hear(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.opposed.answer();
        heard(&mut self.engine, &mut self.opposed.honest, self.opposed.now)
    }
}

fn heard(engine: &mut Engine, honest: &mut Connection, now: Moment) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut all, mut space) = (Vec::new(), [0; 2_048]);
    while let Some(transmit) = engine.poll_transmit(honest, now, &mut space, 1) {
        all.push((transmit.to, space[..transmit.bytes].to_vec()));
    }
    all
}

/// One datagram with all of a flight.
fn flight(to: [u8; 8], index: u8, cookie: &[u8], bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u16).to_be_bytes();
    [&[0x82, 1][..], &to, &OWN, &[index], &length, &[0; 2], cookie, bytes].concat()
}

/// The bytes of the flight that these datagrams carry, whose head has `head` bytes.
fn whole(datagrams: &[(SocketAddr, Vec<u8>)], head: usize) -> Vec<u8> {
    datagrams.iter().flat_map(|(_, datagram)| datagram[head..].to_vec()).collect()
}

/// The rogue dials.
fn accepted(mut honest: Connection, now: Moment) -> (Connection, Engine, Rogue) {
    let greeter = Greeter::new(&mut Counter(4)).unwrap();
    let mut ask = [&[0x80, 1][..], &OWN].concat();
    ask.resize(1_200, 0);
    let mut space = [0; 64];
    let Greeting::Answer(length) = greeter.greet(now, source(), &ask, &mut space) else {
        panic!("it was not given a cookie")
    };
    let cookie = space[10..length].to_vec();
    let (rogue, first) = Dialling::begin((EMBEDDER_STATIC, EPHEMERAL), &hello(0, &[SUITE]), &[0x4b; 1_184]);
    let mut first = flight([0; 8], 0, &cookie, &first);
    let Greeting::Begin(beginning) = greeter.greet(now, source(), &first, &mut space) else {
        panic!("its cookie is good")
    };
    let mut engine = Engine::accept(&beginning, TUNING, &mut Counter(5)).unwrap();
    engine.handle_datagram(&mut honest, now, source(), &mut first, &mut Deaf).unwrap();
    let reply = whole(&heard(&mut engine, &mut honest, now), 23);
    let (rogue, third) = rogue.finish(&reply, &[], SUITE, |_| FIXED_SECRET).unwrap();
    let mut third = flight(engine.id().bytes(), 2, &[], &third);
    engine.handle_datagram(&mut honest, now, source(), &mut third, &mut Deaf).unwrap();
    (honest, engine, rogue)
}

/// The rogue is dialled.
fn dialled(mut honest: Connection, now: Moment) -> (Connection, Engine, Rogue) {
    let mut engine = Engine::initiate(&mut honest, source(), TUNING, &mut Counter(5), now).unwrap();
    assert_eq!(heard(&mut engine, &mut honest, now).len(), 1, "it asks");
    let to = engine.id().bytes();
    let mut cookie = [&[0x81, 1][..], &to, &[7; 20]].concat();
    engine.handle_datagram(&mut honest, now, source(), &mut cookie, &mut Deaf).unwrap();
    let first = whole(&heard(&mut engine, &mut honest, now), 43);
    let choice = [&[0, 1][..], &SUITE.code().to_be_bytes(), &[0; 4], &[0x63; 1_088]].concat();
    let answer = |_: &[u8]| (choice, Some(FIXED_SECRET));
    let (rogue, reply) = Answering::begin((RANKER_STATIC, EPHEMERAL), &first, SUITE, answer).unwrap();
    let mut reply = flight(to, 1, &[], &reply);
    engine.handle_datagram(&mut honest, now, source(), &mut reply, &mut Deaf).unwrap();
    // Its first packets may come right behind the flight.
    let mut sent = heard(&mut engine, &mut honest, now);
    sent.retain(|(_, datagram)| datagram[0] == 0x82);
    let (rogue, _) = rogue.finish(&whole(&sent, 23)).unwrap();
    (honest, engine, rogue)
}
